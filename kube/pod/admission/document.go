package admission

import (
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/unit"
)

// Schema is the schema of a prediction's document.
const Schema = "fettle/pod-admission/v1"

// Document is the JSON form of a prediction.
type Document struct {
	Schema string `json:"schema"`
	// Kubernetes is the version whose rules were applied; "" for a kubelet that is too old.
	Kubernetes string `json:"kubernetes"`
	// Newer is the kubelet's release if it is newer than all known rules.
	Newer    string   `json:"newer_kubernetes,omitempty"`
	Node     string   `json:"node"`
	Pod      PodName  `json:"pod"`
	Policies Policies `json:"policies"`
	// Verdict is the result for the pod. Kubelet is the kubelet's verdict if the scheduler would
	// not choose the node.
	Verdict  Verdict    `json:"verdict"`
	Kubelet  *Verdict   `json:"kubelet_verdict,omitempty"`
	QoS      QoS        `json:"qos"`
	Problems []string   `json:"problems"`
	Pages    []PageRule `json:"huge_pages"`
	Courses  []Course   `json:"courses"`
	Complete bool       `json:"courses_complete"`
	Advice   []Advice   `json:"advice"`
	Notes    []string   `json:"notes"`
	Limits   []string   `json:"limits"`
	// Sources are the sources of the node's data, Assumed the assumptions for unknown values.
	Sources []Source `json:"sources"`
	Assumed []string `json:"assumed"`
	// Weights are the predicted CPU weights of the pod's control groups, its own first, by software
	// version; only for cgroup v2.
	Weights []WeightDoc `json:"cpu_weights"`
}

// PodName identifies a pod.
type PodName struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Policies are the relevant settings of the kubelet.
type Policies struct {
	CPUManager             string            `json:"cpu_manager"`
	CPUManagerOptions      map[string]string `json:"cpu_manager_options"`
	TopologyManager        string            `json:"topology_manager"`
	TopologyManagerScope   string            `json:"topology_manager_scope"`
	TopologyManagerOptions map[string]string `json:"topology_manager_options"`
	MemoryManager          string            `json:"memory_manager"`
}

// Course is one possible sequence of allocations.
type Course struct {
	Verdict    Verdict           `json:"verdict"`
	Pod        *AlignmentDoc     `json:"pod"`
	Containers []ContainerCourse `json:"containers"`
	// Shared are the shared pool's remaining CPUs, as a list.
	Shared string `json:"shared_cpus"`
}

// ContainerCourse holds the resources that one container gets.
type ContainerCourse struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Exclusive reports whether the container gets exclusive CPUs; Why is the reason.
	Exclusive bool          `json:"exclusive"`
	Why       string        `json:"why"`
	Alignment *AlignmentDoc `json:"alignment"`
	CPUs      string        `json:"cpus"`
	CPUCount  int           `json:"cpus_count"`
	CPUNodes  []int         `json:"cpus_numa_nodes"`
	Memory    []BlockDoc    `json:"memory"`
	Devices   []DevicesDoc  `json:"devices"`
}

// BlockDoc is an amount of memory or huge pages.
type BlockDoc struct {
	Resource  string `json:"resource"`
	SizeBytes uint64 `json:"size_bytes"`
	Nodes     []int  `json:"numa_nodes"`
}

// DevicesDoc is a list of devices of one resource.
type DevicesDoc struct {
	Resource string   `json:"resource"`
	Devices  []string `json:"devices"`
	// Certain reports whether no other devices are possible.
	Certain bool `json:"certain"`
}

// AlignmentDoc is the topology manager's merge of the hints.
type AlignmentDoc struct {
	Answers []AnswerDoc `json:"answers"`
	// Nodes are the NUMA nodes for the resources; null means any nodes.
	Nodes     []int `json:"numa_nodes"`
	Preferred bool  `json:"preferred"`
	Admit     bool  `json:"admit"`
	// Combinations is the number of combinations of hints that the kubelet tries.
	Combinations float64 `json:"combinations"`
}

