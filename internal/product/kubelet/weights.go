package kubelet

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
)

// weightInputs are the inputs that are answered from the pods' control groups.
var weightInputs = []fact.Input{
	{Name: "kubelet.pod_weights", Type: fact.Text, Doc: "formula of cpu.weight in the control groups that the kubelet writes, linear or curve; absent with control groups of version 1"},
	{Name: "kubelet.container_weights", Type: fact.Text, Doc: "formula of cpu.weight in the groups of containers, which the container runtime writes"},
	{Name: "kubelet.pods_cpu_percent", Type: fact.Number, Unit: "%", Doc: "share of the CPUs that all pods together get if every top-level control group is busy"},
}

// OfNow reports whether an input describes the machine's present state, whatever release is judged.
func OfNow(input string) bool {
	return input == "kubelet.skipped_files" || slices.ContainsFunc(weightInputs, func(in fact.Input) bool { return in.Name == input })
}

const (
	cgroupRoot = "/sys/fs/cgroup"
	// maxPodGroups limits the groups that are read; a node has some hundred pods.
	maxPodGroups = 20_000
)

// podTree holds the control groups of a node's pods.
type podTree struct {
	host    *host.Host
	left    int // number of groups that may still be read
	version int // cgroup version; 0 if not recorded
	top     string
	percent float64
	pods    []kuberelease.PodWeights
	written kuberelease.WeightFormulas
	err     error
}

// weightAnswer answers one of weightInputs; ok is false for other inputs.
func (i *installed) weightAnswer(input string) (a fact.Answer, ok bool) {
	switch input {
	case "pod_weights", "container_weights", "pods_cpu_percent":
	default:
		return a, false
	}
	if i.reported {
		return fact.Answer{Unknown: "the API server does not report this formula; run fettle check kubelet on the node, which reads its control groups"}, true
	}
	tree := i.tree()
	switch {
	case tree.err != nil:
		return fact.Answer{Unknown: tree.err.Error(), At: cgroupRoot}, true
	case tree.version == 1:
		return fact.Answer{}, true
	case input == "pods_cpu_percent" && tree.version == 0:
		return fact.Answer{Unknown: tree.says(), At: cgroupRoot}, true
	case input == "pods_cpu_percent" && tree.top == "":
		return fact.Answer{}, true
	case input == "pods_cpu_percent":
		return fact.Answer{Value: tree.percent, At: tree.top + "/cpu.weight"}, true
	case input == "pod_weights":
		if tree.written.Pods != "" {
			return fact.Answer{Value: string(tree.written.Pods), At: tree.says()}, true
		}
		return fact.Answer{Value: string(kuberelease.KubeletFormula), At: "by version, all kubelets from 1.29 to 1.37; " + tree.says()}, true
	}
	switch formula, at, err := i.runtimeFormula(); {
	case tree.written.Containers != "":
		return fact.Answer{Value: string(tree.written.Containers), At: tree.says()}, true
	case tree.written.Same:
		return fact.Answer{Value: string(kuberelease.KubeletFormula), At: tree.says() + ", and the same as the kubelet's"}, true
	case err != nil:
		return fact.Answer{Unknown: fmt.Sprintf("%s, and %v", tree.says(), err)}, true
	default:
		return fact.Answer{Value: string(formula), At: "by version, " + at + "; " + tree.says()}, true
	}
}

// says describes the pods that show the formulas.
func (t *podTree) says() string {
	switch {
	case t.version == 0:
		return "the control groups were not recorded"
	case t.written.Seen == 0:
		return "no running pod requests CPU"
	case t.written.Pods == "" && !t.written.Same:
		return fmt.Sprintf("not determined by cpu.weight of %d pods and their containers", t.written.Seen)
	}
	return fmt.Sprintf("cpu.weight of %d of %d pods and their containers", t.written.Fit, t.written.Seen)
}

// runtimeFormula returns the container runtime's formula, by the version of its package, and that
// version.
func (i *installed) runtimeFormula() (kuberelease.Formula, string, error) {
	var found kuberelease.Formula
	says := ""
	for _, program := range []string{"crun", "runc"} {
		version, at := product.Version(i.host, program)
		if version == "" {
			continue
		}
		f, ok := kuberelease.RuntimeFormula(program, version)
		switch {
		case !ok:
			return "", "", fmt.Errorf("%s: invalid version %q of %s", at, version, program)
		case found != "" && f != found:
			return "", "", fmt.Errorf("%s: unknown whether pods use runc or crun, whose formulas differ; see crictl info", at)
		}
		found, says = f, program+" "+version
	}
	if found == "" {
		return "", "", errors.New("no package reports the version of runc or crun; see runc --version or crun --version")
	}
	return found, says, nil
}

