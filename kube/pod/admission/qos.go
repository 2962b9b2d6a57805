package admission

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// QoS is a pod's class of quality of service.
type QoS struct {
	// Class is Guaranteed, Burstable or BestEffort.
	Class string `json:"class"`
	// Why explains the class; below Guaranteed it lists the missing requests and limits.
	Why []string `json:"why"`
}

// QoS classes.
const (
	Guaranteed = "Guaranteed"
	Burstable  = "Burstable"
	BestEffort = "BestEffort"
)

// qos returns a pod's QoS class. Only CPU and memory count, and amounts of zero do not.
func (p *Pod) qos() QoS {
	type part struct {
		who              string
		requests, limits Resources
	}
	var parts []part
	own := p.Requests != nil || p.Limits != nil
	if p.Release.orNewest() >= emptyPodResources {
		own = p.hasPodResources()
	}
	if own {
		parts = append(parts, part{"the pod as a whole", p.Requests, p.Limits})
	} else {
		for _, c := range append(append([]Container{}, p.Containers...), p.Init...) {
			parts = append(parts, part{"container " + c.Name, c.Requests, c.Limits})
		}
	}
	requests, limits := Resources{}, Resources{}
	var missing []string
	for _, x := range parts {
		var without []string
		for _, name := range []string{CPU, Memory} {
			if q := x.requests[name]; positive(q) {
				requests.plus(Resources{name: q})
			}
			if q := x.limits[name]; positive(q) {
				limits.plus(Resources{name: q})
			} else {
				without = append(without, name)
			}
			request, limit := x.requests[name], x.limits[name]
			if positive(limit) && positive(request) && request.Cmp(limit) != 0 {
				missing = append(missing, fmt.Sprintf("%s requests %s of %s, and its limit is %s", x.who, request.String(), name, limit.String()))
			}
		}
		if len(without) > 0 {
			missing = append(missing, fmt.Sprintf("%s has no limit of %s", x.who, strings.Join(without, " and of ")))
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		who := "no container has a request or a limit"
		if own {
			who = "the pod's own resources (spec.resources) have neither a request nor a limit"
		}
		return QoS{BestEffort, []string{who + " of cpu or memory"}}
	}
	equal := len(requests) == len(limits)
	for name, request := range requests {
		limit, ok := limits[name]
		equal = equal && ok && request.Cmp(limit) == 0
	}
	// Only missing limits matter; amounts only have to be equal in total.
	complete := true
	for _, x := range parts {
		cpu, memory := x.limits[CPU], x.limits[Memory]
		if !positive(cpu) || !positive(memory) {
			complete = false
		}
	}
	if complete && equal {
		if own {
			return QoS{Guaranteed, []string{"requests and limits of cpu and memory of the pod as a whole are equal"}}
		}
		return QoS{Guaranteed, []string{"in every container requests and limits of cpu and memory are equal"}}
	}
	if len(missing) == 0 {
		missing = []string{"the requests of cpu and memory do not equal the limits"}
	}
	return QoS{Burstable, missing}
}

// wantsCPUs returns a container's number of exclusive CPUs with a static CPU manager if nothing
// else prevents them; 0 with the reason if it gets none.
func (p *Pod) wantsCPUs(c *Container, class string) (int, string) {
	if class != Guaranteed {
		return 0, "the pod is " + class + ", and only Guaranteed pods get exclusive CPUs"
	}
	q := c.Requests[CPU]
	whole := q.Value()
	switch {
	case whole*1000 != q.MilliValue():
		return 0, fmt.Sprintf("the container requests %s CPUs, not a whole number", q.String())
	case whole == 0:
		return 0, "the container requests no CPU"
	case p.hasPodResources():
		return 0, "the pod has resources as a whole (spec.resources), and the CPU manager of Kubernetes " + p.Release.orNewest().String() + " leaves such pods in the shared pool"
	}
	return int(whole), text.Sprintf("the pod is Guaranteed and the container requests a whole number of CPUs: %d", whole)
}

// QoS returns the class of a pod with its reasons.
func (p *Pod) QoS() QoS { return p.qos() }

// OwnCPUs returns the number of exclusive CPUs that the static CPU manager gives a container, or 0
// with the reason. An unknown container gets none.
func (p *Pod) OwnCPUs(container string) (int, string) {
	c := p.container(container)
	if c == nil {
		return 0, "the pod has no such container"
	}
	return p.wantsCPUs(c, p.qos().Class)
}

// Pool describes how a CPU manager divides the CPUs.
type Pool struct {
	// Static reports whether containers can get exclusive CPUs at all.
	Static bool
	// Online are all CPUs. Shared are those of containers without exclusive CPUs, Reserved the part
	// of these that no container gets exclusively, Free those that a container may still get.
	Online, Shared, Reserved, Free unit.CPUSet
}

// Pool returns the CPU manager's pool before the pod arrives. It returns an error if a kubelet
// would not start with these settings and this state.
func (in Input) Pool() (Pool, error) {
	if err := in.Node.Check(); err != nil {
		return Pool{}, err
	}
	k, problems := start(&in)
	if len(problems) > 0 {
		return Pool{}, errors.New(strings.Join(problems, "; "))
	}
	pool := Pool{Static: k.cpu.static, Online: k.cpu.t.all}
	if pool.Static {
		pool.Shared, pool.Reserved = k.cpu.shared, k.cpu.reserved
		pool.Free = k.cpu.available(k.cpu.shared)
	}
	return pool, nil
}

// CPUShares returns the CPU shares of the pod's own control group, from its requests
// (pkg/kubelet/cm/helpers_linux.go, ResourceConfigForPod).
func (p *Pod) CPUShares() uint64 {
	if p.qos().Class == BestEffort {
		return kuberelease.Shares(0)
	}
	q := p.requests()[CPU]
	return kuberelease.Shares(q.MilliValue())
}

// ContainerCPUShares returns the CPU shares that the kubelet passes to the container runtime
// (pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, calculateLinuxResources).
func (p *Pod) ContainerCPUShares(name string) uint64 {
	c := p.container(name)
	if c == nil {
		return kuberelease.Shares(0)
	}
	q, ok := c.Requests[CPU]
	if !ok {
		q = c.Limits[CPU]
	}
	return kuberelease.Shares(q.MilliValue())
}

// WeightDoc is the predicted CPU weight of a cgroup v2 group.
type WeightDoc struct {
	// Container is "" for the pod's own group.
	Container string `json:"container,omitempty"`
	Shares    uint64 `json:"cpu_shares"`
	// Linear and Curve are the weights by both formulas. The pod's own group, which the kubelet
	// writes, gets Linear.
	Linear uint64 `json:"linear_weight"`
	Curve  uint64 `json:"curve_weight"`
}

// Says describes the weight and who writes it.
func (d WeightDoc) Says() string {
	if d.Container == "" {
		return text.Sprintf("the pod's own group: %d for %d shares, which the kubelet writes (linear, in all releases known here); system.slice has 100", d.Linear, d.Shares)
	}
	return text.Sprintf("%s: %d for %d shares by runc before 1.3.2 or crun before 1.23, %d by newer ones", d.Container, d.Linear, d.Shares, d.Curve)
}

// weights returns a pod's predicted weights by software version; nil with cgroup v1.
func (p *Prediction) weights() []WeightDoc {
	if p.in.CgroupV1 {
		return []WeightDoc{}
	}
	pod := &p.in.Pod
	of := func(name string, shares uint64) WeightDoc {
		return WeightDoc{name, shares, kuberelease.Linear.Weight(shares), kuberelease.Curve.Weight(shares)}
	}
	out := []WeightDoc{of("", pod.CPUShares())}
	for _, c := range pod.all() {
		out = append(out, of(c.Name, pod.ContainerCPUShares(c.Name)))
	}
	return out
}
