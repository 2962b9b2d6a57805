package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	longestPage    = 300 // lines: a page is read in one sitting
	longestExample = 100 // columns: an example fits next to a terminal
)

// copied matches lines of output that are longer because a command is never broken: it can be
// copied as it stands.
var copied = regexp.MustCompile(`^(    |(kubectl )?fettle: (run: |for example: |fettle )|[AB]  [0-9a-f]{16}  )`)

// notRun lists the examples that no test executes, by page and beginning, with the reason. All
// other examples of fettle are run: console blocks by TestManualExamples (internal/cli), text
// blocks by TestManual (kube/cli).
var notRun = map[string]string{
	"bench-disk.md: $ sudo fettle bench disk --role":   "measured; TestBenchDisk runs it",
	"bench-etcd.md: $ sudo fettle bench etcd --for":    "measured; TestBenchEtcd runs it with a real member",
	"bench-memory.md: $ sudo fettle bench memory":      "measured; TestBenchMemory runs it",
	"bench-network.md: $ fettle bench network 10.9":    "measured; TestShaper measures such a path",
	"bench-postgres.md: $ sudo fettle bench postgres":  "measured; TestBenchPostgres runs it with a real server",
	"check-servers.md: $ fettle check puppet --probe":  "needs a Puppet Server; test/proofs runs it with a real one",
	"check.md: $ fettle check linux --output json":     "two audits four days apart",
	"load-details.md: $ fettle load http --find-knee":  "measured",
	"load-details.md: $ fettle load http --replay":     "measured",
	"load-mqtt.md: $ fettle load mqtt --hosts 5000":    "measured",
	"load-mqtt.md: $ fettle load mqtt --hosts 1000":    "needs a smart proxy",
	"load-ladder.md: $ fettle load scenario ask.yaml":  "measured; TestLadderNamesLimit runs such a search",
	"load-scenario.md: $ fettle load scenario exampl":  "measured",
	"load.md: $ fettle load http --rate 500/s":         "measured",
	"numa.md: $ sudo fettle numa balance":              "moves processes; TestBalanceInGuest does",
	"numa.md: $ fettle numa advise":                    "measured; TestNumadAnswers compares it with numad",
	"numa.md: $ fettle numa show -p":                   "the memory of a process differs; TestVerdicts reads recorded ones",
	"machine-scale.md: after 10m0s:":                   "ten minutes; the tests of kube/machine/scale assert the text",
	"cluster-load-generators.md: $ kubectl fettle loa": "measured; TestLoadGenerators runs it on a real cluster",
}

// pages returns the pages of the manual by their names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(strings.TrimPrefix(file, "../../"), "docs/")] = string(text)
		if file == "../../README.md" {
			delete(all, "README.md")
			all["../README.md"] = string(text)
		}
	}
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all["README.md"] = string(index)
	return all
}

func TestPagesAreShort(t *testing.T) {
	for name, text := range pages(t) {
		if n := strings.Count(text, "\n"); n > longestPage {
			t.Errorf("docs/%s has %d lines, and may have %d: split it by task", name, n, longestPage)
		}
		fence := false
		for i, line := range strings.Split(text, "\n") {
			switch n := utf8.RuneCountInString(line); {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fence = !fence
			case fence && n > longestExample && !copied.MatchString(line):
				t.Errorf("docs/%s:%d: a line of an example has %d characters, and may have %d", name, i+1, n, longestExample)
			}
		}
	}
}

// TestExamplesAreRun: each example of fettle in the manual is executed, or listed with the reason.
func TestExamplesAreRun(t *testing.T) {
	run, err := os.ReadFile("../../kube/cli/manual_test.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, text := range pages(t) {
		parts := strings.Split(text, "\n```")
		for i := 1; i < len(parts); i += 2 {
			kind, body, _ := strings.Cut(parts[i], "\n")
			shows := strings.Contains("\n"+body, "\n$ ") || kind == "text"
			switch {
			case kind == "console", !shows:
				continue
			case kind == "text" && strings.HasPrefix(body, "$ kubectl fettle ") && strings.Contains(string(run), `"`+name+`"`):
				continue
			}
			listed := ""
			for key := range notRun {
				if strings.HasPrefix(name+": "+body, key) {
					listed = key
				}
			}
			if listed == "" {
				first, _, _ := strings.Cut(body, "\n")
				t.Errorf("docs/%s: %q is not run: make it a console block (fettle), a text block of a page in kube/cli's TestManual, or list it in notRun with the reason", name, first)
			}
			used[listed] = true
		}
	}
	for key := range notRun {
		if !used[key] {
			t.Errorf("notRun lists %q, which is no example any more", key)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// anchor returns the name of a heading as GitHub and GitLab make it.
func anchor(heading string) string {
	return regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
}

// TestLinksLead: each relative link of the manual leads to a file, and to a heading of it.
func TestLinksLead(t *testing.T) {
	links := 0
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, part, _ := strings.Cut(m[1], "#")
			if file == "" {
				file = filepath.Base(name)
				if name == "../README.md" {
					file = name
				}
			}
			at := filepath.Join("../../docs", file)
			if name == "../README.md" && m[1][0] != '#' {
				at = filepath.Join("../..", file)
			}
			if info, err := os.Stat(at); err != nil || part == "" || info.IsDir() {
				if err != nil {
					t.Errorf("docs/%s links to %s, which does not exist", name, m[1])
				}
				continue
			}
			target, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(string(target), -1) {
				found = found || strings.ReplaceAll(anchor(h[1]), " ", "-") == part
			}
			if !found {
				t.Errorf("docs/%s links to %s: no heading of that name", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links: the expression does not match them", links)
	}
}

// TestIndexNamesEveryPage: a reader reaches each page from docs/README.md in one step.
func TestIndexNamesEveryPage(t *testing.T) {
	all := pages(t)
	for name := range all {
		if name != "README.md" && name != "../README.md" && !strings.Contains(all["README.md"], "]("+name) {
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}