// readTree reads the control groups of all pods.
func readTree(h *host.Host) *podTree {
	t := &podTree{host: h, left: maxPodGroups}
	if _, err := h.Files.Stat(cgroupRoot + "/cgroup.controllers"); err != nil {
		mounts, _ := h.Files.ReadFile("/proc/1/mountinfo")
		if _, err := h.Files.Stat(cgroupRoot + "/cpuset"); err == nil || strings.Contains(string(mounts), " - cgroup ") {
			t.version = 1
		}
		return t
	}
	if _, err := h.Files.ReadDir(cgroupRoot); host.Unknown(err) {
		return t
	}
	t.version = 2
	if t.err = t.find(cgroupRoot, 0); t.err != nil {
		return t
	}
	t.written = kuberelease.DetectFormulas(t.pods)
	return t
}

// groups returns the names of a group's child groups; a group that has just ended has none.
func (t *podTree) groups(dir string) (names []string, err error) {
	entries, err := t.host.Files.ReadDir(dir)
	if err != nil && !host.NotFound(err) {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if t.left--; t.left < 0 {
			return nil, fmt.Errorf("more than %d control groups; the formulas of their weights are unknown", maxPodGroups)
		}
		names = append(names, path.Join(dir, e.Name()))
	}
	return names, nil
}

// find searches for the group of all pods, kubepods.slice or kubepods, at the top or in another
// group (--cgroup-root).
func (t *podTree) find(dir string, depth int) error {
	if depth > 2 {
		return nil
	}
	names, err := t.groups(dir)
	for _, name := range names {
		base := path.Base(name)
		if slice := strings.TrimSuffix(base, ".slice"); slice == "kubepods" || strings.HasSuffix(slice, "-kubepods") {
			t.top = name
			if t.percent, err = t.percentOf(name); err != nil {
				return err
			}
			return t.walk(name, 0)
		}
		if strings.HasSuffix(base, ".service") || strings.HasSuffix(base, ".scope") {
			continue
		}
		if err := t.find(name, depth+1); err != nil || t.top != "" {
			return err
		}
	}
	return err
}

// walk reads the groups below kubepods: Guaranteed pods and the QoS classes.
func (t *podTree) walk(dir string, depth int) error {
	if depth > 1 {
		return nil
	}
	names, err := t.groups(dir)
	for _, name := range names {
		if base := path.Base(name); !strings.HasPrefix(base, "pod") && !strings.Contains(base, "-pod") {
			if err := t.walk(name, depth+1); err != nil {
				return err
			}
			continue
		}
		inside, err := t.groups(name)
		weight, ok := t.weight(name)
		switch {
		case t.left < 0:
			return err
		case !ok || err != nil:
			continue // the group has just ended
		}
		pod := kuberelease.PodWeights{Pod: weight}
		for _, c := range inside {
			if w, ok := t.weight(c); ok {
				pod.Containers = append(pod.Containers, w)
			}
		}
		t.pods = append(t.pods, pod)
	}
	return err
}

// weight reads a group's cpu.weight; ok is false if the group has none.
func (t *podTree) weight(group string) (uint64, bool) {
	text, err := t.host.Files.ReadFile(group + "/cpu.weight")
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0 && n <= 10000
}

// percentOf returns a group's CPU share in percent if all siblings with processes, at every level
// above it, compete.
func (t *podTree) percentOf(group string) (float64, error) {
	share := 100.0
	for ; group != cgroupRoot; group = path.Dir(group) {
		siblings, err := t.groups(path.Dir(group))
		own, ok := t.weight(group)
		switch {
		case t.left < 0:
			return 0, err
		case !ok || err != nil:
			continue
		}
		sum := own
		for _, other := range siblings {
			if events, err := t.host.Files.ReadFile(other + "/cgroup.events"); other == group || err == nil && strings.Contains(string(events), "populated 0") {
				continue
			}
			if w, ok := t.weight(other); ok {
				sum += w
			}
		}
		share *= float64(own) / float64(sum)
	}
	return share, nil
}
