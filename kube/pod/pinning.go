// pinning verifies that a pod has its promised CPUs, and finds other processes that may run on
// them. Its input is data of the API, the kubelet's CPU manager and the node's processes; it
// accesses no machine.

package pod

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

// PinningFacts are the known facts about a pod on its node.
type PinningFacts struct {
	Node            string
	Namespace, Name string
	UID             string // as the kubelet knows it
	// Class is the QoS class in the pod's status, Pod its specification.
	Class string
	Pod   admission.Pod
	// Containers are all containers of the pod, running or not.
	Containers []PinnedContainer
	// Pool is the CPU manager's pool. Default is the pool of containers without exclusive CPUs,
	// Held the exclusive CPUs by pod and container, both according to the file HeldFrom.
	Pool     admission.Pool
	Default  unit.CPUSet
	Held     map[string]map[string]unit.CPUSet
	HeldFrom string
	// Processes are all processes of the node.
	Processes []Process
	// Groups are the CPUs of the containers' control groups; Unread has the reasons for unreadable
	// ones.
	Groups  map[string]Group
	Unread  map[string]string
	Version int // cgroup version
	Weights Weights
	// Others are the containers of the other pods on the node.
	Others []Other
	// Capacity is the room of the node; nil if unknown.
	Capacity *admission.Capacity
	// Gate is a feature gate of the kubelet with an unknown effect on admission, or "".
	Gate string
}

// PinnedContainer is a container of the pod.
type PinnedContainer struct {
	Name string
	Kind string // init, sidecar, container
	// ID is the container runtime's ID without its scheme; "" before the start.
	ID      string
	Running bool
}

// Group is a control group.
type Group struct {
	CPUs unit.CPUSet
	File string
}

// Other is a container of another pod.
type Other struct{ Pod, Container, ID string }

// Results of a check.
const (
	Pass    = "pass"
	Fail    = "fail"
	Unknown = "unknown"
	// Note is neither good nor bad.
	Note = "note"
	// Warn needs attention, but the container has its assigned CPUs.
	Warn = "warn"
)

// Check is the result of one check.
type Check struct {
	// Of is a container's name, or "" for the pod.
	Of     string `json:"container"`
	What   string `json:"check"`
	Result string `json:"result"`
	Says   string `json:"says"`
}

// judge collects the checks.
type judge struct {
	f   *PinningFacts
	doc *Document
}

func (j *judge) say(of, what, result, format string, args ...any) {
	j.doc.Checks = append(j.doc.Checks, Check{of, what, result, fmt.Sprintf(format, args...)})
}

// broken reports a deviation from the admission rules. It is a failure only if the kubelet
// certainly has these rules.
func (j *judge) broken(of, what, format string, args ...any) {
	result := Fail
	if j.f.Gate != "" {
		result = Unknown
	}
	j.say(of, what, result, format, args...)
}

// Verify runs all checks.
func Verify(f *PinningFacts) *Document {
	j := &judge{f, newDocument(f)}
	if f.Gate != "" {
		j.say("", "feature gates", Unknown, "the kubelet has %s, whose effect on admission is unknown, so the pod's promised resources are unknown", f.Gate)
	}
	j.class()
	own, running := 0, 0
	for i := range f.Containers {
		own += j.container(&f.Containers[i])
		if f.Containers[i].Running {
			running++
		}
	}
	switch {
	case running == 0:
		j.say("", "processes", Unknown, "no container of the pod runs")
	case own == 0:
		j.say("", "CPUs of its own", Note, "no container has exclusive CPUs: %s", j.whyNone())
	}
	j.weights()
	j.left()
	j.doc.conclude()
	return j.doc
}

// whyNone explains that no container has exclusive CPUs.
func (j *judge) whyNone() string {
	if !j.f.Pool.Static {
		return "cpuManagerPolicy is none, and every container runs on all CPUs"
	}
	var reasons []string
	for _, c := range j.f.Containers {
		if n, why := j.f.Pod.OwnCPUs(c.Name); n == 0 {
			reasons = append(reasons, c.Name+": "+why)
		}
	}
	if len(reasons) == 0 {
		return "the containers that request exclusive CPUs have ended or have not started"
	}
	return strings.Join(reasons, "; ")
}

func (j *judge) class() {
	should := j.f.Pod.QoS()
	if j.f.Class == should.Class {
		j.say("", "class of quality of service", Pass, "%s: %s", should.Class, strings.Join(should.Why, "; "))
		return
	}
	j.broken("", "class of quality of service", "the pod's status has the class %s, but its resources result in %s: %s", j.f.Class, should.Class, strings.Join(should.Why, "; "))
}

