package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

// Kinds of other processes on CPUs.
const (
	ofContainer = "container"
	ofSandbox   = "sandbox" // holds the pod's namespaces, and sleeps
	ofHost      = "host"
	ofKernel    = "kernel"
)

// owner returns what kind of owner a process has, and its name.
func (f *PinningFacts) owner(p *Process) (kind, who string) {
	if p.Kernel {
		return ofKernel, "threads of the kernel"
	}
	for _, c := range f.Containers {
		if ContainerCgroup(p.Group, c.ID) {
			return ofContainer, "container " + c.Name + " of this pod"
		}
	}
	for _, o := range f.Others {
		if ContainerCgroup(p.Group, o.ID) {
			return ofContainer, "container " + o.Container + " of pod " + o.Pod
		}
	}
	if OfPods(p.Group) {
		return ofSandbox, "sandboxes of pods"
	}
	if p.Group == "" || p.Group == "/" {
		return ofHost, "processes outside of any control group"
	}
	return ofHost, p.Group
}

// company finds other processes that may run on a container's exclusive CPUs. The CPU manager
// excludes only containers from them.
func (j *judge) company(c *PinnedContainer, cpus unit.CPUSet) {
	type group struct {
		kind, who string
		number    int
		on        unit.CPUSet
	}
	groups := map[string]*group{}
	for i := range j.f.Processes {
		p := &j.f.Processes[i]
		both := p.Allowed().Intersect(cpus)
		if both.IsEmpty() || ContainerCgroup(p.Group, c.ID) {
			continue
		}
		kind, who := j.f.owner(p)
		g := groups[kind+who]
		if g == nil {
			g = &group{kind: kind, who: who}
			groups[kind+who] = g
		}
		g.number++
		g.on = g.on.Union(both)
	}
	numbers := map[string]int{}
	var containers, hosts []string
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		numbers[g.kind] += g.number
		j.doc.Company = append(j.doc.Company, CompanyDoc{c.Name, g.kind, g.who, g.number, g.on.String()})
		switch g.kind {
		case ofContainer:
			containers = append(containers, fmt.Sprintf("%s (%s)", g.who, g.on.Words()))
		case ofHost:
			hosts = append(hosts, g.who)
		}
	}
	const what = "other containers"
	if len(containers) > 0 {
		j.broken(c.Name, what, "other containers may run on its %s: %s", cpus.Words(), strings.Join(containers, ", "))
	} else {
		j.say(c.Name, what, Pass, "no other container may run on %s", cpus.Words())
	}
	const room = 4
	if len(hosts) > room {
		hosts = append(hosts[:room], text.Count(len(hosts)-room, "more group"))
	}
	if n := numbers[ofHost]; n > 0 {
		j.say(c.Name, "processes of the node", Note, "%s may run on %s (%s); the CPU manager excludes only containers; to exclude these, use CPUAffinity of systemd or isolcpus", text.Count(n, "process"), cpus.Words(), strings.Join(hosts, ", "))
	}
	if n := numbers[ofKernel]; n > 0 {
		j.say(c.Name, "threads of the kernel", Note, "%s may run on %s, including those that are bound to one CPU", text.Count(n, "kernel thread"), cpus.Words())
	}
	if n := numbers[ofSandbox]; n > 0 {
		j.say(c.Name, "sandboxes", Note, "%s of pods may run on %s; a sandbox holds namespaces and sleeps", text.Count(n, "process"), cpus.Words())
	}
}

