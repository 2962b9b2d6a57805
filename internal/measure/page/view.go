package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/unit"
)

// run holds the parts of the page for one record.
type run struct {
	*evidence.Run
	Anchor   string
	Headline string
	// Tone is the color of the headline, and Sign states the same without color.
	Tone, Sign string
	When, Took string
	Proof      *proof
	Bench      *bench
	Short      *strip // among several runs
	Again      []string
	Memory     string
}

// view reads the body of the n-th record.
func view(r *evidence.Run, n int) (*run, error) {
	v := &run{Run: r, Anchor: "run-" + strconv.Itoa(n+1), Headline: r.Verdict, Tone: "plain", Sign: "●",
		When: r.Began.UTC().Format("2006-01-02 15:04 UTC")}
	if r.Machine.MemoryBytes > 0 {
		v.Memory = unit.Size(r.Machine.MemoryBytes).Human()
	}
	if !r.Ended.IsZero() {
		v.Took = r.Ended.Sub(r.Began).Round(time.Second).String()
	}
	v.Again = []string{r.Command}
	if r.Kind == "prove" {
		var e prove.Evidence
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return nil, err
		}
		var err error
		if v.Proof, err = newProof(&e); err != nil {
			return nil, err
		}
		v.Headline, v.Tone, v.Sign = headline(e.Text), string(e.Word), signs[e.Word]
		if v.Sign == "" {
			return nil, fmt.Errorf("its verdict is %q", e.Word)
		}
		if again, is := strings.CutPrefix(r.Command, "fettle prove "); is && !strings.Contains(r.Command, " --seed ") {
			v.Again = []string{fmt.Sprintf("fettle prove --seed %d %s", e.Design.Seed, again)}
		}
		return v, nil
	}
	var err error
	v.Bench, err = newBench(r)
	return v, err
}

// signs are the verdicts without color.
var signs = map[prove.Word]string{prove.Better: "▲", prove.Worse: "▼", prove.NoEffect: "=", prove.CannotTell: "?"}

// headline returns a verdict without its interval, which is drawn.
func headline(text string) string {
	text, _, _ = strings.Cut(text, " [")
	text, _, _ = strings.Cut(text, ": ")
	return text
}

// Long reports whether the headline needs smaller letters.
func (v *run) Long() bool { return len(v.Headline) > 48 }

func (v *run) charted() bool {
	return v.Proof != nil && v.Proof.Samples != nil || v.Bench != nil && len(v.Bench.Curves) > 0
}

// difference is a property in which the machines of several runs differ.
type difference struct {
	Name   string
	Values []string // by run
}

// differences returns the properties and settings in which the machines of runs differ.
func differences(runs []*evidence.Run) (out []difference) {
	add := func(name string, of func(*evidence.Machine) string) {
		d := difference{Name: name}
		for _, r := range runs {
			d.Values = append(d.Values, of(&r.Machine))
		}
		if len(slices.Compact(slices.Clone(d.Values))) > 1 {
			out = append(out, d)
		}
	}
	add("machine", func(m *evidence.Machine) string { return m.Name })
	add("hardware", (*evidence.Machine).HardwareText)
	add("system", func(m *evidence.Machine) string { return m.OS })
	add("kernel", func(m *evidence.Machine) string { return m.Kernel })
	names := map[string]bool{}
	for _, r := range runs[1:] {
		for _, name := range runs[0].Machine.Differing(r.Machine) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add(name, func(m *evidence.Machine) string {
			if value, has := m.Settings[name]; has {
				return value
			}
			return "not there"
		})
	}
	return out
}

// amount formats a value with its unit for a reader.
func amount(v float64, u string) string {
	if u == "bytes" && v >= 0 && v < 1<<63 {
		return unit.Size(v).Human()
	}
	return strings.TrimSpace(digits(v) + " " + u)
}

// digits formats a number with four significant digits.
func digits(v float64) string {
	if a := math.Abs(v); a >= 1e15 || a > 0 && a < 1e-6 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if math.Abs(v) >= 1e4 {
		rounded = math.Round(v)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
