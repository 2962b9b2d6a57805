package kubecli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/ui"
)

func TestLoadUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("ClusterLoader:\n  project: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"load", ui.Done, "kubectl fettle load [command]"},
		{"load start", ui.Usage, `unknown command "start"`},
		{"load run --in-flight 9000", ui.Usage, "--in-flight 9000: want 1 to 5000"},
		{"load run --rate fast", ui.Usage, "want a rate with its time"},
		{"load run --slo p99<1s", ui.Usage, "of what? want create, scheduled or ready before it"},
		{"load run --slo", ui.Usage, "flag needs an argument"},
		{"load run --etcd-quota much", ui.Usage, "--etcd-quota"},
		{"load run", ui.Usage, "no cluster"},
		{"load run " + bad, ui.Usage, bad + `:2: ClusterLoader: there is no field "project" (did you mean "projects"?)`},
		{"load run /nowhere.yaml", ui.Usage, "/nowhere.yaml"},
		{"load resume", ui.Usage, "there is no run in"},
		{"load resume ../x", ui.Usage, `"../x" is no run`},
		{"load undo 2026", ui.Usage, "there is no run 2026 in"},
		{"load status", ui.Done, "there are no runs in"},
		{"load plan --openshift 4.4", ui.Usage, "--openshift is for --offline"},
		{"load plan --offline", ui.Done, "30 objects, 10 pods"},
	} {
		code, out, errs := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, printed %q, said %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

func TestLoadPlanJSON(t *testing.T) {
	code, out, errs := run(t, "load", "plan", "--offline", "--output", "json")
	var doc struct {
		Schema  string
		Objects int
		Kinds   []struct {
			Kind  string
			Count int
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != ui.Done || doc.Schema != "fettle/cluster-load-plan/v1" || doc.Objects != 30 || len(doc.Kinds) != 4 {
		t.Errorf("%d %v %s\n%s", code, err, out, errs)
	}
	code, out, _ = run(t, "load", "status", "--output", "json")
	if !strings.Contains(out, `"runs": []`) || code != ui.Done {
		t.Errorf("%d %s", code, out)
	}
}

// TestLoadPage: the example of the manual is what its command prints.
func TestLoadPage(t *testing.T) {
	const page = "../../docs/155-cluster-load.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, yaml, ok := strings.Cut(string(text), "```yaml\n")
	yaml, _, end := strings.Cut(yaml, "```\n")
	before, block, found := strings.Cut(string(text), "```text\n$ kubectl fettle ")
	command, rest, line := strings.Cut(block, "\n")
	shown, after, closed := strings.Cut(rest, "```\n")
	if !ok || !end || !found || !line || !closed {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "load.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, strings.Fields(strings.ReplaceAll(command, "load.yaml", file))...)
	if code != ui.Done || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(page, []byte(before+"```text\n$ kubectl fettle "+command+"\n"+out+"```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(shown, out); d != "" {
		t.Errorf("(-page +printed)\n%s", d)
	}
}
