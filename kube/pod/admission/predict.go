package admission

import (
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Reasons with which a kubelet fails a pod (status.reason). For a missing resource, the reason is
// OutOf followed by the resource's name.
const (
	ReasonTopology   = "TopologyAffinityError"
	ReasonSMT        = "SMTAlignmentError"
	ReasonUnexpected = "UnexpectedAdmissionError"
	reasonOutOf      = "OutOf"
)

// Outcomes of a pod.
const (
	// Admitted: the kubelet starts it.
	Admitted = "admitted"
	// Pending: the scheduler finds no room on the node, and the pod waits without a kubelet.
	Pending = "pending"
	// Refused: the kubelet fails the pod permanently; its controller creates another.
	Refused = "refused"
	// Invalid: the API server rejects it.
	Invalid = "invalid"
	// NodeFails: the kubelet does not start with these settings and state, or crashes with this
	// pod.
	NodeFails = "node-fails"
	// Undecided: the result depends on the choice of devices, or the kubelet is older than all
	// known rules.
	Undecided = "undecided"
	// Unknown: the result depends on unknown data: a feature gate's effect, features of the node,
	// or a DeviceClass that may provide a resource.
	Unknown = "unknown"
)

// Verdict is the outcome for a pod, with the reason.
type Verdict struct {
	Outcome string `json:"outcome"`
	// Reason is the kubelet's reason for a refusal.
	Reason string `json:"reason,omitempty"`
	// Container is the container that failed.
	Container string `json:"container,omitempty"`
	Message   string `json:"message"`
}

// refusal is an error that also has the kubelet's reason.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// Outcome is one possible sequence of allocations.
type Outcome struct {
	Verdict Verdict
	// Pod is the alignment of the pod as a whole, with topologyManagerScope pod.
	Pod *Alignment
	// Containers are the processed containers, in the kubelet's order.
	Containers []ContainerOutcome
	// Shared are the CPUs of all containers without exclusive CPUs, including reserved ones; empty
	// without a static CPU manager.
	Shared unit.CPUSet
	// Memory are the NUMA nodes' accounts after the allocations; nil without a static memory
	// manager.
	Memory map[int]*MemoryNode
}

// ContainerOutcome holds the resources that one container gets.
type ContainerOutcome struct {
	Name string
	// Kind is init, sidecar or container.
	Kind string
	// WholeCPUs is the requested number of exclusive CPUs; Why is the reason.
	WholeCPUs int
	Why       string
	// Alignment is its alignment, with topologyManagerScope container.
	Alignment *Alignment
	// CPUs are the container's exclusive CPUs; if empty, it runs in the shared pool.
	CPUs    unit.CPUSet
	Memory  []MemoryBlock
	Devices []GivenDevices
}

// GivenDevices are the devices of a resource that a container gets.
type GivenDevices struct {
	Resource string
	IDs      []string
	// Certain reports whether no other devices are possible; otherwise other devices of the same
	// NUMA nodes are equivalent.
	Certain bool
}

// Prediction is the predicted admission of a pod on a node.
type Prediction struct {
	// Verdict is the kubelet's verdict once the pod is bound to the node.
	Verdict Verdict
	// Scheduler is the verdict if the scheduler would not choose the node; nil if it may, or if the
	// node's room is unknown.
	Scheduler *Verdict
	QoS       QoS
	// Outcomes are the possible sequences of allocations; several if they depend on the choice of
	// devices, none if no kubelet decides.
	Outcomes []Outcome
	// Complete is false if some sequences were not explored.
	Complete bool
	// Problems are the API server's errors about the pod, or why the kubelet does not start.
	Problems  []string
	HugePages []PageRule
	Advice    []Advice
	// Notes are remarks that do not affect the verdict.
	Notes []string

	in      *Input
	kubelet *kubelet
}

// Predict predicts a kubelet's reaction to a pod. It returns an error for inconsistent input.
func Predict(in Input) (*Prediction, error) {
	p, err := predict(&in)
	if err != nil {
		return nil, err
	}
	p.schedule()
	p.HugePages = in.Pod.hugePageRules(&in.Node)
	p.advise()
	p.keepPageRules()
	p.note()
	return p, nil
}

// newer returns the kubelet's release if its own rules are not known yet, or "".
func (p *Prediction) newer() string {
	if r := p.in.Settings.Release; r > Newest {
		return r.String()
	}
	return ""
}

// rules returns the release whose rules were applied; "" if the kubelet is older than all known.
func (p *Prediction) rules() string {
	if r := p.in.Settings.Release.orNewest(); r >= Oldest {
		return r.String()
	}
	return ""
}

// Answer returns the verdict on the pod: the scheduler's, or else the kubelet's.
func (p *Prediction) Answer() Verdict {
	if p.Scheduler != nil {
		return *p.Scheduler
	}
	return p.Verdict
}

// schedule sets Scheduler if the scheduler would not choose the node. It checks labels, taints and
// host ports, then requests against allocatable resources and the requests of the node's pods.
func (p *Prediction) schedule() {
	in := p.in
	if in.Pod.Placement.Node != "" || p.Verdict.Outcome == Invalid || p.kubelet == nil {
		return
	}
	if p.Scheduler = in.unplaced(); p.Scheduler == nil && in.Capacity != nil {
		p.Scheduler = in.Capacity.unscheduled(&in.Pod, p.kubelet.devices)
	}
}

// kubelet is a started kubelet with the state of its managers.
type kubelet struct {
	topology topologyManager
	devices  *deviceManager
	cpu      *cpuManager
	memory   *memoryManager
}

// start starts a kubelet, or returns why it does not start.
func start(in *Input) (*kubelet, []string) {
	var problems []string
	wrong := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	s := in.Settings.withDefaults()
	k := &kubelet{}
	var err error
	k.topology, err = newTopologyManager(in, s)
	wrong(err)
	k.devices, err = newDeviceManager(in)
	wrong(err)
	k.cpu, err = startCPUManager(in, s, in.topology())
	wrong(err)
	k.memory, err = startMemoryManager(in, s)
	wrong(err)
	if len(problems) > 0 {
		return nil, problems
	}
	if in.State.Active != nil {
		k.cpu.release(in.State.CPU, in.State.gone)
		k.memory.drop(in.State.Memory, in.State.gone)
	}
	return k, nil
}

// gone reports whether a container that holds resources belongs to none of the node's pods.
func (s State) gone(pod, container string) bool {
	for _, a := range s.Active {
		if a.UID != pod {
			continue
		}
		if slices.Contains(a.Containers, container) {
			return false
		}
	}
	return true
}

// predict is like Predict, but gives no advice.
func predict(in *Input) (*Prediction, error) {
	if err := in.Node.Check(); err != nil {
		return nil, err
	}
	in.Pod.Release = in.Settings.Release
	p := &Prediction{in: in, QoS: in.Pod.qos(), Complete: true}
	if r := in.Settings.Release; r != 0 && r < Oldest {
		p.Verdict = Verdict{Outcome: Undecided, Message: fmt.Sprintf("the kubelet's version is Kubernetes %s, but only the rules of %s to %s are known", r, Oldest, Newest)}
		return p, nil
	}
	if gate := in.Settings.UnknownGate(); gate != "" {
		p.Verdict = Verdict{Outcome: Unknown, Message: "the kubelet has the feature gate " + gate + ", whose effect on admission is unknown to fettle"}
		return p, nil
	}
	if p.Problems = in.Pod.refusedByAPI(); len(p.Problems) > 0 {
		p.Verdict = Verdict{Outcome: Invalid, Message: "the API server rejects the pod: " + p.Problems[0]}
		return p, nil
	}
	k, problems := start(in)
	if p.Problems = problems; len(problems) > 0 {
		p.Verdict = Verdict{Outcome: NodeFails, Message: "the kubelet does not start: " + problems[0]}
		return p, nil
	}
	p.kubelet = k
	for c := new(choices); ; {
		p.Outcomes = append(p.Outcomes, k.admit(in, p.QoS.Class, c))
		if !c.next() {
			break
		}
		if len(p.Outcomes) == maxOutcomes {
			p.Complete = false
			break
		}
	}
	p.Verdict = p.Outcomes[0].Verdict
	for _, o := range p.Outcomes[1:] {
		if o.Verdict.Outcome != p.Verdict.Outcome || o.Verdict.Reason != p.Verdict.Reason {
			p.Verdict = Verdict{Outcome: Undecided, Message: fmt.Sprintf("the outcome depends on which devices are taken: %s", p.Outcomes[0].Verdict.words()+", or "+o.Verdict.words())}
			break
		}
	}
	if err := k.memory.chance; err != nil {
		p.Verdict = Verdict{Outcome: Undecided, Message: err.Error()}
	}
	if v := in.doubtful(); v != nil && p.Verdict.Outcome == Admitted {
		p.Verdict = *v
	}
	if !p.Complete && p.Verdict.Outcome != Undecided {
		p.Verdict = Verdict{Outcome: Undecided, Message: text.Sprintf("the outcome depends on which devices are taken, and there are too many choices: in the first %d of them the pod is %s", maxOutcomes, p.Verdict.words())}
	}
	return p, nil
}

func (v Verdict) words() string {
	if v.Reason == "" {
		return v.Outcome
	}
	return v.Outcome + " (" + v.Reason + ")"
}

// admission is the state of one pod's admission by a kubelet.
type admission struct {
	*kubelet
	in    *Input
	pod   *Pod
	class string
	pick  *choices

	shared, reuseCPUs unit.CPUSet
	memory            memoryAccounts
	reuseMemory       reusable
	taken, reuse      map[string]deviceSet
	devices           map[string]int
	unsure            map[string]bool // resources whose taken devices are uncertain
}

// admit runs the managers for the pod, one container after the other.
func (k *kubelet) admit(in *Input, class string, pick *choices) Outcome {
	a := &admission{kubelet: k, in: in, pod: &in.Pod, class: class, pick: pick,
		shared: k.cpu.shared, memory: k.memory.nodes.clone(), reuseMemory: reusable{},
		taken: map[string]deviceSet{}, reuse: map[string]deviceSet{}, devices: map[string]int{}, unsure: map[string]bool{}}
	out := Outcome{}
	container, err := a.run(&out)
	out.Shared, out.Memory = a.shared, a.memory
	out.Verdict = a.verdict(container, err, &out)
	return out
}

func (a *admission) verdict(container string, err error, out *Outcome) Verdict {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return Verdict{Refused, refused.reason, container, refused.message}
	case err != nil:
		return Verdict{NodeFails, "", container, err.Error()}
	}
	if refused = a.pod.Placement.foreignOS(); refused == nil {
		refused = a.in.strictGroups()
	}
	if refused == nil && a.in.Capacity != nil {
		refused = a.in.Capacity.refuse(a.in.withoutClaimed(), a.kubelet.devices, a.devices)
	}
	if refused == nil {
		refused = a.in.misplaced()
	}
	if refused == nil {
		refused = a.in.unsupported()
	}
	if refused != nil {
		return Verdict{Refused, refused.reason, "", refused.message}
	}
	return Verdict{Outcome: Admitted, Message: "the kubelet starts the pod"}
}

