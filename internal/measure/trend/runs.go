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
)

// OfRuns returns the samples of recorded runs: the median of each series of a benchmark, and of an
// experiment that of the runs without its change. Runs that were interrupted are left out.
func OfRuns(runs []*evidence.Run) (out []Sample, err error) {
	seen := map[string]bool{}
	for _, r := range runs {
		if r.ID != "" && seen[r.ID] || evidence.InterruptionOf(r) != nil {
			continue
		}
		seen[r.ID] = true
		of, series := measured(r.Command), []evidence.Series(nil)
		if r.Kind == "prove" {
			of, series, err = baseline(r)
		} else {
			series, err = evidence.SeriesOf(r)
		}
		if err != nil {
			return nil, err
		}
		for _, s := range series {
			if len(s.Samples) > 0 {
				// Not by its hardware digest: it has the microcode, whose update is one of the causes.
				machine := strings.TrimSpace(r.Machine.Name + " " + r.Machine.CPU)
				out = append(out, Sample{Of: of, Machine: machine, Name: s.Name, Unit: s.Unit, More: s.More,
					Point: Point{Label: r.ID, Time: r.Began, Value: stats.Median(s.Samples), run: r}})
			}
		}
	}
	return out, nil
}

// baseline returns the measurements of an experiment without its change, or of command A. It returns
// no series for running work, whose load differs each time.
func baseline(r *evidence.Run) (of string, out []evidence.Series, err error) {
	var e prove.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return "", nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	if e.Design.Live != nil {
		return "", nil, nil
	}
	of = text.CommandLine(e.Work)
	if e.Change.A != "" {
		of = strings.TrimSpace(e.Change.A + " " + of)
	}
	m := e.Design.Metric
	s := evidence.Series{Name: m.Name, Unit: m.Unit, More: m.More}
	for _, v := range e.Visits {
		if v.Arm == prove.Without && e.Counts(v) {
			s.Samples = append(s.Samples, v.Values[m.Name])
		}
	}
	return of, []evidence.Series{s}, nil
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