// left records the resources that another pod can still get.
func (j *judge) left() {
	f := j.f
	if f.Pool.Static {
		j.doc.Left.Shared, j.doc.Left.Reserved = f.Pool.Shared.String(), f.Pool.Reserved.String()
		j.doc.Left.Free, j.doc.Left.FreeCount = f.Pool.Free.String(), f.Pool.Free.Len()
	}
	if f.Capacity == nil {
		return
	}
	for _, r := range f.Capacity.Left() {
		j.doc.Left.Resources = append(j.doc.Left.Resources, ResourceDoc{r.Name, r.Allocatable, r.Requested, r.Left})
	}
	for _, r := range j.doc.Left.Resources {
		// The scheduler counts thousandths of CPUs, the CPU manager whole ones.
		if !f.Pool.Static || r.Name != admission.CPU {
			continue
		}
		free := "no CPU is free for exclusive use"
		if !f.Pool.Free.IsEmpty() {
			free = "free for exclusive use: " + f.Pool.Free.Words()
		}
		whole := min(f.Capacity.Whole(admission.CPU), f.Pool.Free.Len())
		room := fmt.Sprintf("a container can get up to %s exclusively", text.Count(whole, "CPU"))
		if whole == 0 {
			room = "no container can get an exclusive CPU"
		}
		j.say("", "CPUs that are left", Note, "%s: %s of %s are not requested, and %s", room, r.Left, r.Allocatable, free)
	}
}

// Schema is the schema of the document.
const Schema = "fettle/pod-verify/v1"

// Document is the result as printed in JSON.
type Document struct {
	Schema    string `json:"schema"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Node      string `json:"node"`
	Class     string `json:"qos_class"`
	// Result is the worst result of any check: fail, else unknown, else pass.
	Result string `json:"result"`
	// Headline sums up the checks.
	Headline ui.Headline `json:"headline"`
	Version  int         `json:"cgroup_version"`

	Checks     []Check        `json:"checks"`
	Containers []ContainerDoc `json:"containers"`
	Company    []CompanyDoc   `json:"company"`
	Left       LeftDoc        `json:"left"`
	// Weights is nil for cgroup v1 and for unreadable groups.
	Weights *WeightsDoc `json:"cpu_weights,omitempty"`
}

// ContainerDoc is a container of the pod.
type ContainerDoc struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Running bool   `json:"running"`
	// Wanted is the requested number of exclusive CPUs. Exclusive reports whether the container has
	// some. CPUs is the list of assigned CPUs.
	Wanted    int    `json:"wanted_cpus_count"`
	Exclusive bool   `json:"exclusive"`
	CPUs      string `json:"cpus"`
	Group     string `json:"cgroup"`
	GroupCPUs string `json:"cgroup_cpus"`
	// Processes are the processes in it.
	Processes []ProcessDoc `json:"processes"`
}

// ProcessDoc is a process of a container.
type ProcessDoc struct {
	PID     int    `json:"pid"`
	Name    string `json:"name"`
	Threads int    `json:"threads_count"`
	CPUs    string `json:"allowed_cpus"`
}

// CompanyDoc describes other processes that may run on a container's CPUs.
type CompanyDoc struct {
	Container string `json:"container"`
	// Kind is container, sandbox, host or kernel.
	Kind      string `json:"kind"`
	Who       string `json:"who"`
	Processes int    `json:"processes_count"`
	CPUs      string `json:"cpus"`
}

// LeftDoc holds the resources that another pod can still get on the node.
type LeftDoc struct {
	Shared    string        `json:"shared_cpus"`
	Reserved  string        `json:"reserved_cpus"`
	Free      string        `json:"free_cpus"`
	FreeCount int           `json:"free_cpus_count"`
	Resources []ResourceDoc `json:"resources"`
}

// ResourceDoc is the room of one resource, in Kubernetes' quantities.
type ResourceDoc struct {
	Name        string `json:"name"`
	Allocatable string `json:"allocatable"`
	Requested   string `json:"requested"`
	Left        string `json:"left"`
}

func newDocument(f *PinningFacts) *Document {
	return &Document{
		Schema: Schema, Namespace: f.Namespace, Pod: f.Name, UID: f.UID, Node: f.Node, Class: f.Class, Version: f.Version,
		Checks: []Check{}, Containers: []ContainerDoc{}, Company: []CompanyDoc{}, Left: LeftDoc{Resources: []ResourceDoc{}},
	}
}

// conclude derives the result from the checks. An unknown check never counts as passed.
func (d *Document) conclude() {
	d.Result = Pass
	for _, c := range d.Checks {
		switch {
		case c.Result == Fail:
			d.Result = Fail
			return
		case c.Result == Unknown:
			d.Result = Unknown
		}
	}
}
