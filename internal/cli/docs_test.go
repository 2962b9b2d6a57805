package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
)

var update = flag.Bool("update", os.Getenv("FETTLE_UPDATE_GOLDEN") == "1", "write the examples' output and the generated tables of the manual anew")

// manualColumns is the width of the terminal on which the manual's examples run.
const manualColumns = 100

// TestManualExamples runs every example of the manual: the "$" lines of a console block, in order,
// on the machine that the page names in a comment (<!-- machine: kvm-guest -->), one machine a
// page. What a "$ fettle" line prints on a terminal has to be what the page shows. Lines that
// begin with "> " continue a command. examples/ and testdata/ are in the working directory.
func TestManualExamples(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var total atomic.Int64
	t.Cleanup(func() { // after the pages, which run side by side
		if n := total.Load(); n < int64(testkitroot.Sample(15)) {
			t.Errorf("only %d examples found", n)
		}
	})
	pages = append(pages, "../../README.md")
	each := len(pages) / testkitroot.Sample(len(pages))
	for i, page := range pages {
		if i%each != 0 && !*update {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			total.Add(int64(runPage(t, page)))
		})
	}
}

// nowOf matches the time at which a page's examples run (<!-- now: 2026-11-20T09:30:00Z -->):
// their times are shown and compared as they are.
var nowOf = internaltext.LazyRegexp(`<!-- now: (\S+) -->`)

var machineOf = internaltext.LazyRegexp(`<!-- machine: ([a-z0-9-]+) -->`)

// recordedTimes marks a page whose examples read files with times of their own: its output is
// shown and compared as it is.
const recordedTimes = "<!-- times: recorded -->"

func runPage(t *testing.T, page string) (examples int) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	machine := "kvm-guest"
	if m := machineOf().FindSubmatch(text); m != nil {
		machine = string(m[1])
	}
	now := ""
	if m := nowOf().FindSubmatch(text); m != nil {
		now = string(m[1])
	}
	recorded := now != "" || strings.Contains(string(text), recordedTimes)
	shownMask, gotMask := newMask(recorded), newMask(recorded)
	dir := t.TempDir()
	root := filepath.Join(dir, "machine")
	unpack(t, "../../testdata/hosts/"+machine+".txt", root)
	if err := withoutTuneD(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"examples", "testdata"} {
		at, err := filepath.Abs("../../" + name)
		if err == nil {
			err = os.Symlink(at, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i])
		if strings.TrimSpace(lines[i]) != "```console" {
			continue
		}
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); {
			line := lines[i]
			i++
			out.WriteString(line)
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			for strings.HasPrefix(lines[i], "> ") {
				command += lines[i][len("> "):]
				out.WriteString(lines[i])
				i++
			}
			var shown strings.Builder
			for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ ") && !strings.HasPrefix(lines[i], "```"); i++ {
				shown.WriteString(lines[i])
			}
			if !strings.HasPrefix(command, "fettle") {
				shell(t, dir, root, now, command) // sets the scene; prints nothing
				out.WriteString(shown.String())
				continue
			}
			examples++
			got := gotMask(shell(t, dir, root, now, command))
			if *update {
				out.WriteString(got)
				continue
			}
			if d := cmp.Diff(shownMask(shown.String()), got); d != "" {
				t.Errorf("%s: $ %s(-manual +real):\n%s", page, command, d)
			}
		}
		i--
	}
	if *update {
		if err := os.WriteFile(page, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return examples
}

func shell(t *testing.T, dir, machine, now, command string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FETTLE_TEST_MACHINE="+machine, "MACHINE="+machine, "NO_COLOR=1", "FETTLE_TEST_NOW="+now)
	if now != "" {
		cmd.Env = append(cmd.Env, "TZ=UTC")
	}
	side, shown := testkitroot.Screen(t, manualColumns)
	cmd.Stdout, cmd.Stderr = side, side
	_ = cmd.Run() // an example may show a failure; its words are compared
	return strings.ReplaceAll(shown(), machine, "this machine")
}

// A mask replaces what is measured or names the machine, in a form that is possible.
type mask struct {
	re   func() *regexp.Regexp
	with string
}

var (
	times = []mask{
		{internaltext.LazyRegexp(`((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "2026-11-21 08:00:00"},
		{internaltext.LazyRegexp(`until \d\d:\d\d:\d\d`), "until 08:01:00"},
		{internaltext.LazyRegexp(`about \d+ (s|min); no run begins after \d\d:\d\d`), "about 1 s; no run begins after 08:30"},
		{internaltext.LazyRegexp(`\b\d{4}-\d\d-\d\d \d\d:\d\d\b`), "2026-11-21 08:00"},
	}
	tookMask = mask{internaltext.LazyRegexp(`, in \d+(\.\d+)? (us|ms|s)\b`), ", in 12 ms"}
	runID    = internaltext.LazyRegexp(`\b[0-9a-f]{16}\b`)
)

// newMask returns a function that masks the outputs of a page in their order: different runs keep
// different ids. If times are recorded, they stay.
func newMask(recorded bool) func(string) string {
	ids := map[string]string{}
	return func(s string) string {
		if recorded {
			return tookMask.re().ReplaceAllString(s, tookMask.with)
		}
		for _, m := range append([]mask{tookMask}, times...) {
			s = m.re().ReplaceAllString(s, m.with)
		}
		return runID().ReplaceAllStringFunc(s, func(id string) string {
			const digits = "0123456789abcdef"
			if ids[id] == "" {
				n := len(ids) % len(digits)
				ids[id] = digits[n:] + digits[:n]
			}
			return ids[id]
		})
	}
}
