package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuarantees holds guarantees.txt against the tests that there are.
func TestGuarantees(t *testing.T) {
	text, err := os.ReadFile("guarantees.txt")
	if err != nil {
		t.Fatal(err)
	}
	sentence, tests, sentences := "", 1, 0
	for line := range strings.Lines(string(text) + "end\n") {
		test, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
		case indented:
			tests++
			if !exists(test) {
				t.Errorf("%q: there is no test %s", sentence, test)
			}
		default:
			if tests == 0 {
				t.Errorf("%q has no test", sentence)
			}
			sentence, tests, sentences = strings.TrimSpace(line), 0, sentences+1
		}
	}
	if sentences < 40 {
		t.Errorf("read only %d sentences", sentences)
	}
}

// exists reports whether "PACKAGE TEST" or "testdata/script FILE" is in the repository.
func exists(test string) bool {
	dir, name, _ := strings.Cut(test, " ")
	dir = filepath.Join("../..", dir)
	if strings.HasSuffix(name, ".txtar") {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	declared := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && declared.Match(text) {
			return true
		}
	}
	return false
}
