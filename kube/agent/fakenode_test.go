package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/kube/tuned"
)

const (
	swappiness = "/proc/sys/vm/swappiness"
	dirtyRatio = "/proc/sys/vm/dirty_ratio"
	somaxconn  = "/proc/sys/net/core/somaxconn"
	overcommit = "/proc/sys/vm/overcommit_memory"
	modprobe   = "/proc/sys/kernel/modprobe"
	bootID     = "/proc/sys/kernel/random/boot_id"
)

// pristine are the initial files of the test machine.
var pristine = map[string]string{
	swappiness: "60", dirtyRatio: "20", somaxconn: "4096", overcommit: "0", modprobe: "/sbin/modprobe", bootID: "boot-1",
}

// fakeNode is a node of plain files.
type fakeNode struct {
	*testing.T
	dir string
	*Node
	generation int64
}

func newNode(t *testing.T, files map[string]string) *fakeNode {
	f := &fakeNode{T: t, dir: t.TempDir()}
	for p, text := range pristine {
		f.write(p, text+"\n")
	}
	f.write("/etc/os-release", "ID=debian\n")
	if err := os.MkdirAll(filepath.Join(f.dir, "var/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for p, text := range files {
		f.write(p, text)
	}
	f.start()
	return f
}

// start returns a new agent.
func (f *fakeNode) start() {
	f.Node = &Node{Name: "node1", Root: f.dir, Tell: func(s string) { f.Log(s) }}
}

// boot simulates a boot of the node: the kernel has its own values.
func (f *fakeNode) boot(id string) {
	for p, text := range pristine {
		f.write(p, text+"\n")
	}
	f.write(bootID, id+"\n")
	f.start()
}

func (f *fakeNode) write(p, text string) {
	f.Helper()
	machine.WriteFile(f.T, f.dir, p, text)
}

func (f *fakeNode) read(p string) string {
	f.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, p))
	if err != nil {
		f.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// want checks values: path, value, path, value.
func (f *fakeNode) want(pairs ...string) {
	f.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := f.read(pairs[i]); got != pairs[i+1] {
			f.Errorf("%s is %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

func (f *fakeNode) wantPristine() {
	f.Helper()
	for p, text := range pristine {
		if p != bootID {
			f.want(p, text)
		}
	}
}

// profile returns a Profile object: name, text, name, text; the first one is requested.
func (f *fakeNode) profile(mode tuned.DeferMode, pairs ...string) *tuned.Profile {
	f.generation++
	p := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "node1", Generation: f.generation, Annotations: map[string]string{tuned.DeferredAnnotation: string(mode)}}}
	p.Spec.Config.TunedProfile = pairs[0]
	for i := 0; i < len(pairs); i += 2 {
		p.Spec.Profile = append(p.Spec.Profile, tuned.TunedProfile{Name: pairs[i], Data: pairs[i+1]})
	}
	return p
}

// look calls Look and requires a decision without an error.
func (f *fakeNode) look(p *tuned.Profile, want Action) Outcome {
	f.Helper()
	out := f.Look(f.Context(), true, p)
	if out.Err != nil {
		f.Fatal(out.Err)
	}
	if out.Decision.Action != want {
		f.Errorf("%s, want %s (%+v)", out.Decision.Action, want, out.Decision)
	}
	return out
}

// verdict returns the verdict of one sysctl.
func verdict(t *testing.T, out Outcome, name string) (plugin.Verdict, string) {
	t.Helper()
	if out.Values != nil {
		for _, c := range out.Values.Values {
			if c.Setting == (setting.Setting{Kind: "sysctl", Name: name}) {
				return c.Verdict, c.Why
			}
		}
	}
	return "", ""
}

func condition(t *testing.T, out Outcome, wanted string, kind tuned.ConditionType) tuned.StatusCondition {
	t.Helper()
	for _, c := range Conditions(out, wanted) {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("no condition %s", kind)
	return tuned.StatusCondition{}
}

const day, night = "[sysctl]\nvm.swappiness=10\nvm.dirty_ratio=40\n", "[sysctl]\nvm.swappiness=30\nnet.core.somaxconn=1024\n"
