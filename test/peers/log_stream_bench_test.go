package peers

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/testkit/accesslog"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const (
	// streamFormat is the format of the streamed logs.
	streamFormat = "haproxy"
	// mostOfLinear is the promised CPU time for each byte of a streamed log, as a share of that of
	// the shortest one.
	mostOfLinear = 1.05
)

// TestBenchLogStream reads logs of 1 to 10 GB from a generator through a pipe, and writes the table
// to docs/benchmarks.md.
func TestBenchLogStream(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	testkitroot.Nightly(t, "writes and reads 17 GB")
	program, writelog := asInstalled(t, testkitroot.Program(t, "./cmd/fettle")), testkitroot.Program(t, "./test/peers/writelog")
	format, err := accesslog.Find(streamFormat)
	if err != nil {
		t.Fatal(err)
	}
	var sample bytes.Buffer
	if err := format.Write(&sample, formatLines, accesslog.Seed); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var unmet []string
	fmt.Fprintf(&b, "`go run ./test/peers/writelog %s LINES | fettle logs --workers 1 --output json -`, seed %d, with percentiles. The figures are fettle's, without the generator.\n\n| GB | lines | CPU, s | CPU, s per GB | of the first | memory, MB |\n|---|---|---|---|---|---|\n", streamFormat, accesslog.Seed)
	first := 0.0
	for _, gb := range []int{1, 2, 4, 10} {
		lines := int(float64(gb) * 1e9 / float64(sample.Len()) * formatLines)
		cpu, memory := stream(t, exec.Command(writelog, streamFormat, fmt.Sprint(lines)), exec.Command(program, "logs", "--workers", "1", "--output", "json", "-"))
		each := cpu / float64(gb)
		first = cmp.Or(first, each)
		fmt.Fprintf(&b, "| %d | %d | %.2f | %.3f | %.2f | %.0f |\n", gb, lines, cpu, each, each/first, memory)
		if each > mostOfLinear*first {
			unmet = append(unmet, fmt.Sprintf("%d GB: %.2f of the CPU time for each byte of the first, promised at most %.2f", gb, each/first, mostOfLinear))
		}
	}
	record(t, "stream", b.String(), unmet)
}

// stream connects a generator with a program. It returns the program's CPU time in seconds and its
// maximum memory in MB.
func stream(t *testing.T, generator, program *exec.Cmd) (cpu, memory float64) {
	t.Helper()
	var said bytes.Buffer
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	generator.Stdout, program.Stdin, program.Stdout, program.Stderr = w, r, io.Discard, &said
	for _, c := range []*exec.Cmd{generator, program} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmp.Or(w.Close(), r.Close(), generator.Wait(), program.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	usage := program.ProcessState.SysUsage().(*syscall.Rusage)
	return (program.ProcessState.UserTime() + program.ProcessState.SystemTime()).Seconds(), float64(usage.Maxrss) * 1024 / 1e6
}
