// Command summary reads the output of `go test -json` from standard input, and prints it as go test
// does without -json. Then it prints how many tests were left to make test-real and make
// test-nightly, which other tests were skipped and why, and which packages and tests took longer
// than their budget.
//
//	go test -short -json ./... | go run ./test/summary
//
// It only reports slow tests and does not fail for them, because a busy machine can be the reason.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// The budget of a package and of one test under -short, in wall time on an idle machine.
const (
	packageBudget = 15 * time.Second
	testBudget    = 3 * time.Second
)

// budgets are the budgets of packages that take longer, each with the reason.
var budgets = map[string]time.Duration{
	"fettle.dev/fettle/internal/cli": 45 * time.Second, // the scripts start a thousand processes
}

// event is a line of go test -json: see `go doc test2json`, and `go help buildjson`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// summary collects events.
type summary struct {
	out io.Writer
	// load returns the load of a processor of this machine, in tasks, at least 1.
	load func() float64
	// said is the output of tests that have not ended, by package and test.
	said map[string]*strings.Builder
	// real and nightly count the tests left to the other targets.
	real, nightly int
	skipped, slow []string
}

func main() {
	s := &summary{out: os.Stdout, load: load, said: map[string]*strings.Builder{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	s.close()
}

// load reads the load average of the last minute.
func load() float64 {
	var tasks float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &tasks)
	}
	return max(1, tasks/float64(runtime.NumCPU()))
}

// read processes events until the input ends. It prints lines that are not events.
func (s *summary) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			s.out.Write(line)
		default:
			s.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
		io.WriteString(s.out, e.Output)
	case e.Action == "output" && e.Test != "":
		b := s.said[key]
		if b == nil {
			b = new(strings.Builder)
			s.said[key] = b
		}
		b.WriteString(e.Output)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		s.end(e, key)
	}
}

// end processes the end of a test, or of a package if the event names no test.
func (s *summary) end(e event, key string) {
	budget, name := packageBudget, e.Package
	if b, ok := budgets[name]; ok {
		budget = b
	}
	if e.Test != "" {
		budget, name = testBudget, strings.TrimSpace(key)
		text := ""
		if b := s.said[key]; b != nil {
			text = b.String()
		}
		delete(s.said, key)
		switch {
		case e.Action == "fail":
			io.WriteString(s.out, withoutProgress(text))
		case e.Action == "pass":
		case strings.Contains(text, "make test-real runs it"):
			s.real++
		case strings.Contains(text, "make test-nightly runs it"):
			s.nightly++
		default:
			s.skipped = append(s.skipped, name+": "+reason(text))
		}
	}
	took := time.Duration(e.Elapsed * float64(time.Second))
	if took <= budget || strings.Contains(e.Test, "/") { // a subtest counts with its test
		return
	}
	s.slow = append(s.slow, fmt.Sprintf("%s: %.1f s of %.0f s, with %.1f tasks a processor", name, took.Seconds(), budget.Seconds(), s.load()))
}

// reason returns the first line that a skipped test has printed itself.
func reason(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(withoutProgress(text)), "\n")
	return line
}

// withoutProgress removes the lines that only go test -v prints.
func withoutProgress(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "=== ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// close prints the summary. Before it come the outputs of tests that did not end, because their
// package failed.
func (s *summary) close() {
	for _, b := range s.said {
		io.WriteString(s.out, b.String())
	}
	fmt.Fprintf(s.out, "left out: %d tests that make test-real runs, %d of make test-nightly\n", s.real, s.nightly)
	for _, line := range s.skipped {
		fmt.Fprintln(s.out, "skipped:", line)
	}
	for _, line := range s.slow {
		fmt.Fprintln(s.out, "over the budget of seconds:", line)
	}
}
