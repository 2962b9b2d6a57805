package admission

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/kube/pod/admission/state"
	"fettle.dev/fettle/test/admission/upstream"
)

var update = flag.Bool("update", false, "write the state files that kube/pod/admission/state is tested with anew")

// stateIn reads the files of a kubelet's directory.
func stateIn(dir string, of admission.Settings) (admission.State, error) {
	var s admission.State
	text, err := os.ReadFile(filepath.Join(dir, "cpu_manager_state"))
	if err != nil {
		return s, err
	}
	if s.CPU, err = state.CPU(text, of); err != nil {
		return s, err
	}
	if text, err = os.ReadFile(filepath.Join(dir, "memory_manager_state")); err != nil {
		return s, err
	}
	s.Memory, err = state.Memory(text, of)
	return s, err
}

// TestStateFiles lets kubelets write their files, reads them, and starts kubelets with
// them: of the same settings and of others, with fewer pods, and with damage.
func TestStateFiles(t *testing.T) {
	seen := tally{}
	for seed := range uint64(400) {
		if err := oneDirectory(t, seed, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{"files read", "started again", "not started again", "pods gone", "damage found"} {
		if seen[want] < 20 {
			t.Errorf("%q was seen %d times", want, seen[want])
		}
	}
	compared(t, "directories of state files", 400)
}

func oneDirectory(t *testing.T, seed uint64, seen tally) error {
	d := newDice(seed)
	in := admission.Input{Node: d.node(), Pod: admission.Pod{Containers: []admission.Container{{Name: "c"}}}}
	in.Settings = d.settings(&in.Node)
	in.Settings.FeatureGates = nil
	for _, o := range []string{"align-by-socket", "distribute-cpus-across-cores"} {
		delete(in.Settings.CPUManagerPolicyOptions, o)
	}
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := admission.Predict(in)
	if err != nil {
		return err
	}
	if p.Verdict.Outcome == admission.NodeFails {
		return nil // TestAgainstUpstream has these
	}
	f, err := upstream.StartFiles(dir, &in, nil)
	if err != nil {
		return err
	}
	var there []*v1.Pod
	for i := range d.between(1, 4) {
		pod, admitted, err := inFiles(dir, f, &in, d.pod(fmt.Sprintf("pod-%d", i), &in.Node, nil), true)
		if err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
		if pod == nil {
			return nil
		}
		if admitted {
			there = append(there, pod)
		}
		f.Pods = there
		seen["files read"]++
	}
	// Some pods go while no kubelet runs, and some settings change.
	if len(there) > 0 && d.chance(60) {
		there = there[1:]
		seen["pods gone"]++
	}
	if d.chance(40) {
		other := d.settings(&in.Node)
		other.FeatureGates = nil
		in.Settings.ReservedSystemCPUs, in.Settings.CPUManagerPolicy, in.Settings.MemoryManagerPolicy = other.ReservedSystemCPUs, other.CPUManagerPolicy, other.MemoryManagerPolicy
		in.Settings.KubeReserved, in.Settings.SystemReserved, in.Settings.ReservedMemory, in.Settings.CPUManagerPolicyOptions = other.KubeReserved, other.SystemReserved, other.ReservedMemory, nil
	}
	if in.State, err = stateIn(dir, in.Settings); err != nil {
		return err
	}
	in.State.Active = activePods(there)
	p, err = admission.Predict(in)
	if err != nil {
		return err
	}
	if byChance(p) {
		seen["started again or not by chance"]++
		return nil
	}
	outside := !in.Settings.ReservedSystemCPUs.Minus(online(&in.Node)).IsEmpty() // looked at by others
	again, err := upstream.StartFiles(dir, &in, there)
	if starts := p.Verdict.Outcome != admission.NodeFails; !outside && starts != (err == nil) {
		return fmt.Errorf("starting again: predicted %+v; the kubelet: %v\n%+v", p.Verdict, err, in.Settings)
	}
	if err != nil {
		seen["not started again"]++
		return damage(d, dir, in.Settings, &in.Node, seen)
	}
	seen["started again"]++
	if _, _, err := inFiles(dir, again, &in, d.pod("late", &in.Node, nil), false); err != nil {
		return fmt.Errorf("late pod: %w", err)
	}
	return damage(d, dir, in.Settings, &in.Node, seen)
}

// byChance reports whether a kubelet may start or not: its file has a NUMA node in two groups.
func byChance(p *admission.Prediction) bool {
	return strings.Contains(p.Verdict.Message, "by chance")
}

func activePods(pods []*v1.Pod) []admission.ActivePod {
	out := []admission.ActivePod{}
	for _, p := range pods {
		a := admission.ActivePod{UID: string(p.UID)}
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			a.Containers = append(a.Containers, c.Name)
		}
		out = append(out, a)
	}
	return out
}

// inFiles predicts a pod from the files and lets the kubelet have it; no pod if it
// would crash or take too long.
func inFiles(dir string, f *upstream.Files, in *admission.Input, raw *v1.Pod, running bool) (*v1.Pod, bool, error) {
	pod, err := read(raw, in)
	if err != nil {
		return nil, false, err
	}
	if in.State, err = stateIn(dir, in.Settings); err != nil {
		return nil, false, err
	}
	in.State.Running, in.State.Active = running, activePods(f.Pods)
	p, err := admission.Predict(*in)
	if err != nil {
		return nil, false, err
	}
	if slow(p) || p.Verdict.Outcome == admission.NodeFails {
		return nil, false, nil
	}
	r := f.Admit(pod)
	o := p.Outcomes[0]
	if admit := p.Verdict.Outcome == admission.Admitted; admit != r.Admit || p.Verdict.Reason != r.Reason {
		body, _ := yaml.Marshal(raw.Spec)
		return nil, false, fmt.Errorf("predicted %+v; the kubelet: %+v\n%s", p.Verdict, r, body)
	}
	if !r.Admit {
		return pod, false, nil
	}
	for _, c := range o.Containers {
		if got := set(f.CPU.GetExclusiveCPUs(string(pod.UID), c.Name)); !got.Equal(c.CPUs) {
			return nil, false, fmt.Errorf("container %s: predicted CPUs %s, it has %s", c.Name, c.CPUs, got)
		}
	}
	return pod, true, nil
}

// stateFiles are the names of the files of a kubelet's directory.
var stateFiles = []string{"cpu_manager_state", "memory_manager_state"}

// damage changes a byte of a file. What the kubelet refuses is refused.
func damage(d dice, dir string, s admission.Settings, n *admission.Node, seen tally) error {
	for _, name := range stateFiles {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		broken := append([]byte(nil), text...)
		broken[d.IntN(len(broken))] ^= 1 << d.IntN(7)
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			return err
		}
		in := admission.Input{Node: *n, Settings: s, Pod: admission.Pod{Containers: []admission.Container{{Name: "c"}}}}
		st, mine := stateIn(dir, s)
		if mine == nil {
			in.State = st
			p, err := admission.Predict(in)
			if err != nil {
				return err
			}
			if p.Verdict.Outcome == admission.NodeFails || byChance(p) {
				mine = fmt.Errorf("%s", p.Verdict.Message)
			}
		}
		_, theirs := upstream.StartFiles(dir, &in, nil)
		if theirs != nil && mine == nil {
			return fmt.Errorf("%s is read, and the kubelet does not start: %v\n%s", name, theirs, broken)
		}
		if mine != nil {
			seen["damage found"]++
		}
		if mine != nil && theirs == nil {
			seen["damage found that a kubelet starts with"]++
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// example is the kubelet whose files package state is tested with.
func example() admission.Input {
	in := admission.Input{Node: nodes(2, 4, 1)}
	for i := range in.Node.NUMA {
		in.Node.NUMA[i].HugePages = []admission.HugePages{{SizeBytes: mib2, Pages: 10}}
	}
	gib := admission.Resources{admission.Memory: resource.MustParse("1Gi")}
	in.Settings = admission.Settings{Release: upstream.Release,
		CPUManagerPolicy: admission.PolicyStatic, ReservedSystemCPUs: unit.CPUs(0), TopologyManagerPolicy: admission.PolicySingleNUMANode, TopologyManagerScope: admission.ScopeContainer,
		MemoryManagerPolicy: admission.MemoryPolicyStatic, KubeReserved: gib, ReservedMemory: []admission.MemoryReservation{{NUMANode: 0, Limits: gib}},
	}
	return in
}

// TestForms starts kubelets with the files of other releases, without a checksum, and with a
// key that no release knows.
func TestForms(t *testing.T) {
	noSum := regexp.MustCompile(`"checksum":\d+`)
	seen := tally{}
	for _, form := range []string{"", ".1.36", ".1.37"} {
		for change, to := range map[string]func(string) string{
			"as written":   func(text string) string { return text },
			"no checksum":  func(text string) string { return noSum.ReplaceAllString(text, `"checksum":0`) },
			"a later key":  func(text string) string { return `{"later":{"x":[1]},` + text[1:] },
			"around data":  func(text string) string { return strings.Replace(text, `"policyName":"`, `"policyName":"x`, 1) },
			"data damaged": func(text string) string { return strings.Replace(text, `{\"policyName\":\"`, `{\"policyName\":\"x`, 1) },
		} {
			for _, changed := range stateFiles {
				dir, err := os.MkdirTemp("", "a") // TestMain removes it
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range stateFiles {
					from := name
					if name == changed {
						from += form
					}
					text, err := os.ReadFile(filepath.Join("../../kube/pod/admission/state/testdata", from))
					if err != nil {
						t.Fatal(err)
					}
					if name == changed {
						text = []byte(to(string(text)))
					}
					if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				in := example()
				in.Pod = admission.Pod{Containers: []admission.Container{{Name: "c"}}}
				var mine error
				if in.State, mine = stateIn(dir, in.Settings); mine == nil {
					p, err := admission.Predict(in)
					if err != nil {
						t.Fatal(err)
					}
					if p.Verdict.Outcome == admission.NodeFails {
						mine = errors.New(p.Verdict.Message)
					}
				}
				_, theirs := upstream.StartFiles(dir, &in, nil)
				if (mine == nil) != (theirs == nil) {
					t.Errorf("%s%s, %s: here %v; the kubelet %v", changed, form, change, mine, theirs)
				}
				seen[fmt.Sprintf("starts: %t", theirs == nil)]++
			}
		}
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{"starts: true", "starts: false"} {
		if seen[want] < 5 {
			t.Errorf("%q was seen %d times", want, seen[want])
		}
	}
	compared(t, "state files of other releases", seen["starts: true"]+seen["starts: false"])
}

// TestExampleFiles keeps the files that package state is tested with as a kubelet writes
// them.
func TestExampleFiles(t *testing.T) {
	in := example()
	const manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: uid-1}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 3, memory: 1Gi, hugepages-2Mi: 4Mi}}}]}\n"
	file, err := podfile.Read("p", []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	in.Pod = file.Pods[0].Pod
	in.Pod.Release = upstream.Release
	in.Pod.Default()
	var pod v1.Pod
	if err := yaml.Unmarshal([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	upstream.Default(&pod)
	suffix := ""
	if upstream.Release >= 37 {
		suffix = ".1.37"
	}
	dir := t.TempDir()
	f, err := upstream.StartFiles(dir, &in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := f.Admit(&pod); !r.Admit {
		t.Fatalf("%+v", r)
	}
	for _, name := range stateFiles {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("../../kube/pod/admission/state/testdata", name+suffix)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || len(have) != len(want) {
			t.Errorf("%s: %v, %d bytes, a kubelet writes %d: go test -run TestExampleFiles -update", path, err, len(have), len(want))
		}
	}
}