// AnswerDoc is a manager's answer for a resource.
type AnswerDoc struct {
	Provider string `json:"provider"`
	Resource string `json:"resource"`
	// Opinion is any (every set of nodes is suitable), none (no set is) or hints.
	Opinion string    `json:"opinion"`
	Hints   []HintDoc `json:"hints"`
	// HintsCount is the number of hints; at most maxHints of them are listed.
	HintsCount int    `json:"hints_count"`
	Why        string `json:"why"`
}

// HintDoc is a set of NUMA nodes.
type HintDoc struct {
	Nodes     []int `json:"numa_nodes"`
	Preferred bool  `json:"preferred"`
}

// maxHints limits the listed hints of a resource; it suffices for eight NUMA nodes.
const maxHints = 300

// Document returns the document of a prediction.
func (p *Prediction) Document() Document {
	s := p.in.Settings.withDefaults()
	d := Document{
		Schema: Schema, Kubernetes: p.rules(), Newer: p.newer(), Node: p.in.Node.Name,
		Pod: PodName{p.in.Pod.Kind, p.in.Pod.Namespace, p.in.Pod.Name},
		Policies: Policies{
			s.CPUManagerPolicy, options(s.CPUManagerPolicyOptions),
			s.TopologyManagerPolicy, s.TopologyManagerScope, options(s.TopologyManagerPolicyOptions),
			s.MemoryManagerPolicy,
		},
		Verdict: p.Answer(), QoS: p.QoS, Complete: p.Complete, Courses: []Course{},
		Problems: list(p.Problems), Pages: list(p.HugePages), Advice: list(p.Advice), Notes: list(p.Notes), Limits: limits,
		Sources: list(p.in.Sources), Assumed: list(p.in.Assumed), Weights: p.weights(),
	}
	if text := p.in.unlooked(); text != "" {
		d.Assumed = append(slices.Clip(d.Assumed), text)
	}
	if p.Scheduler != nil {
		d.Kubelet = &p.Verdict
	}
	for i := range p.Outcomes {
		d.Courses = append(d.Courses, p.course(&p.Outcomes[i]))
	}
	return d
}

func (p *Prediction) course(o *Outcome) Course {
	c := Course{Verdict: o.Verdict, Pod: o.Pod.document(), Shared: o.Shared.String(), Containers: []ContainerCourse{}}
	for _, x := range o.Containers {
		y := ContainerCourse{
			Name: x.Name, Kind: x.Kind, Exclusive: x.WholeCPUs > 0, Why: x.Why, Alignment: x.Alignment.document(),
			CPUs: x.CPUs.String(), CPUCount: x.CPUs.Len(), CPUNodes: p.in.topology().nodesOf(x.CPUs).Nodes(),
			Memory: []BlockDoc{}, Devices: []DevicesDoc{},
		}
		for _, b := range x.Memory {
			y.Memory = append(y.Memory, BlockDoc{b.Resource, b.SizeBytes, b.Nodes.Nodes()})
		}
		for _, g := range x.Devices {
			y.Devices = append(y.Devices, DevicesDoc{g.Resource, g.IDs, g.Certain})
		}
		c.Containers = append(c.Containers, y)
	}
	return c
}

func (al *Alignment) document() *AlignmentDoc {
	if al == nil {
		return nil
	}
	d := &AlignmentDoc{Preferred: al.Preferred, Admit: al.Admit, Combinations: math.Min(al.Combinations, math.MaxFloat64), Answers: []AnswerDoc{}}
	if !al.Any {
		d.Nodes = al.Nodes.Nodes()
	}
	for _, a := range al.Answers {
		x := AnswerDoc{Provider: a.Provider, Resource: a.Resource, Opinion: "hints", Hints: []HintDoc{}, HintsCount: len(a.Hints), Why: a.Why}
		switch {
		case a.Any:
			x.Opinion = "any"
		case a.None:
			x.Opinion = "none"
		}
		for i, h := range a.Hints {
			if i == maxHints {
				break
			}
			x.Hints = append(x.Hints, HintDoc{h.Nodes.Nodes(), h.Preferred})
		}
		d.Answers = append(d.Answers, x)
	}
	return d
}

