package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/tuned"
)

// TestAgentOptions tests that invalid options are reported before anything is done.
func TestAgentOptions(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	root := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"agent --root " + root, ui.Usage, "node name missing"},
		{"agent --node n --root " + root + "/no", ui.Usage, "is not a directory"},
		{"agent --node n --root " + root + " --allow scripts", ui.Usage, `did you mean "script"?`},
		{"agent --node n --root " + root + " --interval 1ms", ui.Usage, "want 1s to 24h"},
		{"agent --node n --root " + root, ui.Usage, "no cluster"},
		{"agent n", ui.Usage, "run: kubectl fettle agent"},
	} {
		code, out, errs := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, printed %q, said %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	// In other namespaces than the node: nothing that is set would be the node's.
	ns := filepath.Join(root, "proc/1/ns")
	if err := os.MkdirAll(ns, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("net:[1]", filepath.Join(ns, "net")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "agent", "--node", "n", "--root", root); code != ui.Refused || !strings.Contains(errs, "(net)") {
		t.Errorf("exit code %d, said %q", code, errs)
	}
}

// TestAgentUninstall tests that the node has its former values, without any cluster.
func TestAgentUninstall(t *testing.T) {
	root := t.TempDir()
	machine.WriteFile(t, root, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	machine.WriteFile(t, root, "/proc/sys/vm/swappiness", "60\n")
	if err := os.MkdirAll(filepath.Join(root, "var/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	p.Spec.Config.TunedProfile = "site"
	p.Spec.Profile = []tuned.TunedProfile{{Name: "site", Data: "[sysctl]\nvm.swappiness=10\n"}}
	n := &agent.Node{Name: "n", Root: root}
	out := n.Look(t.Context(), true, p)
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	text, err := agent.ValuesText(out)
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "node-values", []byte(text))
	for _, want := range []string{"node n restored: transaction 2", "no cluster profile is active on node n"} {
		code, _, errs := run(t, "agent", "--node", "n", "--root", root, "--uninstall")
		if code != ui.Done || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, said %q, want %q", code, errs, want)
		}
		if b, err := os.ReadFile(filepath.Join(root, "proc/sys/vm/swappiness")); err != nil || string(b) != "60\n" && string(b) != "60" {
			t.Errorf("vm.swappiness is %q %v", b, err)
		}
	}
}
