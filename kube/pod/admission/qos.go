package admission

import (
	"fmt"
	"strings"
)

// QoS is a pod's class of quality of service.
type QoS struct {
	// Class is Guaranteed, Burstable or BestEffort.
	Class string `json:"class"`
	// Why says what makes it so; for a class below Guaranteed, what is missing.
	Why []string `json:"why"`
}

// The classes.
const (
	Guaranteed = "Guaranteed"
	Burstable  = "Burstable"
	BestEffort = "BestEffort"
)

// qos is the class of a pod: CPU and memory count, amounts of zero do not.
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
	// Only limits decide whether something is missing; the amounts have to be equal in
	// the sum.
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
		missing = []string{"requests of cpu and memory are not given as the limits are"}
	}
	return QoS{Burstable, missing}
}

// wantsCPUs is the number of CPUs that a container gets for itself where the CPU
// manager is static and nothing else is against it; 0 and the reason where it gets
// none.
func (p *Pod) wantsCPUs(c *Container, class string) (int, string) {
	if class != Guaranteed {
		return 0, "the pod is " + class + ", and only Guaranteed pods get CPUs for themselves"
	}
	q := c.Requests[CPU]
	whole := q.Value()
	switch {
	case whole*1000 != q.MilliValue():
		return 0, fmt.Sprintf("it requests %s CPUs, which is not a whole number", q.String())
	case whole == 0:
		return 0, "it requests no CPU"
	case p.hasPodResources():
		return 0, "the pod has resources as a whole (spec.resources), which the CPU manager of Kubernetes " + p.Release.orNewest().String() + " leaves in the shared pool"
	}
	return int(whole), fmt.Sprintf("the pod is Guaranteed and the container requests a whole number of CPUs: %d", whole)
}
