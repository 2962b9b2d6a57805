package pod

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/pod/admission"
)

// written is the weight to which a version of a program converts shares, as its own function
// returned it (test/kubelet-releases TestWeights).
func written(t *testing.T, program string, shares uint64) uint64 {
	t.Helper()
	text, err := os.ReadFile("../../internal/kuberelease/testdata/weights.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	column := slices.Index(strings.Fields(lines[0]), program)
	for _, line := range lines[1:] {
		if words := strings.Fields(line); column > 0 && words[0] == fmt.Sprint(shares) {
			n, err := strconv.ParseUint(words[column], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no weight of %d shares", program, shares)
	return 0
}

const (
	uid = "5b1a7d0c-3f6e-4a53-9c1e-0c2c4f1a9d10"
	big = "8f2c6d1a9b7e4c3f8a5d2b1c0e9f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f"
	low = "1f2c6d1a9b7e4c3f8a5d2b1c0e9f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f"
)

// machine is a node with one Burstable pod, whose two containers request 1 CPU and 100m.
func machine(t *testing.T, podGroup uint64, ofBig, ofLow uint64) host.Files {
	t.Helper()
	const classes = "kubepods.slice/kubepods-burstable.slice"
	pod := classes + "/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	files := map[string]string{"proc/1/mountinfo": "24 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"}
	for group, weight := range map[string]uint64{
		"system.slice": 100, "user.slice": 100, "kubepods.slice": 300, "kubepods.slice/kubepods-besteffort.slice": 1, classes: 80, pod: podGroup,
		classes + "/kubepods-burstable-podother.slice": 39,
		pod + "/cri-containerd-" + big + ".scope":      ofBig, pod + "/cri-containerd-" + low + ".scope": ofLow, pod + "/cri-containerd-pause.scope": 1,
	} {
		files["sys/fs/cgroup/"+group+"/cpu.weight"] = fmt.Sprintln(weight)
		files["sys/fs/cgroup/"+group+"/cgroup.events"] = "populated 1\nfrozen 0\n"
		files["sys/fs/cgroup/"+group+"/cpuset.cpus.effective"] = "0-3\n"
	}
	files["sys/fs/cgroup/user.slice/cgroup.events"] = "populated 0\nfrozen 0\n"
	for pid, id := range map[string]string{"70": big, "71": low} {
		files["proc/"+pid+"/stat"] = pid + " (app) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5\n"
		files["proc/"+pid+"/cgroup"] = "0::/" + pod + "/cri-containerd-" + id + ".scope/inner\n"
		files["proc/"+pid+"/task/"+pid+"/status"] = "Cpus_allowed_list:\t0-3\n"
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host.Mounted(dir).Files
}

// TestWeights tests which program wrote the weights, the resulting shares of CPU time, and the
// warning if kubelet and runtime use different formulas. The groups have the results of the
// programs' own functions.
func TestWeights(t *testing.T) {
	cpu := func(text string) admission.Resources {
		return admission.Resources{admission.CPU: resource.MustParse(text)}
	}
	for _, tt := range []struct {
		kubelet, runtime string
		podFormula       string
		containerFormula string
		result           string
		bigShare         float64
	}{
		{"kubelet-1.29.14", "runc-1.2.8", "linear", "linear", Note, 88.64},  // 39 of 44
		{"kubelet-1.34.4", "cgroups-0.0.4", "linear", "curve", Warn, 84.75}, // 100 of 118
		{"kubelet-1.37.2", "cgroups-0.1.0", "linear", "curve", Warn, 84.75},
		{"cgroups-0.1.0", "cgroups-0.0.1", "curve", "linear", Warn, 88.64},
		{"cgroups-0.1.0", "cgroups-0.1.0", "curve", "curve", Note, 84.75},
	} {
		files := machine(t, written(t, tt.kubelet, 1126), written(t, tt.runtime, 1024), written(t, tt.runtime, 102))
		f := &PinningFacts{
			UID: uid, Class: admission.Burstable, Version: 2,
			Pod:        admission.Pod{Release: 34, Containers: []admission.Container{{Name: "big", Requests: cpu("1")}, {Name: "low", Requests: cpu("100m")}}},
			Containers: []PinnedContainer{{Name: "big", Kind: "container", ID: big, Running: true}, {Name: "low", Kind: "container", ID: low, Running: true}},
			Groups:     map[string]Group{}, Unread: map[string]string{},
		}
		var err error
		if f.Processes, err = Processes(files); err != nil {
			t.Fatal(err)
		}
		tree, err := Find(files)
		if err != nil {
			t.Fatal(err)
		}
		f.Weights = weights(tree, f)
		d := Verify(f)
		w := d.Weights
		if w == nil || len(w.Containers) != 2 || len(w.Levels) != 3 {
			t.Fatalf("%+v, %+v", w, f.Weights)
		}
		if w.Pod.Formula != tt.podFormula || w.Containers[0].Formula != tt.containerFormula || w.Containers[1].Formula != tt.containerFormula || w.Differ != (tt.podFormula != tt.containerFormula) {
			t.Errorf("%s, %s: %+v", tt.kubelet, tt.runtime, w)
		}
		if got := w.Containers[0].SharePercent; got != tt.bigShare || w.Containers[0].AskedPercent != 90.94 {
			t.Errorf("%s, %s: the container has %v %% and asked for %v %%", tt.kubelet, tt.runtime, got, w.Containers[0].AskedPercent)
		}
		// kubepods has 300 of 400, burstable 80 of 81, and the pod competes with 39.
		pod := float64(written(t, tt.kubelet, 1126))
		if want := 75 * 80.0 / 81 * pod / (pod + 39); w.SharePercent < want-0.01 || w.SharePercent > want+0.01 {
			t.Errorf("%s: the pod has %v %%, want %v", tt.kubelet, w.SharePercent, want)
		}
		for _, c := range d.Checks {
			if c.What == "CPU weight" && c.Of == "big" && c.Result != tt.result {
				t.Errorf("%s, %s: %+v", tt.kubelet, tt.runtime, c)
			}
		}
		if text, err := json.Marshal(d); err != nil || !strings.Contains(string(text), `"system.slice":100`) {
			t.Errorf("%v: %s", err, text)
		}
	}
}

// TestNoWeights tests that groups without weights are reported and fail no check.
func TestNoWeights(t *testing.T) {
	files := machine(t, 43, 39, 4)
	f := &PinningFacts{UID: uid, Version: 2, Containers: []PinnedContainer{{Name: "big", ID: big, Running: true}}}
	var err error
	if f.Processes, err = Processes(files); err != nil {
		t.Fatal(err)
	}
	tree, err := Find(files)
	if err != nil {
		t.Fatal(err)
	}
	all, err := tree.Weights(f.Processes[0].Group) // of a process within the container's group
	if err == nil {
		t.Errorf("%+v", all)
	}
	one := *tree
	one.Version = 1
	if w := weights(&one, f); w.Unread != "" || len(w.Pod) != 0 {
		t.Errorf("%+v", w)
	}
}
