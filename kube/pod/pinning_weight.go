package pod

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Weights are the CPU weights of a pod's control groups.
type Weights struct {
	// Pod are the weights of the pod's own group and of the groups above it.
	Pod []Weight
	// Containers are the weights of its containers, by name.
	Containers map[string]Weight
	// Unread is why the weights are unknown, or "".
	Unread string
}

// WeightsDoc explains the CPU weights of a pod.
type WeightsDoc struct {
	Pod        WeightDoc   `json:"pod"`
	Containers []WeightDoc `json:"containers"`
	// Differ reports whether the pod's own group and its containers have weights by different
	// formulas.
	Differ bool `json:"formulas_differ"`
	// SharePercent is the pod's share of the node's CPU time if all groups want CPU time. Levels
	// show the calculation, from the pod up.
	SharePercent float64    `json:"cpu_share_percent"`
	Levels       []LevelDoc `json:"levels"`
}

// WeightDoc is the CPU weight of a control group.
type WeightDoc struct {
	Container string `json:"container,omitempty"`
	Group     string `json:"cgroup"`
	Weight    uint64 `json:"cpu_weight"`
	// Shares are the CPU shares according to the requests.
	Shares uint64 `json:"cpu_shares"`
	// Formula is linear, curve, either (both give this weight) or neither.
	Formula string `json:"formula"`
	Linear  uint64 `json:"linear_weight"`
	Curve   uint64 `json:"curve_weight"`
	// SharePercent is the group's share of its parent's CPU time.
	SharePercent float64 `json:"cpu_share_percent"`
	// AskedPercent is the share according to the CPU shares.
	AskedPercent float64 `json:"asked_share_percent,omitempty"`
}

// LevelDoc is a control group among its siblings.
type LevelDoc struct {
	Group        string            `json:"cgroup"`
	Weight       uint64            `json:"cpu_weight"`
	Siblings     map[string]uint64 `json:"siblings"`
	SharePercent float64           `json:"cpu_share_percent"`
}

// Results for a weight without a unique formula.
const (
	either  = "either"
	neither = "neither"
)

// weights determines the formulas of the pod's weights, and their effect.
func (j *judge) weights() {
	const what = "CPU weight"
	w := j.f.Weights
	switch {
	case j.f.Version != 2:
		return
	case w.Unread != "":
		j.say("", what, Note, "cannot be read: %s", w.Unread)
		return
	case len(w.Pod) == 0:
		return
	}
	doc := &WeightsDoc{Pod: weightDoc("", w.Pod[0], j.f.Pod.CPUShares()), Containers: []WeightDoc{}, Levels: []LevelDoc{}}
	share := 1.0
	for i := range w.Pod {
		level := &w.Pod[i]
		share *= level.Share()
		doc.Levels = append(doc.Levels, LevelDoc{level.Group, level.Weight, level.Siblings, percent(level.Share())})
	}
	doc.SharePercent = percent(share)
	var asked uint64
	for _, name := range slices.Sorted(maps.Keys(w.Containers)) {
		c := weightDoc(name, w.Containers[name], j.f.Pod.ContainerCPUShares(name))
		asked += c.Shares
		doc.Differ = doc.Differ || differ(c.Formula, doc.Pod.Formula)
		doc.Containers = append(doc.Containers, c)
	}
	j.doc.Weights = doc
	j.say("", what, Note, "%s; if every group wants the CPUs, the pod gets %s %% of them (%s)", doc.Pod.says(), unit.Digits(doc.SharePercent), levels(w.Pod))
	for i := range doc.Containers {
		c := &doc.Containers[i]
		c.AskedPercent = percent(float64(c.Shares) / float64(asked))
		text := c.says() + fmt.Sprintf("; %s %% of the pod's CPU time if all of its containers want it", unit.Digits(c.SharePercent))
		result := Note
		if differ(c.Formula, doc.Pod.Formula) {
			result = Warn
			text += fmt.Sprintf(". The pod's own group, which the kubelet writes, uses the other formula (%s)", doc.Pod.Formula)
			if len(doc.Containers) > 1 {
				text += fmt.Sprintf(": by its requests the container would have %s %%", unit.Digits(c.AskedPercent))
			} else {
				text += ", which makes no difference to a pod with one container"
			}
		}
		j.say(c.Container, what, result, "%s", text)
	}
}

func percent(part float64) float64 { return math.Round(part*1e4) / 100 }

