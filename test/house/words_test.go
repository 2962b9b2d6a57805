package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plain are words that have a plain one, with that: what a reader has to read twice is a defect.
// A line without the hint does not contain them.
var plain = []struct {
	hint  string
	words *regexp.Regexp
	use   string
}{
	{"body", regexp.MustCompile(`(?i)\b(some|no|every|any)body\b`), "the user, program or machine that it is; nothing; all"},
	{"eside", regexp.MustCompile(`(?i)\bbeside\b`), "next to, in addition to, with"},
	{"ll the same", regexp.MustCompile(`(?i)\ball the same\b`), "anyway, still"},
	{"none", regexp.MustCompile(`(?i)\b(is|are|was|were) none\b`), "is not an X"},
	{" no ", regexp.MustCompile(`(?i)\b(is|are|was|were) no [a-z]+`), "is not an X"},
	{"uad", regexp.MustCompile(`(?i)\bquads?\b`), "block"},
	{"ash", regexp.MustCompile(`(?i)\b(wash(ed)?[- ]out|washouts?)\b`), "warm-up run"},
	{"urned away", regexp.MustCompile(`(?i)\bturned away\b`), "rejected"},
	{"anded back", regexp.MustCompile(`(?i)\bhanded back\b`), "restored"},
	{"aken up", regexp.MustCompile(`(?i)\btaken up\b`), "resumed"},
	{"eld out", regexp.MustCompile(`(?i)\bheld out\b`), "ignored"},
	{" out of", regexp.MustCompile(`(?i)\b(find|found|finds) out of\b`), "find in"},
	{"its documents", regexp.MustCompile(`(?i)\bby its documents\b`), "offline audit"},
	{"should know of", regexp.MustCompile(`(?i)\bshould know of\b`), "warnings"},
	{"imited values", regexp.MustCompile(`(?i)\blimited values\b`), "winsorized values"},
	{" true for ", regexp.MustCompile(`(?i)\bis true for (a|an|the) [a-z]+ that\b`), "reports whether"},
}

// otherMeaning matches what the words above mean otherwise: there are none of it, it is no longer so,
// the user nobody, the policy none.
var otherMeaning = regexp.MustCompile(`(?i)\bthere (is|are|was|were) no\b|there (are|was|were) none\b|\b(is|are|was|were) no (longer|more|less|fewer|better)\b|Policy is none|manager is none|\(nobody\)|user nobody|"nobody"|nobody-connected|http\.NoBody|Access: Everybody`)

// exceptions are passages with a word that stays, by file, with the reason.
var exceptions = map[string]string{
	"docs/benchmarks.md":                           "written by make bench and a measured log",
	"docs/proofs/":                                 "written from records; the next experiment rewrites them",
	".changes/unreleased/":                         "names of before",
	"internal/measure/prove/evidence.go":           "Washout is the name of a field",
	"internal/measure/experiment/options.go":       "washout is a name in records",
	"CHANGELOG.md":                                 "history",
	"findings/":                                    "history",
	"internal/daemon/methods":                      "Everybody is the name of an access right of TuneD's interface",
	"internal/daemon/bus/handler.go":               "the same",
	"internal/measure/prove/co":                    "beside is the name of a field",
	"internal/guide/sizing/puppet/":                "beside is the name of a variable",
	"rules/puppet.yaml":                            "beside is the name of an input, and quotes",
	"rules/satellite.yaml":                         "beside is the name of an input",
	"rules/storage.yaml":                           "a quote",
	"internal/requests/source/":                    "Beside is the name of a function",
	"kube/deploy/kinds/":                           "OpenShift's own texts",
	"test/root/files/":                             "configuration of the test root",
	"test/proofs/":                                 "names of experiments and their functions",
	"test/house/words_test.go":                     "the list itself",
	"internal/engine/plugin/table/testdata/proofs": "names of tests",
}

// inTests is how many of the words the comments of tests may use.
const inTests = 4

// TestPlainWords looks for the words in pages, rules, deployed files, and in comments and texts of
// Go files; in tests for the first words, in comments only.
func TestPlainWords(t *testing.T) {
	const root = "../.."
	checked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".changes" || slices.Contains([]string{"testdata", "bin", "dist"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		for exception := range exceptions {
			if strings.HasPrefix(name, exception) {
				return nil
			}
		}
		page := slices.Contains([]string{".md", ".yaml", ".json", ".conf", ".service"}, filepath.Ext(name))
		if !page && !strings.HasSuffix(name, ".go") {
			return nil
		}
		words := plain
		if forTests(name) {
			words = plain[:inTests]
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		for i, line := range strings.Split(prose(name, string(text)), "\n") {
			for _, p := range words {
				if !strings.Contains(line, p.hint) || !p.words.MatchString(line) {
					continue
				}
				if found := p.words.FindString(otherMeaning.ReplaceAllString(line, "")); found != "" {
					t.Errorf("%s:%d: %q: write %s", name, i+1, found, p.use)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 2000 {
		t.Errorf("%d files checked: this test looks at the wrong directory", checked)
	}
}

// forTests reports whether a file is a test, or support for tests.
func forTests(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "internal/testkit/") || strings.HasPrefix(name, "kube/testkit/")
}

// prose returns the text of a page, or the comments and text literals of a Go file on the lines
// where they are.
func prose(name, text string) string {
	if !strings.HasSuffix(name, ".go") {
		return text
	}
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(text))
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	lines := make([]string, strings.Count(text, "\n")+2)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return strings.Join(lines, "\n")
		}
		if tok == token.COMMENT || tok == token.STRING && !forTests(name) {
			lines[file.Line(pos)-1] += " " + strings.ReplaceAll(lit, "\n", " ")
		}
	}
}