// list returns a slice that is never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func options(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// slowMerge is the number of combinations of hints for which the kubelet needs more than about one
// second.
const slowMerge = 2e6

// note adds notes to the verdict.
func (p *Prediction) note() {
	say := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if p.Verdict.Outcome == Refused && !slices.Contains([]string{"", "Pod"}, p.in.Pod.Kind) {
		say("a rejected pod stays Failed and is not rescheduled; its %s creates another, which may land on the same node", p.in.Pod.Kind)
	}
	if len(p.Outcomes) == 0 {
		return
	}
	if p.in.Capacity != nil {
		for _, name := range p.in.Capacity.unheard(&p.in.Pod, p.kubelet.devices) {
			if p.Verdict.Reason == reasonOutOf+name {
				continue
			}
			chooses := "the scheduler does not choose this node"
			if p.in.Pod.classMayGive(name) {
				chooses += " unless a DeviceClass provides the resource"
			}
			say("the node has no %s: "+chooses+". The kubelet does not check it, because it may be a resource of the cluster: a pod with spec.nodeName is started without it", name)
		}
	}
	if p.in.asksStrictGroups() && (p.in.Place == nil || p.in.Place.StrictGroups == nil) {
		say("the pod has supplementalGroupsPolicy Strict; unknown whether the node supports this policy; if not, the kubelet rejects the pod (%s)", ReasonGroups)
	}
	for _, al := range p.Outcomes[0].alignments() {
		if al.Combinations > slowMerge {
			say("the kubelet checks %s combinations of hints one by one; this takes long, and other pods wait", unit.Digits(al.Combinations))
			break
		}
	}
	for i, c := range p.Outcomes[0].Containers {
		for _, o := range p.Outcomes[1:] {
			if i < len(o.Containers) && !o.Containers[i].CPUs.Equal(c.CPUs) {
				say("which CPUs container %s gets depends on which devices are taken", c.Name)
				break
			}
		}
		if got := c.CPUs.Len(); got != 0 && got != c.WholeCPUs {
			say("container %s gets %d CPUs, not the requested %d: the kubelet counts a cache that spans NUMA nodes more than once (prefer-align-cpus-by-uncorecache)", c.Name, got, c.WholeCPUs)
		}
	}
	for _, err := range []error{p.kubelet.cpu.restart, p.kubelet.memory.restart} {
		if err != nil {
			say("the kubelet runs, but would not restart: %v", err)
		}
	}
	s := p.in.Settings.withDefaults()
	if s.CPUManagerPolicy == PolicyStatic && p.Verdict.Outcome == Admitted {
		t := p.in.topology()
		for _, c := range p.Outcomes[0].Containers {
			if others := c.CPUs.Minus(p.kubelet.cpu.available(p.kubelet.cpu.shared)); !others.IsEmpty() && !p.in.Pod.reuses(c.Name) {
				say("container %s gets %s, reserved or of another container: with offline CPUs the kubelet misjudges which cores are free", c.Name, others.Words())
			}
			if nodes := t.nodesOf(c.CPUs); nodes.Count() > 1 {
				say("the CPUs of container %s are on NUMA nodes %s", c.Name, nodes)
			}
		}
	}
}

// alignments returns the alignments of the pod or of its containers.
func (o *Outcome) alignments() []*Alignment {
	var out []*Alignment
	if o.Pod != nil {
		out = append(out, o.Pod)
	}
	for i := range o.Containers {
		if al := o.Containers[i].Alignment; al != nil {
			out = append(out, al)
		}
	}
	return out
}