// container checks one container. It returns 1 if the container has exclusive CPUs, otherwise 0.
func (j *judge) container(c *PinnedContainer) int {
	doc := ContainerDoc{Name: c.Name, Kind: c.Kind, ID: c.ID, Running: c.Running, Processes: []ProcessDoc{}}
	defer func() { j.doc.Containers = append(j.doc.Containers, doc) }()
	if !c.Running {
		return 0 // an init container that has ended, or a waiting container
	}
	mine := j.processes(c.ID)
	for _, p := range mine {
		doc.Processes = append(doc.Processes, ProcessDoc{p.PID, p.Name, len(p.Threads), p.Allowed().String()})
	}
	if len(mine) == 0 {
		j.say(c.Name, "processes", Unknown, "no process found in a control group of container %s; check that the node's processes are visible (hostPID in a pod)", c.ID)
		return 0
	}
	doc.Group = mine[0].Group
	j.place(c, mine)
	promised, own := j.promised(c, &doc)
	group, known := j.f.Groups[doc.Group]
	switch {
	case !known:
		j.say(c.Name, "CPUs of its control group", Unknown, "%s", j.f.Unread[doc.Group])
	case group.CPUs.Equal(promised):
		doc.GroupCPUs = group.CPUs.String()
		j.say(c.Name, "CPUs of its control group", Pass, "%s has %s", group.File, group.CPUs)
	default:
		doc.GroupCPUs = group.CPUs.String()
		j.broken(c.Name, "CPUs of its control group", "%s has %s, but the container's CPUs are %s; the kubelet corrects this every few seconds (cpuManagerReconcilePeriod)", group.File, list(group.CPUs), list(promised))
	}
	j.threads(c, mine, promised)
	if !own {
		return 0
	}
	j.company(c, promised)
	return 1
}

// processes returns the processes of a container.
func (j *judge) processes(id string) []*Process {
	var mine []*Process
	for i := range j.f.Processes {
		if p := &j.f.Processes[i]; ContainerCgroup(p.Group, id) {
			mine = append(mine, p)
		}
	}
	return mine
}

// place checks whether the control group belongs to the pod and its QoS class.
func (j *judge) place(c *PinnedContainer, mine []*Process) {
	const what = "control group"
	group := mine[0].Group
	class := Class(group)
	switch {
	case !CgroupOf(group, j.f.UID):
		j.say(c.Name, what, Fail, "%s does not belong to pod %s", group, j.f.UID)
	case class != j.f.Class:
		j.say(c.Name, what, Fail, "%s belongs to class %s, but the pod's class is %s", group, class, j.f.Class)
	default:
		j.say(c.Name, what, Pass, "%s, of class %s", group, class)
	}
}

// promised returns the CPUs assigned to the container, and whether they are exclusive.
func (j *judge) promised(c *PinnedContainer, doc *ContainerDoc) (cpus unit.CPUSet, own bool) {
	const what = "CPUs of its own"
	wanted, why := j.f.Pod.OwnCPUs(c.Name)
	if !j.f.Pool.Static {
		wanted = 0
	}
	held, own := j.f.Held[j.f.UID][c.Name]
	doc.Wanted, doc.Exclusive = wanted, own
	switch {
	case !j.f.Pool.Static:
		cpus = j.f.Pool.Online
	case !own:
		cpus = j.f.Default
	default:
		cpus = held
	}
	doc.CPUs = cpus.String()
	switch {
	case wanted == held.Len() && own:
		j.say(c.Name, what, Pass, "%s has %s for the container: %s", j.f.HeldFrom, held.Words(), why)
	case own:
		j.broken(c.Name, what, "%s assigns %s (%d), but the container requests %d", j.f.HeldFrom, held.Words(), held.Len(), wanted)
	case wanted > 0:
		j.broken(c.Name, what, "the container requests exclusive CPUs (%d), but %s assigns none", wanted, j.f.HeldFrom)
	}
	return cpus, own
}

// threads checks that each of a container's threads may run on exactly the container's assigned
// CPUs.
func (j *judge) threads(c *PinnedContainer, mine []*Process, promised unit.CPUSet) {
	const what = "CPUs of its processes"
	threads, narrow := 0, 0
	for _, p := range mine {
		for tid, cpus := range p.Threads {
			threads++
			if outside := cpus.Minus(promised); !outside.IsEmpty() {
				j.broken(c.Name, what, "process %d (%s), thread %d, may also run on %s", p.PID, p.Name, tid, outside)
				return
			}
			if !cpus.Equal(promised) {
				narrow++
			}
		}
	}
	message := fmt.Sprintf("%s, %s: all may run on %s", text.Count(len(mine), "process"), text.Count(threads, "thread"), promised)
	if narrow > 0 {
		message += text.Sprintf(", %d of them restricted to fewer by their own affinity", narrow)
	}
	j.say(c.Name, what, Pass, "%s", message)
}

func list(s unit.CPUSet) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}
