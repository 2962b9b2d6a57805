package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestBenchProve measures what fettle prove adds to the time of a short command, and writes the
// table to docs/benchmarks.md. The setting under test belongs to a network namespace of its own.
func TestBenchProve(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	testkitroot.Disposable(t)
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	arguments := func() []string {
		return []string{program, "--state-dir", filepath.Join(t.TempDir(), "state"), "prove", "--force", "--output", "json", "--set", "net.ipv4.tcp_keepalive_time=7201", "--margin", "0.1%", "--blocks", "29", "--", "sleep", "0.02"}
	}
	experiment := func(prefix ...string) []byte {
		words := append(prefix, arguments()...)
		c := exec.Command(words[0], words[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var ratios, switches, others []float64
	runs := 0
	for range 5 {
		all := samplesOf(t, experiment())
		runs = len(all)
		own, elapsed := 0.0, 0.0
		for i, v := range all {
			own += v.TookS
			elapsed += v.TookS
			if i == 0 {
				continue
			}
			before := all[i-1]
			gap := v.At.Sub(before.At).Seconds() - before.TookS
			elapsed += gap
			if v.Switch {
				switches = append(switches, 1e3*gap)
			} else {
				others = append(others, 1e3*gap)
			}
		}
		ratios = append(ratios, elapsed/own)
	}
	counted := filepath.Join(t.TempDir(), "strace")
	traced := samplesOf(t, experiment("strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", counted))
	times := 0
	for _, v := range traced {
		if v.Switch {
			times++
		}
	}
	text, err := os.ReadFile(counted)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "An experiment on one setting (`net.ipv4.tcp_keepalive_time`) with the command `sleep 0.02`, 5 times, about %d runs each, warm-up runs included.\n\n", runs)
	fmt.Fprint(&b, "| what | median (range) | promised |\n|---|---|---|\n")
	row := func(what, format string, values []float64, promised string) {
		fmt.Fprintf(&b, "| %s | "+format+" ("+format+"-"+format+") | %s |\n", what, stats.Median(values), stats.Quantile(values, 0), stats.Quantile(values, 1), promised)
	}
	row("time of the experiment / time of its runs", "%.2f", ratios, "at most 1.3")
	row("time between two runs with a switch, ms", "%.1f", switches, "-")
	row("time between two runs without one, ms", "%.1f", others, "-")
	fmt.Fprintf(&b, "| calls of fsync and fdatasync, counted with strace | %d in %d runs with %d switches | - |\n", calls(t, string(text)), len(traced), times)
	var unmet []string
	if r := stats.Median(ratios); r > 1.3 {
		unmet = append(unmet, fmt.Sprintf("the experiment took %.2f times the time of its runs", r))
	}
	record(t, "prove", b.String(), unmet)
}

// samplesOf returns the samples of an experiment that fettle printed as JSON.
func samplesOf(t *testing.T, text []byte) []prove.Sample {
	t.Helper()
	var r evidence.Run
	var e prove.Evidence
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	return e.Samples
}

// calls returns the number of calls in a table of strace -c.
func calls(t *testing.T, table string) (n int) {
	t.Helper()
	for _, line := range regexp.MustCompile(`(?m)^.* (\d+) +(?:\d+ +)?f(?:data)?sync$`).FindAllStringSubmatch(table, -1) {
		k, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	return n
}
