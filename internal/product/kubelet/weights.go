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

// weightInputs are answered by the control groups of pods.
var weightInputs = []fact.Input{
	{Name: "kubelet.pod_weights", Type: fact.Text, Doc: "formula of cpu.weight in the groups that the kubelet writes, linear or curve; absent on control groups of version 1"},
	{Name: "kubelet.container_weights", Type: fact.Text, Doc: "formula of cpu.weight in the groups of containers, which the container runtime writes"},
	{Name: "kubelet.pods_cpu_percent", Type: fact.Number, Unit: "%", Doc: "share of the CPUs that all pods together get if every group at the top wants them"},
}

// OfNow reports whether an input is about what is on the machine now, whatever release its
// kubelet is taken for.
func OfNow(input string) bool {
	return input == "kubelet.skipped_files" || slices.ContainsFunc(weightInputs, func(in fact.Input) bool { return in.Name == input })
}

const (
	cgroupRoot = "/sys/fs/cgroup"
	// maxPodGroups bounds how many groups are read: a node has some hundred pods.
	maxPodGroups = 20_000
)

// podTree is what the control groups of a node's pods say.
type podTree struct {
	version int // of control groups; 0 where they were not recorded
	top     string
	percent float64
	pods    []kuberelease.PodWeights
	written kuberelease.WeightFormulas
	err     error
}

// weightAnswer answers a weightInput; ok is false for other inputs.
func (i *installed) weightAnswer(input string) (a fact.Answer, ok bool) {
	switch input {
	case "pod_weights", "container_weights", "pods_cpu_percent":
	default:
		return a, false
	}
	if i.reported {
		return fact.Answer{Unknown: "the API server does not say it: fettle check kubelet on the node reads its control groups"}, true
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

// says is what the formulas were found by.
func (t *podTree) says() string {
	switch {
	case t.version == 0:
		return "the control groups were not recorded"
	case t.written.Seen == 0:
		return "no pod that asks for CPU runs"
	case t.written.Pods == "" && !t.written.Same:
		return fmt.Sprintf("cpu.weight of %d pods and their containers does not tell", t.written.Seen)
	}
	return fmt.Sprintf("cpu.weight of %d of %d pods and their containers", t.written.Fit, t.written.Seen)
}

// runtimeFormula is that of the container runtime by the version of its package.
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
			return "", "", fmt.Errorf("%s: the version %q of %s cannot be read", at, version, program)
		case found != "" && f != found:
			return "", "", fmt.Errorf("%s: which of runc and crun the pods have is not known, and their formulas differ: crictl info says it", at)
		}
		found, says = f, program+" "+version
	}
	if found == "" {
		return "", "", errors.New("no package says which version of runc or crun makes containers: runc --version or crun --version says it")
	}
	return found, says, nil
}

// readTree reads the control groups of the pods.
func readTree(h *host.Host) *podTree {
	t := &podTree{}
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
	left := maxPodGroups
	if t.err = t.find(h, cgroupRoot, 0, &left); t.err != nil {
		return t
	}
	t.written = kuberelease.DetectFormulas(t.pods)
	return t
}

// find looks for the group of all pods: kubepods.slice or kubepods, at the top or in a group
// of its own (--cgroup-root).
func (t *podTree) find(h *host.Host, dir string, depth int, left *int) error {
	entries, err := h.Files.ReadDir(dir)
	if host.NotFound(err) || depth > 2 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if *left--; *left < 0 {
			return fmt.Errorf("more than %d control groups: the formulas of their weights are unknown", maxPodGroups)
		}
		if base := strings.TrimSuffix(e.Name(), ".slice"); base == "kubepods" || strings.HasSuffix(base, "-kubepods") {
			t.top, t.percent = name, percentOf(h, name)
			return t.walk(h, name, 0, left)
		}
		if strings.HasSuffix(e.Name(), ".service") || strings.HasSuffix(e.Name(), ".scope") {
			continue
		}
		if err := t.find(h, name, depth+1, left); err != nil || t.top != "" {
			return err
		}
	}
	return nil
}

// walk reads the pods below a group: those of Guaranteed pods, and the classes.
func (t *podTree) walk(h *host.Host, dir string, depth int, left *int) error {
	entries, err := h.Files.ReadDir(dir)
	if host.NotFound(err) || depth > 1 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if *left--; *left < 0 {
			return fmt.Errorf("more than %d control groups: the formulas of their weights are unknown", maxPodGroups)
		}
		if !strings.HasPrefix(e.Name(), "pod") && !strings.Contains(e.Name(), "-pod") {
			if err := t.walk(h, name, depth+1, left); err != nil {
				return err
			}
			continue
		}
		weight, ok := weightOf(h, name)
		inside, err := h.Files.ReadDir(name)
		if !ok || err != nil {
			continue // it has just ended
		}
		pod := kuberelease.PodWeights{Pod: weight}
		for _, c := range inside {
			if w, ok := weightOf(h, path.Join(name, c.Name())); ok && c.IsDir() {
				pod.Containers = append(pod.Containers, w)
			}
		}
		t.pods = append(t.pods, pod)
	}
	return nil
}

// weightOf reads cpu.weight of a group; false where it has none.
func weightOf(h *host.Host, group string) (uint64, bool) {
	text, err := h.Files.ReadFile(group + "/cpu.weight")
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0 && n <= 10000
}

// percentOf is a group's share of the CPUs against its siblings that have processes, and
// those of the groups above it.
func percentOf(h *host.Host, group string) float64 {
	share := 100.0
	for ; group != cgroupRoot; group = path.Dir(group) {
		own, ok := weightOf(h, group)
		entries, err := h.Files.ReadDir(path.Dir(group))
		if !ok || err != nil {
			continue
		}
		sum := own
		for _, e := range entries {
			other := path.Join(path.Dir(group), e.Name())
			if events, err := h.Files.ReadFile(other + "/cgroup.events"); other == group || err == nil && strings.Contains(string(events), "populated 0") {
				continue
			}
			if w, ok := weightOf(h, other); ok && e.IsDir() {
				sum += w
			}
		}
		share *= float64(own) / float64(sum)
	}
	return share
}
