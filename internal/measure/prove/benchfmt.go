package prove

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/unit"
)

// Benchfmt writes the samples of runs in Go's benchmark format for benchstat
// (golang.org/x/perf/benchfmt). An experiment has one line per counted run, with the arm as
// change=without or change=with. A bench has its series.
func Benchfmt(w io.Writer, runs []*evidence.Run) error {
	b := bufio.NewWriter(w)
	better := map[string]string{} // by unit; empty if the series disagree
	var lines [][]benchLine
	for _, r := range runs {
		l, err := benchLines(r)
		if err != nil {
			return err
		}
		lines = append(lines, l)
		for _, x := range l {
			for _, v := range x.values {
				if had, seen := better[v.unit]; seen && had != v.better {
					better[v.unit] = ""
				} else {
					better[v.unit] = v.better
				}
			}
		}
	}
	told := map[string]bool{}
	for i, r := range runs {
		// Values that differ between runs are written as comments: benchstat makes a table for
		// each value of a key.
		for _, remark := range []string{"run " + r.ID + ", began " + r.Began.UTC().Format("2006-01-02T15:04:05Z"), "command: " + r.Command, "verdict: " + r.Verdict,
			"machine: " + r.Machine.Name + ", kernel " + r.Machine.Kernel} {
			fmt.Fprintln(b, "# "+oneLine(remark))
		}
		fmt.Fprintf(b, "cpu: %s\n", oneLine(r.Machine.CPU))
		for _, x := range lines[i] {
			for _, v := range x.values {
				if !told[v.unit] && better[v.unit] != "" {
					fmt.Fprintf(b, "Unit %s better=%s\n", v.unit, better[v.unit])
				}
				told[v.unit] = true
			}
		}
		for _, x := range lines[i] {
			fmt.Fprintf(b, "Benchmark%s 1", x.name)
			for _, v := range x.values {
				fmt.Fprintf(b, " %s %s", unit.Exact(v.value), v.unit)
			}
			fmt.Fprintln(b)
		}
	}
	return b.Flush()
}

// benchLine is one result line.
type benchLine struct {
	name   string
	values []benchValue
}

type benchValue struct {
	value        float64
	unit, better string
}

func benchLines(r *evidence.Run) (out []benchLine, err error) {
	direction := map[bool]string{false: "lower", true: "higher"}
	if r.Kind != "prove" {
		series, err := evidence.SeriesOf(r)
		if err != nil {
			return nil, err
		}
		if len(series) == 0 {
			return nil, fmt.Errorf("run %s: a run of kind %q has no samples to export", r.ID, r.Kind)
		}
		for _, s := range series {
			scale, unit := benchUnit(s.Unit)
			for _, v := range s.Samples {
				out = append(out, benchLine{word(s.Name), []benchValue{{scale * v, unit, direction[s.More]}}})
			}
		}
		return out, nil
	}
	e, err := EvidenceOf(r)
	if err != nil {
		return nil, err
	}
	metrics := e.Design.deciding()
	for _, g := range e.Design.Guards {
		metrics = append(metrics, g.Metric)
	}
	sides := map[Arm]string{Without: "without", With: "with"}
	for _, v := range e.Samples {
		if !e.Counts(v) {
			continue
		}
		work := strings.ReplaceAll(strings.Join(e.Work, " "), "/", "_")
		switch {
		case e.Design.Live != nil:
			work = "live"
		case work == "":
			work = "comparison"
		}
		first := len(out) // a line for each benchmark that the work reports
		for _, m := range metrics {
			name, unit, scale := benchMetric(m)
			line := cmp.Or(name, work) + "/change=" + sides[v.Arm]
			at := slices.IndexFunc(out[first:], func(l benchLine) bool { return l.name == word(line) })
			if at < 0 {
				at = len(out) - first
				out = append(out, benchLine{name: word(line)})
			}
			out[first+at].values = append(out[first+at].values, benchValue{scale * v.Values[m.Name], unit, direction[m.More]})
		}
	}
	return out, nil
}

// benchMetric returns the unit of a metric and the factor for its values. name is that of the
// benchmark that reported it, or "".
func benchMetric(m Metric) (name, unit string, scale float64) {
	if format, rest, _ := strings.Cut(m.Name, ":"); format == goBench {
		name, unit = goBenchName(rest)
		if m.Unit == "s" {
			unit = "sec/op"
		}
		return name, unit, 1
	}
	scale, unit = benchUnit(m.Unit)
	if m.Name != "time" {
		unit = strings.TrimSuffix(word(m.Name)+"-"+unit, "-")
	}
	return "", unit, scale
}

// benchUnit converts a unit to benchstat's. scale is the factor for values.
func benchUnit(unit string) (scale float64, name string) {
	for _, u := range []struct {
		is, name string
		scale    float64
	}{
		{"s", "sec/op", 1}, {"ms", "sec/op", 1e-3}, {"us", "sec/op", 1e-6}, {"µs", "sec/op", 1e-6}, {"ns", "sec/op", 1e-9},
		{"bytes", "bytes", 1}, {"1/s", "op/s", 1}, {"MB/s", "B/s", 1e6}, {"KiB/s", "B/s", 1 << 10}, {"MiB/s", "B/s", 1 << 20}, {"GiB/s", "B/s", 1 << 30},
	} {
		if unit == u.is {
			return u.scale, u.name
		}
	}
	return 1, strings.Trim(word(unit), "_")
}

// word converts text to a single field, for a benchmark's name or a unit.
func word(text string) string {
	w := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '\ufffd' {
			return '_'
		}
		return r
	}, text)
	if w == "" {
		return "_"
	}
	return w
}

// oneLine replaces control characters and line ends by U+FFFD.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return '\ufffd'
		}
		return r
	}, text)
}
