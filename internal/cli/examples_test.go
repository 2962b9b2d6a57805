package cli

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	internaltext "fettle.dev/fettle/internal/text"
)

var exampleCall = internaltext.LazyRegexp(`(?m)^[# ]*\$ fettle (.*)$`)

// TestExamples runs every command that the files of examples/ name: those that ask this
// machine ask a recorded one, and the load goes to a server of the test.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	machine := filepath.Join(dir, "machine")
	unpack(t, "../../testdata/hosts/kvm-guest.txt", machine)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, machine} { // --profile-dir is inside of --root
		if err := os.CopyFS(filepath.Join(at, "examples"), os.DirFS(examples)); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(server.Close)
	more := map[string]string{
		"load": " --connect-to " + server.Listener.Addr().String() + " --state-dir " + filepath.Join(dir, "state"),
		"show": " --root " + machine, "diff": " --root " + machine,
	}
	calls := map[string]int{}
	err = filepath.WalkDir(examples, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range exampleCall().FindAllStringSubmatch(string(text), -1) {
			call := m[1]
			for verb, args := range more {
				if strings.Contains(" "+call, " "+verb+" ") {
					call += args
				}
			}
			cmd := exec.Command("sh", "-c", "fettle "+call)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: fettle %s: %v\n%s", path, call, err, out)
			}
			calls[strings.Fields(strings.TrimPrefix(m[1], "--profile-dir examples/profiles "))[0]]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"show", "diff", "rules", "logs", "load", "size"} {
		if calls[verb] == 0 {
			t.Errorf("no example of fettle %s", verb)
		}
	}
}
