package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogsNext checks that the commands that a report names as the next step run, and find
// requests.
func TestLogsNext(t *testing.T) {
	t.Parallel()
	testdata, err := filepath.Abs("../logformat/testdata")
	if err != nil {
		t.Fatal(err)
	}
	combined := filepath.Join(testdata, "real", "httpd-combined_TD.log")
	for name, c := range map[string]struct {
		args string
		want int // commands
	}{
		"by requestor":    {"logs " + filepath.Join(testdata, "documented", "traefik.log"), 1},
		"slowest":         {"logs --by path " + combined, 1},
		"two dimensions":  {"logs " + filepath.Join(testdata, "documented", "envoy.log") + " --top 3", 1},
		"with a format":   {"logs " + filepath.Join(testdata, "real", "httpd-combined_D.log") + ` --format 'apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D' --by method,status --slowest 1`, 1},
		"compare":         {"logs compare " + combined + " " + combined, 1},
		"nothing further": {"logs " + combined + " --where 'status >= 100'", 0},
	} {
		out, err := exec.Command("sh", "-c", "fettle "+c.args).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
			continue
		}
		found := 0
		for line := range strings.Lines(string(out)) {
			command, is := strings.CutPrefix(line, "    fettle ")
			if !is {
				continue
			}
			found++
			if out, err := exec.Command("sh", "-c", "fettle "+command).CombinedOutput(); err != nil || strings.Contains(string(out), "no requests") {
				t.Errorf("%s: fettle %s: %v: %s", name, command, err, out)
			}
		}
		if found != c.want {
			t.Errorf("%s: %d commands in\n%s", name, found, out)
		}
	}
}
