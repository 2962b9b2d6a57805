package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/kube/kubelet"
)

func wanted(t testing.TB, text string) kubelet.Want {
	t.Helper()
	f, err := kubelet.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := kubelet.WantOf([]kubelet.Config{{Name: "test", Fields: f}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// held checks that the node is consistent: the kubelet runs with its files, the journal has no open
// transaction, and fettle knows the node's settings.
func held(t *testing.T, n *Node, has string, settings kubelet.Fields) {
	t.Helper()
	k := n.Kubelet.(standing)
	if err := k.Healthy(t.Context()); err != nil {
		t.Errorf("the kubelet: %v; its log: %s", err, k.LastWords(t.Context()))
		return
	}
	runs, err := k.Configz(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range settings {
		if d := kubelet.Differences(kubelet.Fields{name: want}, runs); len(d) > 0 {
			t.Errorf("it runs with %v", d)
		}
	}
	if got, err := n.Has(); err != nil || got != has {
		t.Errorf("the node has %q (%v), want %q", got, err, has)
	}
	s, err := journal.Read(n.StateDir, "")
	if err != nil || len(s.Interrupted()) > 0 || len(s.Damage) > 0 {
		t.Errorf("the journal: %v, damage %v, open %d", err, s.Damage, len(s.Interrupted()))
	}
	if has == "" {
		if _, err := os.Stat(k.root + configDir + "/" + DropIn); err == nil {
			t.Error("the drop-in is there")
		}
	}
}

func stateText(t *testing.T, n *Node) string {
	t.Helper()
	text, err := os.ReadFile(n.Kubelet.(standing).root + stateFile)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Apply is a visit of a node that has the given number of pods, with or without a drain.
func (n *Node) Apply(ctx context.Context, want kubelet.Want, pods int, drained bool) (*Report, error) {
	j, err := n.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if r, err := n.recover(ctx, j); err != nil || r != nil && r.Result == Incomplete {
		return r, err
	}
	p, err := n.plan(ctx, j.State, want)
	if err != nil {
		return nil, err
	}
	if p.Settled {
		return &Report{Result: Unchanged, Digest: want.Digest, Has: p.Has}, nil
	}
	return n.carryOut(ctx, j, p, pods, drained)
}

// TestChanges tests settings that do and do not affect the managers' state, other settings, and the
// way back to the node's own.
func TestChanges(t *testing.T) {
	n, _ := newNode(t, nil)
	n.User = "agent of node w1"
	apply := func(text string, drained bool, result string) *Report {
		t.Helper()
		r, err := n.Apply(t.Context(), wanted(t, text), 10, drained)
		if err != nil {
			t.Fatal(err)
		}
		if r.Result != result {
			t.Fatalf("%s: %+v", text, r)
		}
		return r
	}
	r := apply("maxPods: 300", false, Done)
	if r.DownSeconds <= 0 || r.DownSeconds > 60 || strings.Join(r.Settings, " ") != "maxPods" {
		t.Errorf("%+v", r)
	}
	held(t, n, wanted(t, "maxPods: 300").Digest, kubelet.Fields{"maxPods": int64(300), "kubeReserved": map[string]any{"cpu": "500m"}})
	if !strings.Contains(stateText(t, n), `"before"`) {
		t.Error("the state was touched")
	}
	apply("maxPods: 300", false, Unchanged)
	// The journal says who, and by which objects.
	if s, err := journal.Read(n.StateDir, ""); err != nil || len(s.Live()) != 1 || s.Live()[0].User != "agent of node w1" || !strings.HasSuffix(s.Live()[0].Reason, ": KubeletConfig test") {
		t.Errorf("the journal: %+v %v", s, err)
	}

	static := "{maxPods: 300, cpuManagerPolicy: static}"
	if _, err := n.Apply(t.Context(), wanted(t, static), 10, false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "cpuManagerPolicy can only change while the node runs no pods; drain the node first") {
		t.Errorf("without a drain: %v", err)
	}
	apply(static, true, Done)
	held(t, n, wanted(t, static).Digest, kubelet.Fields{"maxPods": int64(300), "cpuManagerPolicy": "static"})
	if got := stateText(t, n); got != state("static", "kubelet") {
		t.Errorf("the state: %s", got)
	}
	apply("{}", true, Done)
	held(t, n, "", kubelet.Fields{"maxPods": int64(100), "cpuManagerPolicy": "none"})
	apply("{}", false, Unchanged)
}

// TestRolledBack tests a kubelet that does not start with the requested settings, although the
// checks found no problem: its former files are restored, byte by byte.
func TestRolledBack(t *testing.T) {
	n, _ := newNode(t, nil)
	bad := wanted(t, "{cpuManagerPolicy: static, systemReserved: {memory: 900Ti}}")
	r, err := n.Apply(t.Context(), bad, 10, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.Result != RolledBack || r.Has != "" || !strings.Contains(r.LastWords, "invalid Node Allocatable configuration") || !strings.Contains(r.Error, ErrEnded.Error()) || r.Step != Health {
		t.Errorf("%+v", r)
	}
	held(t, n, "", kubelet.Fields{"maxPods": int64(100), "cpuManagerPolicy": "none"})
	if got := stateText(t, n); got != state("none", "before") {
		t.Errorf("the state: %s", got)
	}
	// It was no accident, and other settings hold anyway.
	if r, err := n.Apply(t.Context(), wanted(t, "maxPods: 300"), 10, false); err != nil || r.Result != Done {
		t.Errorf("%+v %v", r, err)
	}
}

// TestIncomplete tests a kubelet that does not start with its former files either: the transaction
// stays open, and a later start completes it.
func TestIncomplete(t *testing.T) {
	n, k := newNode(t, nil)
	n.Patience = 2 * time.Second
	broken := k.root + configDir + "/20-other.conf"
	n.At = func(point string) {
		if point == "stop:before" {
			_ = os.WriteFile(broken, []byte("kind: KubeletConfiguration\nsystemReserved: {memory: 900Ti}\n"), 0o600)
		}
	}
	r, err := n.Apply(t.Context(), wanted(t, "maxPods: 300"), 10, false)
	if err != nil || r.Result != Incomplete || !strings.Contains(r.Error, "; and restoring failed:") {
		t.Fatalf("%+v %v", r, err)
	}
	n.At = nil
	r, err = n.Recover(t.Context())
	if err != nil || r == nil || r.Result != Incomplete {
		t.Fatalf("%+v %v", r, err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	n.Patience = patience
	if r, err = n.Recover(t.Context()); err != nil || r == nil || r.Result != RolledBack {
		t.Fatalf("%+v %v", r, err)
	}
	held(t, n, "", kubelet.Fields{"maxPods": int64(100)})
}

// TestRefused tests that impossible requests are refused before anything is changed.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		files      map[string]string
		pods       int
		change     func(*Node, standing)
		want       string
	}{
		{"no --config-dir", "maxPods: 300", map[string]string{"proc/41/cmdline": "kubelet\x00--config=" + config + "\x00"}, 10, nil, "the kubelet reads no drop-ins; add --config-dir=DIRECTORY to its command line (1.28 and 1.29 also need KUBELET_CONFIG_DROPIN_DIR_ALPHA=on in its environment)"},
		{"a flag", "maxPods: 300", map[string]string{"proc/41/cmdline": "kubelet\x00--config=" + config + "\x00--config-dir=" + configDir + "\x00--max-pods=50\x00"}, 10, nil, "maxPods is on the kubelet's command line (the command line of process 41: 50)"},
		{"a later drop-in", "maxPods: 300", map[string]string{configDir[1:] + "/99-z.conf": "kind: KubeletConfiguration\nmaxPods: 40\n"}, 10, nil, "/99-z.conf, which overrides 90-fettle.conf"},
		{"it would not start", "{cpuManagerPolicy: static}", map[string]string{config[1:]: "kind: KubeletConfiguration\n"}, 10, nil, "the kubelet would not start: the static CPU manager needs reserved CPUs"},
		{"more pods run", "maxPods: 20", nil, 21, nil, "21 pods run on the node, but the new limit is 20"},
		{"a drop-in that cannot be read", "maxPods: 300", nil, 10, func(_ *Node, k standing) {
			if err := os.WriteFile(k.root+configDir+"/20-x.conf", []byte("a: [\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "20-x.conf"},
		{"files that it has not read yet", "maxPods: 300", nil, 10, func(_ *Node, k standing) {
			if err := os.WriteFile(k.root+configDir+"/20-x.conf", []byte("kind: KubeletConfiguration\ncpuManagerPolicy: static\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "cpuManagerPolicy: the kubelet's files differ from its running values"},
		{"a kubelet that does not run", "maxPods: 300", nil, 10, func(_ *Node, k standing) { _ = k.Stop(t.Context()) }, "the kubelet must be healthy before its settings are changed:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, k := newNode(t, c.files)
			if c.change != nil {
				c.change(n, k)
			}
			_, err := n.Apply(t.Context(), wanted(t, c.text), c.pods, true)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if s, err := journal.Read(n.StateDir, ""); err != nil || len(s.Txs) > 0 {
				t.Errorf("the journal has %d transactions: %v", len(s.Txs), err)
			}
		})
	}
}

// TestChangedByHand tests that manual edits of the drop-in stay.
func TestChangedByHand(t *testing.T) {
	n, k := newNode(t, nil)
	if r, err := n.Apply(t.Context(), wanted(t, "maxPods: 300"), 10, false); err != nil || r.Result != Done {
		t.Fatalf("%+v %v", r, err)
	}
	file := filepath.Join(k.root, configDir, DropIn)
	if err := os.WriteFile(file, []byte("kind: KubeletConfiguration\nmaxPods: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Apply(t.Context(), wanted(t, "maxPods: 301"), 10, false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "was edited after fettle wrote it; restore the file's content, or remove") {
		t.Errorf("%v", err)
	}
}
