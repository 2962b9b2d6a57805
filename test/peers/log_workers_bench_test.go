package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/accesslog"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// leastOfTwo is how many times as soon two workers are promised to end as one.
const leastOfTwo = 1.85

// TestBenchLogWorkers measures fettle logs with one worker and with two, in turn, and two processes
// with one worker each at the same time: what the machine's second CPU adds to any program. It
// writes the table to docs/benchmarks.md.
func TestBenchLogWorkers(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	dir := t.TempDir()
	puppet, caddy := filepath.Join(dir, "puppet.log"), filepath.Join(dir, "caddy.log")
	writeLog(t, puppet)
	format, err := accesslog.Find("caddy")
	if err != nil {
		t.Fatal(err)
	}
	writeFormat(t, format, caddy)
	four := []string{"--by", "environment", "--by", "indirector", "--by", "resource", "--by", "requestor"}

	var b strings.Builder
	var unmet []string
	fmt.Fprintf(&b, "%d alternating rounds. The ratios are medians, with ranges, of those of each round.\n\n| log | one worker, s | two workers, s | times as soon | CPU of one's | two processes: times the work | promised |\n|---|---|---|---|---|---|---|\n", logRounds)
	for _, c := range []struct {
		name, log string
		more      []string
	}{
		{"the large log, four groupings, without percentiles", puppet, append([]string{"--no-percentiles"}, four...)},
		{"the same with percentiles", puppet, four},
		{format.Doc, caddy, nil},
	} {
		words := func(workers string) []string {
			return slices.Concat([]string{program, "logs", "--workers", workers, "--output", "json"}, c.more, []string{c.log})
		}
		run := func(words ...string) *job {
			return &job{name: c.name, run: func() *exec.Cmd { return exec.Command(words[0], words[1:]...) }}
		}
		one, two := run(words("1")...), run(words("2")...)
		both := run(append([]string{"sh", "-c", `"$@" >/dev/null & "$@"; wait`, "sh"}, words("1")...)...)
		for range logRounds {
			for _, j := range []*job{one, two, both} {
				j.measure(t)
			}
		}
		sooner, cpu, work := make([]float64, logRounds), make([]float64, logRounds), make([]float64, logRounds)
		for i := range logRounds {
			sooner[i], cpu[i], work[i] = times(one.walls[i], two.walls[i]), times(two.cpus[i], one.cpus[i]), 2*times(one.walls[i], both.walls[i])
		}
		why := unsteady(one.walls)
		text := func(all []float64) string {
			if why != "" {
				return why
			}
			s := slices.Sorted(slices.Values(all))
			return fmt.Sprintf("%.2f (%.2f-%.2f)", s[len(s)/2], s[0], s[len(s)-1])
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | at least %.2f |\n", c.name, one.wallSeconds(), two.wallSeconds(), text(sooner), text(cpu), text(work), leastOfTwo)
		if got := slices.Sorted(slices.Values(sooner))[logRounds/2]; why == "" && got < leastOfTwo {
			unmet = append(unmet, fmt.Sprintf("%s: two workers end %.2f times as soon as one, promised at least %.2f", c.name, got, leastOfTwo))
		}
	}
	record(t, "workers", b.String(), unmet)
}
