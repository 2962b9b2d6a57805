package cli

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/cliutil"
)

// ownCall matches a call of a verb that both programs have.
var ownCall = regexp.MustCompile(`(kubectl )?fettle (size|check [^\n]*--root) ?[^\n();]*`)

// TestOwnCalls tests that verbs that fettle has too print calls of this program, and that these
// calls run.
func TestOwnCalls(t *testing.T) {
	files, err := filepath.Glob("../../testdata/hosts/*overloaded.txt")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	calls := [][]string{
		{"check", "--root", filepath.Dir(files[0])}, {"check", "--root", "/etc"},
		{"size", "openshift", "--pods", "2200", "--details"}, {"size", "postgresql", "--connections", "200", "--ram", "64GiB", "--cpus", "8", "--details"}, {"size", "openshift"},
	}
	for _, file := range files {
		calls = append(calls, []string{"check", "--root", file, "--details"}, []string{"check", "--root", file, "--all"}, []string{"check", "--root", file, "--for", "1.37"})
	}
	named := 0
	for _, args := range calls {
		var out bytes.Buffer
		Main("test", args, &out, &out)
		for _, m := range ownCall.FindAllStringSubmatch(out.String(), -1) {
			named++
			if m[1] == "" {
				t.Errorf("%q prints a call of another program: %s", args, m[0])
			}
			call, _, _ := strings.Cut(m[0], " reads")
			if err := cliutil.Parse(tree("test"), strings.Fields(call)[2:]); err != nil {
				t.Errorf("%q prints %s: %v", args, m[0], err)
			}
		}
	}
	if named < 10 {
		t.Errorf("%d calls", named)
	}
	var out bytes.Buffer
	if code := Main("test", []string{"check", "--root", files[0], "--explain", "T08"}, &out, &out); code != 0 || !strings.Contains(out.String(), "T08") || !strings.Contains(out.String(), "  why ") {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
