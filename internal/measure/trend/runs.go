package trend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// OfRuns returns the samples of recorded runs: the median of each series of a benchmark, and of an
// experiment that of the runs without its change. Runs that were interrupted are left out. failed has
// the errors of runs that cannot be read; out has the others.
func OfRuns(runs []*evidence.Run) (out []Sample, failed []error) {
	seen := map[string]bool{}
	for _, r := range runs {
		if r.ID != "" && seen[r.ID] || evidence.InterruptionOf(r) != nil {
			continue
		}
		seen[r.ID] = true
		series, err := seriesOf(r)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, s := range series {
			if len(s.Samples) > 0 {
				// Not by its hardware digest: it has the microcode, whose update is one of the causes.
				machine := strings.TrimSpace(r.Machine.Name + " " + r.Machine.CPU)
				out = append(out, Sample{Of: s.of, Machine: machine, Name: s.Name, Unit: s.Unit, More: s.More,
					Point: Point{Label: r.ID, Time: r.Began, Value: stats.Median(s.Samples), run: r}})
			}
		}
	}
	return out, failed
}

// measurements is a series of one run, with what was measured.
type measurements struct {
	evidence.Series
	of string
}

// seriesOf returns the measurements of a run.
func seriesOf(r *evidence.Run) (out []measurements, err error) {
	if r.Kind == "prove" {
		return baseline(r)
	}
	series, err := evidence.SeriesOf(r)
	for _, s := range series {
		out = append(out, measurements{s, measured(r.Command)})
	}
	return out, err
}

// asked are the options of an experiment that define what is measured, as package experiment records
// them.
type asked struct {
	Dir        string   `json:"directory"`
	Bench      string   `json:"bench"`
	Metric     string   `json:"metric"`
	Also       []string `json:"also_metrics"`
	Percentile *float64 `json:"percentile"` // of Metric; nil or negative: the last number
}

// baseline returns the measurements of an experiment without its change, or of command A: one series
// per metric. It returns no series for running work, whose load differs each time.
func baseline(r *evidence.Run) (out []measurements, err error) {
	e, err := prove.EvidenceOf(r)
	if err != nil {
		return nil, err
	}
	if e.Design.Live != nil {
		return nil, nil
	}
	var o asked
	if len(e.Asked) > 0 {
		if err := json.Unmarshal(e.Asked, &o); err != nil {
			return nil, fmt.Errorf("run %s: its options cannot be read: %w", r.ID, err)
		}
	}
	of := text.CommandLine(e.Work)
	if e.Change.A != "" {
		of = strings.TrimSpace(e.Change.A + " " + of)
	}
	if o.Dir != "" && o.Bench == "" { // a benchmark does not depend on it
		of += " in " + o.Dir
	}
	patterns := append([]string{o.Metric}, o.Also...)
	for i, m := range append([]prove.Metric{e.Design.Metric}, e.Design.Also...) {
		s := measurements{evidence.Series{Name: m.Name, Unit: m.Unit, More: m.More}, of}
		if i < len(patterns) && o.Bench == "" && strings.Contains(patterns[i], "=") {
			s.of += ", " + patterns[i]
		}
		if i == 0 && o.Percentile != nil && *o.Percentile >= 0 {
			s.of += ", percentile " + unit.Exact(*o.Percentile)
		}
		for _, v := range e.Samples {
			if v.Arm == prove.Without && e.Counts(v) {
				s.Samples = append(s.Samples, v.Values[m.Name])
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// withoutEffect are options that do not affect what is measured. Those that map to true have a value.
var withoutEffect = map[string]bool{
	"-o": true, "--output": true, "--state-dir": true, "--reason": true, "--textfile": true, "--expect": true, "--profile-dir": true,
	"--wide": false, "--yes": false, "-y": false, "--details": false, "--force": false,
}

// measured returns a command line without the options that do not affect what is measured, so that
// the same measurement has the same name.
func measured(command string) string {
	words := text.SplitCommand(command)
	var kept []string
	for i := 0; i < len(words); i++ {
		name, _, assigned := strings.Cut(words[i], "=")
		valued, is := withoutEffect[name]
		switch {
		case words[i] == "--":
			return text.CommandLine(append(kept, words[i:]...))
		case !is:
			kept = append(kept, words[i])
		case valued && !assigned:
			i++
		}
	}
	return text.CommandLine(slices.Clip(kept))
}
