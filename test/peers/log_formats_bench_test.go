package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/accesslog"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// formatLines is the number of lines of each log.
const formatLines = 500_000

// TestBenchLogFormats measures fettle logs next to grep on a generated log of each format, and
// writes the table to docs/benchmarks.md.
func TestBenchLogFormats(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	var b strings.Builder
	fmt.Fprintf(&b, "Each log has %d requests of the same web shop with seed %d. fettle computes percentiles with one worker. %d alternating rounds; the table shows medians of the processor time. The spread of `grep -c` is its range as a share of its median.\n\n", formatLines, accesslog.Seed, logRounds)
	fmt.Fprint(&b, "| log | MB | `grep -c`, CPU s | fettle, CPU s | of `grep -c`'s | memory, MB |\n|---|---|---|---|---|---|\n")
	for _, format := range accesslog.Formats {
		log := filepath.Join(t.TempDir(), format.Name+".log")
		size := writeFormat(t, format, log)
		arguments := append(formatArguments[format.Name], log)
		grep := &job{name: "grep -c", run: func() *exec.Cmd {
			c := exec.Command("grep", "-c", "HTTP/", log)
			c.Env = append(os.Environ(), "LC_ALL=C")
			return c
		}}
		fettle := &job{name: "fettle logs " + format.Name, run: func() *exec.Cmd {
			return exec.Command(program, append([]string{"logs", "--workers", "1", "--output", "json"}, arguments...)...)
		}}
		for range logRounds {
			grep.measure(t)
			fettle.measure(t)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s | %.0f |\n", format.Doc, float64(size)/1e6, grep.seconds(), fettle.seconds(), ratioText("%.1f", fettle.cpus, grep.cpus), peak(t, fettle.run()))
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
	record(t, "formats", b.String(), nil)
}

// formatArguments are the arguments for logs whose unit of the duration cannot be detected, and
// the four groupings of the log with distinct URLs. The others are grouped as usual.
var formatArguments = map[string][]string{
	"combined": {"--format", combinedWithDuration},
	"distinct": {"--format", combinedWithDuration, "--by", "url", "--by", "client", "--by", "status", "--by", "method"},
}

const combinedWithDuration = `apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D`

// writeFormat writes a log and returns its size in bytes.
func writeFormat(t *testing.T, format accesslog.Format, path string) int64 {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := format.Write(f, formatLines, accesslog.Seed); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestUnsteady: a reference that varies by more than 15 % has no ratio.
func TestUnsteady(t *testing.T) {
	for spread, steady := range map[int64]bool{0: true, 15: true, 16: false, 100: false} {
		reference := durations(100, 100, 100, 100+spread)
		if got := unsteady(reference) == ""; got != steady {
			t.Errorf("spread of %d %%: %v", spread, got)
		}
		if got := ratioText("%.1f", durations(250), reference); (got == "2.5") != steady {
			t.Errorf("spread of %d %%: %s", spread, got)
		}
	}
}

func durations(seconds ...int64) (all []time.Duration) {
	for _, s := range seconds {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}
