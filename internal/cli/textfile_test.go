package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/packaging"
)

// TestTextfile: the file has the result of each verb, replaces the old one as a whole, and says if
// the verb had no result.
func TestTextfile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fettle.prom")
	args := func(words string) []string {
		return append(strings.Fields(words), "--root", recordedHosts+"kvm-guest.txt", "--textfile", file)
	}
	for _, c := range []struct {
		call string
		code int
		want string
	}{
		{"status", ui.Done, "fettle_status_success 1"},
		{"status", ui.Done, "fettle_status_active 0"},
		{"verify", ui.Failed, "fettle_verify_success 0"}, // no profile is active
		{"verify virtual-guest", ui.GateNotMet, "fettle_verify_success 1"},
		{"verify virtual-guest", ui.GateNotMet, "fettle_verify_met 0"},
		{"check linux --sample 0", ui.Done, `fettle_check_rules{state="fail"}`},
		{"check linux --sample 0 --fail-on warn", ui.GateNotMet, "fettle_check_success 1"},
		{"check linux --sample 0 --baseline nowhere", ui.Usage, "fettle_check_success 0"},
	} {
		var errs bytes.Buffer
		if code := Main("test", args(c.call), io.Discard, &errs); code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.call, code, c.code, &errs)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\n"+string(text), "\n"+c.want) || strings.Contains(string(text), "# EOF") {
			t.Errorf("%s: %v, no %s in\n%s", c.call, err, c.want, text)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v %v", c.call, err, st)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d.prom"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "fettle.txt"), filepath.Join(dir, "d.prom"), filepath.Join(dir, "none/fettle.prom"), ""} {
		if code := Main("test", []string{"status", "--root", recordedHosts + "kvm-guest.txt", "--textfile", name}, io.Discard, io.Discard); code != ui.Usage {
			t.Errorf("--textfile %q: exit code %d, want 2", name, code)
		}
	}
}

// TestTextfileCollector runs the commands of fettle-metrics.service, reads the files with a real
// node_exporter, and checks the scrape with promtool, as well as the rules in the manual.
func TestTextfileCollector(t *testing.T) {
	exporter, promtool := testkitroot.ServerProgram(t, "prometheus-node-exporter"), testkitroot.ServerProgram(t, "promtool")
	unit, err := packaging.Unit("fettle-metrics.service", packaging.Program, "")
	if err != nil {
		t.Fatal(err)
	}
	const collector = "/var/lib/prometheus/node-exporter"
	dir := t.TempDir()
	calls := regexp.MustCompile(`(?m)^ExecStart=-?/usr/bin/fettle (.*)$`).FindAllStringSubmatch(unit, -1)
	if len(calls) != 3 {
		t.Fatalf("%d commands in the unit", len(calls))
	}
	for _, c := range calls {
		args := strings.Fields(strings.ReplaceAll(c[1], collector, dir))
		var errs bytes.Buffer
		if code := Main("test", append(args, "--state-dir", filepath.Join(dir, "state"), "--root", recordedHosts+"kvm-guest.txt"), io.Discard, &errs); code != 0 && args[0] != "verify" {
			t.Errorf("%s: exit code %d: %s", c[1], code, &errs)
		}
	}
	port := testkitroot.Port(t)
	cmd := exec.Command(exporter, fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port), "--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	scrape := func() (page string) {
		testkitroot.Eventually(10*time.Second, func() bool {
			r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port)) //nolint:noctx // a test
			if err != nil {
				return false
			}
			defer r.Body.Close()
			b, err := io.ReadAll(r.Body)
			page = string(b)
			return err == nil
		})
		return page
	}
	page := scrape()
	for _, want := range []string{"node_textfile_scrape_error 0", "fettle_status_success 1", "fettle_check_success 1", "fettle_verify_success 0", `fettle_check_rules{state="pass"}`} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(page)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	// What -o openmetrics prints is read as well; a timestamp is what must not be in a file.
	for text, broken := range map[string]string{
		printed(t, "status", "--output", "openmetrics", "--root", recordedHosts+"kvm-guest.txt"): "0",
		"# TYPE x gauge\nx 1 1700000000\n": "1",
	} {
		if err := os.WriteFile(filepath.Join(dir, "fettle-status.prom"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if page := scrape(); !strings.Contains(page, "\nnode_textfile_scrape_error "+broken) {
			t.Errorf("want node_textfile_scrape_error %s for\n%s", broken, text)
		}
	}

	manual, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(manual), "```yaml\n# fettle-rules.yml\n")
	rules, _, found := strings.Cut(rules, "```\n")
	if !found {
		t.Fatal("docs/metrics.md has no fettle-rules.yml")
	}
	file := filepath.Join(dir, "fettle-rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	for _, name := range regexp.MustCompile(`fettle_[a-z_]+`).FindAllString(rules, -1) {
		if !strings.Contains(page, "# TYPE "+name+" gauge") && !strings.HasPrefix(name, "fettle_verify_") {
			t.Errorf("the rules use %s, which the files lack", name)
		}
	}
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := output(t, thisSystem(), args...)
	return out
}
