package prove

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// hyperfineResult is one command of hyperfine's JSON (version 1), in seconds and bytes. User and
// System are nil if they were not measured; hyperfine always has them.
type hyperfineResult struct {
	Command string    `json:"command"`
	Mean    float64   `json:"mean"`
	SD      *float64  `json:"stddev"`
	Median  float64   `json:"median"`
	User    *float64  `json:"user,omitempty"`
	System  *float64  `json:"system,omitempty"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Times   []float64 `json:"times"`
	Memory  []int64   `json:"memory_usage_byte,omitempty"`
	Codes   []int     `json:"exit_codes"`
}

// Hyperfine writes the times of the runs of experiments that count in the JSON that hyperfine
// exports, each side as a command.
func Hyperfine(w io.Writer, runs []*evidence.Run) error {
	results := []hyperfineResult{}
	for _, r := range runs {
		if r.Kind != "prove" {
			return fmt.Errorf("run %s: a run of kind %q has no commands to export", r.ID, r.Kind)
		}
		e, err := EvidenceOf(r)
		if err != nil {
			return err
		}
		for _, arm := range []Arm{Without, With} {
			result, err := e.hyperfine(arm)
			if err != nil {
				return fmt.Errorf("run %s: %w", r.ID, err)
			}
			results = append(results, result)
		}
	}
	j := json.NewEncoder(w)
	j.SetIndent("", "  ")
	return j.Encode(map[string]any{"results": results})
}

func (e *Evidence) hyperfine(arm Arm) (r hyperfineResult, err error) {
	r.Command = map[Arm]string{Without: e.Change.A, With: e.Change.B}[arm]
	if r.Command == "" {
		r.Command = strings.Join(e.Work, " ") + map[Arm]string{Without: " (without the change)", With: " (with the change)"}[arm]
	}
	all := map[string][]float64{}
	for _, v := range e.Samples {
		if v.Arm != arm || !e.Counts(v) {
			continue
		}
		r.Times, r.Codes = append(r.Times, v.Values["time"]), append(r.Codes, 0)
		for _, name := range []string{"user-time", "system-time"} {
			if value, measured := v.Values[name]; measured {
				all[name] = append(all[name], value)
			}
		}
		if memory, measured := v.Values["max-memory"]; measured {
			r.Memory = append(r.Memory, int64(memory))
		}
	}
	if len(r.Times) == 0 || slices.Contains(r.Times, 0) {
		return r, errors.New("no times of a command to export")
	}
	r.Mean, r.Median, r.Min, r.Max = stats.Mean(r.Times), stats.Median(r.Times), slices.Min(r.Times), slices.Max(r.Times)
	// Records of older versions do not have these.
	mean := func(name string) *float64 {
		if len(all[name]) < len(r.Times) {
			return nil
		}
		m := stats.Mean(all[name])
		return &m
	}
	r.User, r.System = mean("user-time"), mean("system-time")
	if sd := stats.SD(r.Times); len(r.Times) > 1 && !math.IsNaN(sd) {
		r.SD = &sd
	}
	return r, nil
}
