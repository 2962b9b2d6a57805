package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// withExponent matches a verb of fmt or a call of strconv that may print a number with an exponent.
var withExponent = regexp.MustCompile("[\"`].*" + `%[-+# ]?[0-9*]*(\.[0-9*]+)?[eEgG]([^a-zA-Z]|$)|(Format|Append)Float\(.*'[eEgG]',`)

// mayPrintExponents are files that use such a verb, and why.
var mayPrintExponents = map[string]string{
	"internal/ui/page/chart.go":      "coordinates of SVG paths",
	"internal/logformat/strftime.go": "%e is a day of strftime",
	"internal/testkit/":              "messages of test support",
}

// TestNumbersHaveNoExponents: numbers for people are formatted by unit.Digits, for programs by
// unit.Exact. %g prints 1e+06 and 0.30000000000000004.
func TestNumbersHaveNoExponents(t *testing.T) {
	const root = "../.."
	files, used := 0, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name, _ := filepath.Rel(root, path); name == "test" || path != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		name, _ := filepath.Rel(root, path)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if withExponent.MatchString(strings.ReplaceAll(line, "%%", "")) && !excepted(name, used) {
				t.Errorf("%s:%d: %s: use unit.Digits for people, unit.Exact for programs", name, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("looked at %d files: %v", files, err)
	}
	for file := range mayPrintExponents {
		if !used[file] {
			t.Errorf("mayPrintExponents: %s needs no exception", file)
		}
	}
}

func excepted(name string, used map[string]bool) bool {
	for prefix := range mayPrintExponents {
		if strings.HasPrefix(name, prefix) {
			used[prefix] = true
			return true
		}
	}
	return false
}
