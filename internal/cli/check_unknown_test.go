package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A platform that may or may not be the machine's is unknown in every
// form and in the gate, and what is said of an archive is done on its machine.
func TestUndeterminedPlatform(t *testing.T) {
	text, err := os.ReadFile("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	cut := "-- dir 0755 /etc/kubernetes --\n-- file 0644 /etc/kubernetes/kubelet.conf --\nkind: KubeletConfiguration\nkubeAPIQPS: [\n"
	file := filepath.Join(t.TempDir(), "cut.txt")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "-- end --", cut+"-- end --", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) (string, string, int) {
		var out, said strings.Builder
		code := Main("test", append([]string{"check", "--root", file}, words...), &out, &said)
		return out.String(), said.String(), code
	}
	for form, want := range map[string]string{
		"table": "T34, platform", "json": `"instance": "kubelet"`, "yaml": "instance: kubelet", "markdown": "unknown whether this is kubelet",
		"html": "unknown whether this is kubelet", "sarif": "unknown whether this is kubelet", "openmetrics": `fettle_check_finding{id="platform",item="kubelet",state="unknown"`,
	} {
		out, said, code := run("--output", form, "--fail-on", "unknown")
		if !strings.Contains(out, want) || code != 3 {
			t.Errorf("%s: exit code %d, said %q; want 3 and %q in\n%s", form, code, said, want, out)
		}
	}
	if out, _, _ := run(); !strings.Contains(strings.Join(strings.Fields(out), " "), "on that machine: fettle fix fixes ") {
		t.Errorf("of an archive: %s", out[max(0, len(out)-400):])
	}
	if out, _, _ := run("linux", "linux"); !strings.Contains(out, "not determined (linux)") {
		t.Errorf("asked twice: %s", out[max(0, len(out)-400):])
	}
	// fix does not ask its rules either, and says so.
	var fixed, said strings.Builder
	Main("test", []string{"fix", "--root", file, "--write", filepath.Join(t.TempDir(), "out")}, &fixed, &said)
	if !strings.Contains(said.String(), "unknown whether this is kubelet") || !strings.Contains(said.String(), "to check its rules anyway, use --platform kubelet") {
		t.Errorf("fix: %s", said.String())
	}
}
