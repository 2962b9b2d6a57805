package proofs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestSearchProducts searches the shipped spaces of PostgreSQL and Puma on real servers. The
// machine is too small and too busy for a finding: what counts is that each combination is really
// in force, that the configuration is the same afterwards, byte for byte, and that the search stays
// within its rules.
func TestSearchProducts(t *testing.T) {
	root.Nightly(t, "each run restarts a server")
	root.Disposable(t)
	if !inside(t, false, nil) {
		return
	}
	product.Database(t, 200)
	product.Write(t, "foreman", product.Numbers(2, 16, 16))
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	before := configuration(t)
	for _, x := range []struct {
		space string
		work  []string
	}{
		{"postgresql", []string{"--bench", "postgres:clients-4"}},
		{"puma", []string{"--metric", "rate=([0-9.]+) registrations/s", "--unit", "1/s", "--", "registrations", "-n", "2000"}},
	} {
		if x.space == "puma" { // which leaves no connections for pgbench
			product.StartPuma(t, "foreman")
		}
		args := append([]string{"search", "--space", x.space, "--force", "--warmup-runs", "0", "--runs", "12", "--budget", "3m", "--output", "json"}, x.work...)
		if out, err := exec.Command("fettle", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "--test-system") {
			t.Errorf("%s without --test-system: %v: %s", x.space, err, out)
		}
		c := exec.Command("fettle", slices.Insert(args, 1, "--test-system", machine)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if code := c.ProcessState.ExitCode(); code != 0 && code != 3 {
			t.Fatalf("%s: %v: %s", x.space, err, out)
		}
		var r evidence.Run
		var e search.Evidence
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Body, &e); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s", x.space, r.Verdict)
		changed := 0
		for _, v := range e.Samples {
			if !v.Point.Equal(e.Design.Default()) && v.Stopped == "" && v.Value > 0 {
				changed++
			}
		}
		if changed < 4 {
			t.Errorf("%s: %d runs with a change: %+v", x.space, changed, e.Samples)
		}
		for path, text := range configuration(t) {
			if before[path] != text {
				t.Errorf("%s: %s is different afterwards", x.space, path)
			}
		}
	}
}

// configuration returns the text of each file that the searches change.
func configuration(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"/etc/postgresql/*/main/*", "/etc/systemd/system/foreman.service.d/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, path := range files {
			if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	return all
}
