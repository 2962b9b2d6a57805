package trend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
)

// maxResultFile is the size in bytes of the largest file of another benchmark that is read.
const maxResultFile = 64 << 20

// ReadFile reads a file of measurements: records of runs (fettle runs export), the output of go test
// -bench, or JSON of JMH. A file of JMH is one point of each series, and so is the output of go test
// -bench without the lines that begin a point; see parseBenchfmt.
func ReadFile(name string) ([]Sample, error) {
	f, err := host.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxResultFile+1))
	f.Close()
	switch start := bytes.TrimSpace(content); {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(start, []byte("{")): // has its own limit
		runs, err := evidence.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out, failed := OfRuns(runs)
		if len(failed) > 0 {
			return nil, fmt.Errorf("%s: %w", name, errors.Join(failed...))
		}
		return out, nil
	case len(content) > maxResultFile:
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxResultFile>>20)
	case bytes.HasPrefix(start, []byte("[")):
		out, err := parseJMH(filepath.Base(name), content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return out, nil
	}
	out, err := parseBenchfmt(filepath.Base(name), string(content))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no results of a benchmark; want a record of fettle, the output of go test -bench, or JSON of JMH", name)
	}
	return out, nil
}

// Configuration keys of benchfmt that identify a point; another value begins the next one. The keys
// of times are in order of preference.
var (
	timeKeys  = []string{"commit-time", "date"}
	pointKeys = []string{"commit", "commit-time", "date"}
	// A different value of one of environmentKeys begins another series, because it is from another
	// machine or package.
	environmentKeys = []string{"goos", "goarch", "cpu", "pkg"}
)

// parseBenchfmt parses the output of go test -bench in Go's benchmark data format
// (https://go.dev/design/14313-benchmark-format). The repetitions of a benchmark are one point: their
// median. The name of a series has its unit. A point begins with the file, and with a new value of
// one of pointKeys. Errors begin with the line.
func parseBenchfmt(file, content string) (out []Sample, err error) {
	config, better := map[string]string{}, map[string]bool{}
	type key struct {
		point       int
		of, name, u string
	}
	var order []key
	values := map[key][]float64{}
	points := []Point{{Label: file}}
	fresh := map[string]bool{} // keys since the last result
	for i, line := range strings.Split(content, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if unit, more, ok := benchUnit(line); ok {
			better[unit] = more
			continue
		}
		if k, v, ok := benchConfig(line); ok && (k != "date" || isTime(v)) {
			if old, has := config[k]; slices.Contains(pointKeys, k) && (!has || old != v) {
				if k == "commit" {
					maps.DeleteFunc(config, func(of, _ string) bool { // times of the commit before
						return slices.Contains(timeKeys, of) && (!fresh[of] || fresh["commit"])
					})
				}
				p, err := pointOf(file, config, k, v)
				if err != nil {
					return nil, fmt.Errorf("%d: %w", i+1, err)
				}
				points = append(points, p)
			}
			config[k], fresh[k] = v, true
			continue
		}
		name, results, err := prove.ParseBenchmark(line)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		if len(results) > 0 {
			clear(fresh)
		}
		for _, r := range results {
			k := key{len(points) - 1, environment(config), name, r.Unit}
			if values[k] == nil {
				order = append(order, k)
			}
			values[k] = append(values[k], r.Value)
		}
	}
	for _, k := range order {
		more, has := better[k.u]
		if !has {
			more = prove.IsRate(k.u)
		}
		p := points[k.point]
		p.Value = stats.Median(values[k])
		out = append(out, Sample{Of: k.of, Name: k.name + " " + k.u, Unit: k.u, More: more, Point: p})
	}
	return out, nil
}

// pointOf returns the point that begins with a new value of a configuration key.
func pointOf(file string, config map[string]string, key, value string) (Point, error) {
	get := func(k string) string {
		if k == key {
			return value
		}
		return config[k]
	}
	p := Point{Label: cmp.Or(get("commit"), file)}
	for _, k := range timeKeys {
		text := get(k)
		if text == "" {
			continue
		}
		if !isTime(text) {
			return p, fmt.Errorf("%s: %q is not a time such as 2026-11-20T13:00:00Z", k, text)
		}
		p.Time, _ = time.Parse(time.RFC3339, text)
		break
	}
	return p, nil
}

func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func environment(config map[string]string) string {
	var parts []string
	for _, k := range environmentKeys {
		if v := config[k]; v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, " ")
}

// benchConfig parses a configuration line, "key: value": a key begins with a lower-case letter.
func benchConfig(line string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(line, ":")
	if !ok || key == "" || key[0] < 'a' || key[0] > 'z' || strings.ContainsAny(key, " \tABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return "", "", false
	}
	return key, strings.TrimSpace(value), true
}

// benchUnit parses a line of a unit: "Unit NAME better=higher".
func benchUnit(line string) (unit string, more, ok bool) {
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != "Unit" || !strings.HasPrefix(line, "Unit") {
		return "", false, false
	}
	for _, word := range f[2:] {
		if way, is := strings.CutPrefix(word, "better="); is {
			return f[1], way == "higher", true
		}
	}
	return "", false, false
}

// isMeasurement reports whether a value is finite, and small enough to be squared.
func isMeasurement(v float64) bool { return math.Abs(v) < 1e100 }

// parseJMH parses the JSON of the Java Microbenchmark Harness (-rf json). The file is one point of
// each benchmark: the median of its iterations, or its score if these are not in the file.
func parseJMH(file string, content []byte) (out []Sample, err error) {
	var all []struct {
		Benchmark     string            `json:"benchmark"`
		Mode          string            `json:"mode"`
		Params        map[string]string `json:"params"`
		PrimaryMetric *struct {
			Score     json.RawMessage `json:"score"` // a number, or "NaN"
			ScoreUnit string          `json:"scoreUnit"`
			RawData   [][]float64     `json:"rawData"`
		} `json:"primaryMetric"`
	}
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("not JSON of JMH: %w", err)
	}
	for i, b := range all {
		if b.Benchmark == "" || b.PrimaryMetric == nil {
			return nil, fmt.Errorf("not JSON of JMH: element %d has no benchmark or no primaryMetric", i+1)
		}
		name := b.Benchmark
		for _, k := range slices.Sorted(maps.Keys(b.Params)) {
			name += " " + k + "=" + b.Params[k]
		}
		values := slices.Concat(b.PrimaryMetric.RawData...)
		if len(values) == 0 {
			v, err := strconv.ParseFloat(string(b.PrimaryMetric.Score), 64)
			if err != nil {
				return nil, fmt.Errorf("%s: the score is %s, not a number", name, b.PrimaryMetric.Score)
			}
			values = []float64{v}
		}
		if slices.ContainsFunc(values, func(v float64) bool { return !isMeasurement(v) }) {
			return nil, fmt.Errorf("%s: a value is above 1e100, which is not a measurement", name)
		}
		// One benchmark may run in several modes with the same unit.
		out = append(out, Sample{Of: b.Mode, Name: name, Unit: b.PrimaryMetric.ScoreUnit, More: b.Mode == "thrpt", Point: Point{Label: file, Value: stats.Median(values)}})
	}
	if len(out) == 0 {
		return nil, errors.New("no benchmarks")
	}
	return out, nil
}
