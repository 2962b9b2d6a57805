package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
)

// Of a directory with documents of a cluster only their rules are asked; one that has
// nothing of a machine either determines nothing, and so does one of which all is unknown.
func TestNoMachineInDirectory(t *testing.T) {
	make := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			to := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	run := func(dir string, words ...string) (*findings.Audit, int) {
		return checked(t, append([]string{"--root", dir}, words...)...)
	}
	const network = "apiVersion: config.openshift.io/v1\nkind: Network\nmetadata: {name: cluster}\nspec:\n  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 24}]\n  networkType: OVNKubernetes\n  serviceNetwork: [172.30.0.0/16]\n"
	audit, code := run(make(map[string]string{"cluster-scoped-resources/config.openshift.io/networks/cluster.yaml": network}))
	if code != 0 || len(audit.Platforms) != 1 || audit.Platforms[0] != "openshift" {
		t.Errorf("a must-gather: exit code %d, asked as %v", code, audit.Platforms)
	}
	for _, f := range audit.Findings {
		if f.State == rule.Unknown {
			t.Errorf("a must-gather: %s is unknown: %s", f.ID, f.Reason)
		}
	}
	for name, files := range map[string]map[string]string{
		"of /etc":           {"fstab": "", "hosts": "127.0.0.1 localhost\n", "os-release": "ID=debian\n"},
		"of something else": {"notes.txt": "x"},
	} {
		if _, code := run(make(files)); code != 1 {
			t.Errorf("%s: exit code %d, want 1", name, code)
		}
	}
	// A machine of which nothing is known.
	if _, code := run(make(map[string]string{"usr/share/x": ""})); code != 1 {
		t.Errorf("nothing known: exit code %d, want 1", code)
	}
	// Both a machine and documents: everything is asked.
	audit, code = run(make(map[string]string{"network.yaml": network, "proc/sys/vm/swappiness": "10\n", "etc/hostname": "x\n"}))
	if code != 0 || len(audit.Platforms) < 2 {
		t.Errorf("a machine with documents: exit code %d, asked as %v", code, audit.Platforms)
	}
}

// checked is the audit of a call of check, and its exit code.
func checked(t *testing.T, args ...string) (*findings.Audit, int) {
	t.Helper()
	var out, said strings.Builder
	code := Main("test", append([]string{"check", "--output", "json"}, args...), &out, &said)
	audit := &findings.Audit{}
	if err := json.Unmarshal([]byte(out.String()), audit); err != nil {
		t.Fatalf("check %v: exit code %d, %v: %s%s", args, code, err, out.String(), said.String())
	}
	return audit, code
}