// differ reports whether two formulas are certainly different.
func differ(a, b string) bool {
	return a != b && a != either && b != either && a != neither && b != neither
}

func weightDoc(container string, w Weight, shares uint64) WeightDoc {
	d := WeightDoc{
		Container: container, Group: w.Group, Weight: w.Weight, Shares: shares, Formula: neither,
		Linear: kuberelease.Linear.Weight(shares), Curve: kuberelease.Curve.Weight(shares), SharePercent: percent(w.Share()),
	}
	switch by := kuberelease.FormulasFor(shares, w.Weight); len(by) {
	case 1:
		d.Formula = string(by[0])
	case 2:
		d.Formula = either
	}
	return d
}

// says describes the weight and its formula.
func (d *WeightDoc) says() string {
	message := text.Sprintf("%d for %d shares", d.Weight, d.Shares)
	switch d.Formula {
	case string(kuberelease.Linear):
		return text.Sprintf("%s, by the linear formula (the curve gives %d)", message, d.Curve)
	case string(kuberelease.Curve):
		return text.Sprintf("%s, by the curve (the linear formula gives %d)", message, d.Linear)
	case neither:
		return text.Sprintf("%s, by neither formula (%d by the linear one, %d by the curve): the pod was resized, or another program has written it", message, d.Linear, d.Curve)
	}
	return message + ", by either formula"
}

// levels describes the groups of a pod from the top, each with its weight among its siblings.
func levels(all []Weight) string {
	var out []string
	for i := len(all) - 1; i >= 0; i-- {
		w := &all[i]
		name := w.Group[strings.LastIndexByte(w.Group, '/')+1:]
		if i == 0 {
			name = "the pod"
		}
		sum := w.Weight
		for _, n := range w.Siblings {
			sum += n
		}
		message := text.Sprintf("%s %d of %d", name, w.Weight, sum)
		if system, ok := w.Siblings["system.slice"]; ok {
			message += text.Sprintf(", system.slice %d", system)
		}
		out = append(out, message)
	}
	return strings.Join(out, "; ")
}

// Weight is a cgroup v2 group's CPU weight, which decides its share while its siblings want CPU
// time too.
type Weight struct {
	Group  string
	Weight uint64
	// Siblings are the weights of its parent's other groups that have processes, by name.
	Siblings map[string]uint64
}

// Share returns the group's part of its parent's CPU time: 0.25 for weight 100 next to three
// siblings with 100.
func (w *Weight) Share() float64 {
	sum := w.Weight
	for _, other := range w.Siblings {
		sum += other
	}
	if sum == 0 {
		return 0
	}
	return float64(w.Weight) / float64(sum)
}

// Weights returns the weights of a group of cgroup v2 and its ancestors, the group itself first.
func (h *Hierarchy) Weights(group string) ([]Weight, error) {
	inside, err := h.inside(group)
	if err != nil {
		return nil, err
	}
	var out []Weight
	for at := path.Clean("/" + inside); at != "/"; at = path.Dir(at) {
		w := Weight{Group: path.Join(h.Root, at), Siblings: map[string]uint64{}}
		if w.Weight, err = h.weight(at); err != nil {
			return nil, err
		}
		entries, err := h.files.ReadDir(path.Join(h.Mount, path.Dir(at)))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			other := path.Join(path.Dir(at), e.Name())
			if !e.IsDir() || other == at || !h.populated(other) {
				continue
			}
			if n, err := h.weight(other); err == nil { // a group that has just ended uses no CPU time
				w.Siblings[e.Name()] = n
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// weight reads cpu.weight of a group, by its path below the mount.
func (h *Hierarchy) weight(at string) (uint64, error) {
	file := path.Join(h.Mount, at, "cpu.weight")
	text, err := h.files.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n > 10000 {
		return 0, fmt.Errorf("%s: %.20q is not a weight from 0 to 10000", file, text)
	}
	return n, nil
}

// populated reports whether a group has processes; true if that is unknown.
func (h *Hierarchy) populated(at string) bool {
	text, err := h.files.ReadFile(path.Join(h.Mount, at, "cgroup.events"))
	return err != nil || !slices.Contains(strings.Split(string(text), "\n"), "populated 0")
}

// ContainerGroup returns the container's part of a process's group path, or "" if the group is not
// the container's.
func ContainerGroup(group, id string) string {
	for at := group; at != "/" && at != "." && ContainerCgroup(at, id); at = path.Dir(at) {
		if !ContainerCgroup(path.Dir(at), id) {
			return at
		}
	}
	return ""
}