// run processes the containers. With an error, it returns the name of the failed container.
func (a *admission) run(out *Outcome) (string, error) {
	aligned := Alignment{Any: true}
	scope := a.topology.scope
	if a.topology.policy == PolicyNone {
		scope = ""
	}
	if scope == ScopePod {
		number, why := a.podCPUs()
		answers, err := a.ask(a.pod.sum(limitsOf), number, why, a.pod.memoryOfPod)
		if err != nil {
			return "", err
		}
		aligned = a.topology.align(answers)
		out.Pod = &aligned
		if !aligned.Admit {
			return "", a.notAligned(aligned)
		}
	}
	for _, c := range a.pod.all() {
		out.Containers = append(out.Containers, ContainerOutcome{Name: c.Name, Kind: a.pod.kind(&c)})
		to := &out.Containers[len(out.Containers)-1]
		to.WholeCPUs, to.Why = a.ownCPUs(&c)
		if scope == ScopeContainer {
			answers, err := a.ask(c.Limits, to.WholeCPUs, to.Why, func() (memoryRequest, error) { return memoryOf(&c) })
			if err != nil {
				return c.Name, err
			}
			aligned = a.topology.align(answers)
			to.Alignment = &Alignment{}
			*to.Alignment = aligned
			if !aligned.Admit {
				return c.Name, a.notAligned(aligned)
			}
		}
		for _, give := range []func(*Container, Alignment, *ContainerOutcome) error{a.giveDevices, a.giveCPUs, a.giveMemory} {
			if err := give(&c, aligned, to); err != nil {
				return c.Name, err
			}
		}
	}
	return "", nil
}

func (p *Pod) kind(c *Container) string {
	switch {
	case c.Sidecar:
		return "sidecar"
	case p.isInit(c.Name):
		return "init"
	}
	return "container"
}

// Bytes formats bytes for people, such as "1.5 GiB".
func Bytes(n uint64) string { return unit.Size(n).Human() }
