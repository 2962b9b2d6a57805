package prove

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/stats"
	internaltext "fettle.dev/fettle/internal/text"
)

// Printed is a metric printed by the command.
type Printed struct {
	Name string
	// Number matches the number: its first group, or the whole match. It is nil if Read is set.
	Number *regexp.Regexp
	// Read returns the numbers in the standard output of a benchmark.
	Read func(output []byte) ([]float64, error)
	// Percentile combines several numbers: 0 to 100. A negative value means the last number, or the
	// median of those that Read returns.
	Percentile float64
}

// thousands matches a number with thousands separators.
var thousands = internaltext.LazyRegexp(`^\d{1,3}(,\d{3})+(\.\d*)?$`)

// pattern returns Number without the flag for lines.
func (p Printed) pattern() string { return strings.TrimPrefix(p.Number.String(), "(?m)") }

// find returns the metric from the output and the messages of the command. all holds the numbers
// that are combined.
func (p Printed) find(output, messages []byte) (float64, []float64, error) {
	if p.Read != nil {
		all, err := p.Read(output)
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Percentile < 0 {
			return stats.Median(all), all, nil
		}
		return stats.Quantile(all, p.Percentile/100), all, nil
	}
	var all []float64
	for _, m := range p.Number.FindAllSubmatch(slices.Concat(output, messages), -1) {
		word := m[0]
		if len(m) > 1 {
			word = m[1]
		}
		text := string(word)
		if thousands().MatchString(text) {
			text = strings.ReplaceAll(text, ",", "")
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0, nil, fmt.Errorf("%s: %q, found by %s, is not a number (such as 1234.5 or 1,234.5)", p.Name, word, p.pattern())
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return 0, nil, fmt.Errorf("%s does not appear in the command's output: nothing matches %s", p.Name, p.pattern())
	}
	if p.Percentile < 0 {
		return all[len(all)-1], nil, nil
	}
	return stats.Quantile(all, p.Percentile/100), all, nil
}

// Formats of benchmarks whose output is read, as in --metric.
const (
	goBench   = "gobench"
	hyperfine = "hyperfine"
)

// BenchmarkMetric returns the metric for gobench[:NAME[:UNIT]], of the output of go test -bench, or
// hyperfine[:COMMAND], of the JSON that hyperfine exports. ok is false for other texts.
func BenchmarkMetric(text string) (m Metric, p Printed, ok bool) {
	format, name, _ := strings.Cut(text, ":")
	m, p = Metric{Name: text}, Printed{Name: text}
	switch format {
	case goBench:
		name, unit := goBenchName(name)
		scale := 1.0
		switch unit {
		case "ns/op":
			m.Unit, scale = "s", 1e-9
		case "sec/op":
			m.Unit = "s"
		case "B/op":
			m.Unit = "bytes"
		default:
			m.Unit, m.More = unit, IsRate(unit)
		}
		p.Read = func(output []byte) ([]float64, error) { return readGoBench(output, name, unit, scale) }
	case hyperfine:
		m.Unit = "s"
		p.Read = func(output []byte) ([]float64, error) { return readHyperfine(output, name) }
	default:
		return m, p, false
	}
	return m, p, true
}

// goBenchName splits NAME[:UNIT].
func goBenchName(text string) (name, unit string) {
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		return text[:at], text[at+1:]
	}
	return text, "ns/op"
}

// readGoBench returns the values of a benchmark in the output of go test -bench, times scale. Without
// a name there must be only one benchmark.
func readGoBench(output []byte, name, unit string, scale float64) (values []float64, err error) {
	var names, units []string // of other benchmarks; of the chosen one
	number, matched := 0, ""
	for line := range bytes.Lines(output) {
		number++
		own, results, err := ParseBenchmark(string(line))
		at := fmt.Sprintf("output:%d: ", number)
		if err != nil {
			return nil, fmt.Errorf("%s%w", at, err)
		}
		if len(results) == 0 {
			continue
		}
		if name != "" && name != own && name != cpus().ReplaceAllString(own, "") {
			names = append(names, own)
			continue
		}
		if len(values) > 0 && matched != own {
			return nil, fmt.Errorf("%sa second benchmark, %s after %s; choose one with %s:NAME", at, own, matched, goBench)
		}
		matched = own
		found := false
		for _, r := range results {
			units = append(units, r.Unit)
			if r.Unit == unit {
				values, found = append(values, r.Value*scale), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%sno %s; the benchmark has %s", at, unit, several(units))
		}
	}
	switch {
	case len(values) > 0:
		return values, nil
	case len(names) == 0:
		return nil, errors.New("no line of the output is a result of go test -bench")
	}
	return nil, fmt.Errorf("no benchmark %s in the output; it has %s", name, several(names))
}

// cpus matches the number of CPUs at the end of a benchmark's name.
var cpus = internaltext.LazyRegexp(`-\d+$`)

// several lists names once, at most ten.
func several(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 10 {
		names = append(names[:10:10], fmt.Sprintf("%d more", len(names)-10))
	}
	return strings.Join(names, ", ")
}

// hyperfineExport is what hyperfine --export-json writes: version 1 times, version 2 measurements.
type hyperfineExport struct {
	Results []struct {
		Command      string    `json:"command"`
		Name         string    `json:"name"`
		Times        []float64 `json:"times"`
		Measurements []struct {
			Time *struct {
				Value float64 `json:"value"`
				Unit  string  `json:"unit"`
			} `json:"time_wall_clock"`
		} `json:"measurements"`
	} `json:"results"`
}

// readHyperfine returns the times of a command, in seconds. Without a name there must be only one
// command.
func readHyperfine(output []byte, name string) (times []float64, err error) {
	var export hyperfineExport
	if err := json.Unmarshal(output, &export); err != nil {
		return nil, jsonError(output, err)
	}
	var names []string
	found := 0
	for _, r := range export.Results {
		names = append(names, r.Command)
		if name != "" && name != r.Command && name != r.Name {
			continue
		}
		found++
		times = slices.Clone(r.Times)
		for i, m := range r.Measurements {
			if m.Time == nil || m.Time.Unit != "second" {
				return nil, fmt.Errorf("%s, measurement %d: want time_wall_clock in seconds", r.Command, i+1)
			}
			times = append(times, m.Time.Value)
		}
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("the output has no results; want that of hyperfine --style none --export-json /dev/stdout")
	case found == 0:
		return nil, fmt.Errorf("no command %s in the output; it has %s", name, several(names))
	case found > 1:
		return nil, fmt.Errorf("the output has %d commands; choose one with %s:COMMAND: %s", found, hyperfine, several(names))
	case len(times) == 0:
		return nil, fmt.Errorf("%s has no times", several(names))
	case slices.Contains(times, 0):
		return nil, errors.New("a time is 0, because hyperfine subtracts the start of the shell; use hyperfine --shell none")
	}
	return times, nil
}

// jsonType returns the type that JSON has for a type of a hyperfineExport.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "a string"
	}
	return "a number"
}

// jsonError adds the line to an error of package json.
func jsonError(text []byte, err error) error {
	at := int64(len(text))
	if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
		at = s.Offset
	}
	if u := (*json.UnmarshalTypeError)(nil); errors.As(err, &u) {
		at = u.Offset
		if err = fmt.Errorf("want %s, not %s", jsonType(u.Type), u.Value); u.Field != "" {
			err = fmt.Errorf("%s: %w", u.Field, err)
		}
	}
	return fmt.Errorf("output:%d: %w", 1+bytes.Count(text[:min(at, int64(len(text)))], []byte("\n")), err)
}
