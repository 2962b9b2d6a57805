package prove

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// BenchmarkValue is one value of a result of go test -bench.
type BenchmarkValue struct {
	Value float64 // below 1e100, so that it can be squared
	Unit  string
}

// ParseBenchmark parses a line of the output of go test -bench
// (https://go.dev/design/14313-benchmark-format): "BenchmarkName ITERATIONS VALUE UNIT [VALUE
// UNIT]...". It returns the name without Benchmark. Other lines have no values.
func ParseBenchmark(line string) (name string, values []BenchmarkValue, err error) {
	f := strings.Fields(line)
	if len(f) < 2 || !strings.HasPrefix(line, "Benchmark") { // go test -v prints a name on a line of its own
		return "", nil, nil
	}
	name = strings.TrimPrefix(f[0], "Benchmark")
	if r, _ := utf8.DecodeRuneInString(name); unicode.IsLower(r) { // a word, as in package testing
		return "", nil, nil
	}
	if n, err := strconv.ParseInt(f[1], 10, 64); err != nil || n <= 0 {
		return "", nil, fmt.Errorf("%s: %q is not a number of iterations", f[0], f[1])
	}
	if len(f)%2 != 0 || len(f) < 4 {
		return "", nil, fmt.Errorf("%s: want pairs of a value and a unit after the iterations", f[0])
	}
	for i := 2; i < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil || !(math.Abs(v) < 1e100) {
			return "", nil, fmt.Errorf("%s: %q is not a measurement", f[0], f[i])
		}
		values = append(values, BenchmarkValue{v, f[i+1]})
	}
	return name, values, nil
}

// IsRate reports whether a unit of a benchmark is one per second, so that more is better.
func IsRate(unit string) bool {
	return strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "/sec")
}
