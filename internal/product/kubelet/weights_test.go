package kubelet

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// written is the weight to which a version of a program converts shares, as its own function
// returned it (test/kubelet-releases TestWeights).
func written(t *testing.T, program string, shares int) string {
	t.Helper()
	text, err := os.ReadFile("../../kuberelease/testdata/weights.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	column := slices.Index(strings.Fields(lines[0]), program)
	for _, line := range lines[1:] {
		if words := strings.Fields(line); column > 0 && words[0] == strconv.Itoa(shares) {
			return words[column] + "\n"
		}
	}
	t.Fatalf("%s has no weight of %d shares", program, shares)
	return ""
}

// TestWeights: by which formula a node's weights were written, by what is there, and by
// version only where nothing runs.
func TestWeights(t *testing.T) {
	const (
		systemd  = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%d.slice"
		cgroupfs = "sys/fs/cgroup/kubepods/burstable/pod%d"
	)
	// Pods that ask for 1126, 4096 and 1024 shares, with their containers.
	pods := []struct {
		shares     int
		containers []int
	}{{1126, []int{1024, 102}}, {4096, []int{3072, 1024}}, {1024, []int{1024}}}
	for _, tt := range []struct {
		name, layout       string
		kubelet, runtime   string // that wrote the groups; "" where no pod runs
		packages           string
		pods, containers   string
		atPods, atContents string // what the source begins with
	}{
		{"all linear", systemd, "kubelet-1.31.14", "runc-1.2.8", "", "linear", "linear", "cpu.weight of 3 of 3 pods", "cpu.weight of 3"},
		{"a newer runtime", systemd, "kubelet-1.34.4", "cgroups-0.0.4", "", "linear", "curve", "cpu.weight of 3 of 3 pods", "cpu.weight of 3"},
		{"1.37", cgroupfs, "kubelet-1.37.2", "cgroups-0.1.0", "", "linear", "curve", "cpu.weight of 3 of 3 pods", "cpu.weight of 3"},
		{"groups that the curve wrote", cgroupfs, "cgroups-0.1.0", "cgroups-0.0.1", "", "curve", "linear", "cpu.weight of 3 of 3 pods", "cpu.weight of 3"},
		{"nothing runs", systemd, "", "", "runc 1.1.5+ds1-1+deb12u1", "linear", "linear", "by version, ", "by version, runc 1.1.5"},
		{"nothing runs, new runc", systemd, "", "", "runc 1.3.2-1", "linear", "curve", "by version, ", "by version, runc 1.3.2"},
		{"nothing runs, crun", systemd, "", "", "crun 1.8.1-1+deb12u1", "linear", "linear", "by version, ", "by version, crun 1.8.1"},
		{"two of different formulas", systemd, "", "", "crun 1.25-1 runc 1.1.5-1", "linear", "unknown", "by version, ", ""},
		{"nothing is known", systemd, "", "", "", "linear", "unknown", "by version, ", ""},
	} {
		files := node(t, "1.34.4", "", "maxPods: 9\n", map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory\n"})
		status := files["var/lib/dpkg/status"]
		words := strings.Fields(tt.packages)
		for i := 0; i+1 < len(words); i += 2 {
			status += "\nPackage: " + words[i] + "\nStatus: install ok installed\nVersion: " + words[i+1] + "\n"
		}
		files["var/lib/dpkg/status"] = status
		top, _, _ := strings.Cut(strings.TrimPrefix(tt.layout, "sys/fs/cgroup/"), "/")
		for group, weight := range map[string]string{top: "157\n", "system.slice": "100\n", "user.slice": "100\n", "init.scope": "100\n"} {
			files["sys/fs/cgroup/"+group+"/cpu.weight"] = weight
			files["sys/fs/cgroup/"+group+"/cgroup.events"] = "populated 1\n"
		}
		files["sys/fs/cgroup/user.slice/cgroup.events"] = "populated 0\n"
		for n, p := range pods {
			if tt.kubelet == "" {
				continue
			}
			dir := fmt.Sprintf(tt.layout, n)
			files[dir+"/cpu.weight"] = written(t, tt.kubelet, p.shares)
			files[dir+"/pause/cpu.weight"] = "1\n"
			for i, shares := range p.containers {
				files[fmt.Sprintf("%s/c%d/cpu.weight", dir, i)] = written(t, tt.runtime, shares)
			}
		}
		found, err := find(t.Context(), machine.Mounted(t, files))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		for input, want := range map[string][2]string{"pod_weights": {tt.pods, tt.atPods}, "container_weights": {tt.containers, tt.atContents}} {
			a := found[0].Answer(input)
			if got := printed(found[0], input); got != want[0] || !strings.HasPrefix(a.At, want[1]) {
				t.Errorf("%s: %s is %s at %q (%s), want %s at %q", tt.name, input, got, a.At, a.Unknown, want[0], want[1])
			}
		}
		if share, ok := found[0].Answer("pods_cpu_percent").Value.(float64); !ok || math.Abs(share-100*157.0/357) > 0.01 {
			t.Errorf("%s: pods have %v %%", tt.name, share)
		}
	}
}

// TestNoWeights: control groups of version 1 have none, and what a node reports does not
// say any.
func TestNoWeights(t *testing.T) {
	found, err := find(t.Context(), machine.Mounted(t, node(t, "1.34.4", "", "maxPods: 9\n", map[string]string{"sys/fs/cgroup/cpuset/cpuset.cpus": "0\n"})))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d found: %v", len(found), err)
	}
	for _, input := range []string{"pod_weights", "container_weights", "pods_cpu_percent"} {
		if a := found[0].Answer(input); a.Value != nil || a.Unknown != "" {
			t.Errorf("%s: %+v", input, a)
		}
	}
	// A copy without them does not say that pods have no share.
	found, err = find(t.Context(), machine.Copy(t, node(t, "1.34.4", "", "maxPods: 9\n", nil)))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d found: %v", len(found), err)
	}
	if a := found[0].Answer("pods_cpu_percent"); a.Unknown == "" {
		t.Errorf("of a copy: %+v", a)
	}
	i, err := Of(Reported{Config: []byte(`{"kind":"KubeletConfiguration"}`), At: "/configz of node a", Version: "1.34.3"})
	if err != nil {
		t.Fatal(err)
	}
	if a := i.Answer("pod_weights"); a.Unknown == "" {
		t.Errorf("%+v", a)
	}
}
