package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/text"
)

// CapacityOf returns a node's capacity with the requests of its pods.
func CapacityOf(allocatable Resources, pods []Pod) *Capacity {
	c := &Capacity{Allocatable: allocatable, Requested: Resources{}, Pods: len(pods)}
	for i := range pods {
		c.Requested.plus(pods[i].requests())
	}
	return c
}

// Room is the remaining amount of a node's resource; the values are quantities.
type Room struct{ Name, Allocatable, Requested, Left string }

// Left returns the free amount of each resource of the node that pods can request; CPU and memory
// come first.
func (c *Capacity) Left() []Room {
	var out []Room
	names := []string{CPU, Memory}
	for _, name := range c.Allocatable.names() {
		if name != CPU && name != Memory && isCounted(name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		have, used := c.Allocatable[name], c.Requested[name]
		if have.IsZero() {
			continue
		}
		left := have.DeepCopy()
		left.Sub(used)
		if isBytes(name) {
			left = *resource.NewQuantity(left.Value()>>10<<10, resource.BinarySI) // whole Ki
		}
		out = append(out, Room{name, have.String(), used.String(), left.String()})
	}
	if pods, ok := c.Allocatable["pods"]; ok {
		out = append(out, Room{"pods", pods.String(), fmt.Sprint(c.Pods), fmt.Sprint(pods.Value() - int64(c.Pods))})
	}
	return out
}

// Whole returns the remaining whole units of a resource, at least 0.
func (c *Capacity) Whole(name string) int {
	left := c.Allocatable[name].DeepCopy()
	left.Sub(c.Requested[name])
	return int(max(left.MilliValue()/1000, 0))
}

// units returns an amount in the scheduler's units: thousandths of a CPU, bytes, or pieces.
func units(name string, q resource.Quantity) int64 {
	if name == CPU {
		return q.MilliValue()
	}
	return q.Value()
}

// isCounted reports whether the scheduler counts a resource on a node.
func isCounted(name string) bool {
	switch name {
	case CPU, Memory, EphemeralStorage:
		return true
	}
	return isHugePages(name) || strings.Contains(name, "/")
}

// shortage is a resource that a node lacks for a pod.
type shortage struct {
	resource             string
	asked, used, present int64
}

// short returns the resources that the node lacks for a pod, in the kubelet's order. given is the
// number of devices that the kubelet has assigned per resource, including this pod's; at least that
// many count as present. Source: k8s.io/kubernetes v1.34.4, pkg/kubelet/lifecycle/predicate.go and
// pkg/scheduler/framework/plugins/noderesources/fit.go.
func (c *Capacity) short(p *Pod, given map[string]int) []shortage {
	var out []shortage
	if pods, ok := c.Allocatable["pods"]; ok && int64(c.Pods)+1 > pods.Value() {
		out = append(out, shortage{"pods", 1, int64(c.Pods), pods.Value()})
	}
	requests := p.requests()
	order := []string{CPU, Memory, EphemeralStorage}
	for _, name := range requests.names() {
		if name != CPU && name != Memory && name != EphemeralStorage && isCounted(name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		asked := units(name, requests[name])
		if asked == 0 {
			continue
		}
		have, known := c.Allocatable[name]
		present := units(name, have)
		if n, ok := given[name]; ok && int64(n) > present {
			present, known = int64(n), true
		}
		if !known && isExtended(name) {
			// To the kubelet this is a cluster-wide resource.
			if asked = c.unfiltered(p, name, given); asked == 0 {
				continue
			}
		}
		if used := units(name, c.Requested[name]); asked > present-used {
			out = append(out, shortage{name, asked, used, present})
		}
	}
	return out
}

// unfiltered returns how much of an extended resource that the node lacks is nevertheless counted.
// The kubelet counts the requests of init containers in releases before initExtended; the scheduler
// counts nothing. given is the parameter of short, or nil for the scheduler.
func (c *Capacity) unfiltered(p *Pod, name string, given map[string]int) int64 {
	if given == nil || p.Release.orNewest() >= initExtended {
		return 0
	}
	of := Pod{Init: p.Init}
	return units(name, of.requests()[name])
}

// classMayGive reports whether the scheduler may choose a node that lacks an extended resource,
// because a DeviceClass may provide the resource. For an unknown release it returns false.
func (p *Pod) classMayGive(name string) bool { return isExtended(name) && p.Release >= claimsFit }

// unheard returns the requested resources that a node lacks entirely. The kubelet ignores them as
// cluster-wide resources; the scheduler does not.
func (c *Capacity) unheard(p *Pod, m *deviceManager) []string {
	var out []string
	for _, name := range p.requests().names() {
		_, known := c.Allocatable[name]
		if isExtended(name) && !known && m.resources[name] == nil {
			out = append(out, name)
		}
	}
	return out
}

// refuse returns the kubelet's refusal if the node has no room for the pod, its last check; nil if
// it has.
func (c *Capacity) refuse(p *Pod, m *deviceManager, mine map[string]int) *refusal {
	given := map[string]int{}
	if len(mine) > 0 { // otherwise the kubelet does not check
		for name, d := range m.resources {
			n := mine[name]
			for _, dev := range d.devices {
				if dev.Used {
					n++
				}
			}
			if n > 0 {
				given[name] = n
			}
		}
	}
	list := c.short(p, given)
	if len(list) == 0 {
		return nil
	}
	var words []string
	for _, s := range list {
		words = append(words, s.resource+": "+s.text("in use"))
	}
	return &refusal{reasonOutOf + list[0].resource, "the node has too little: " + strings.Join(words, "; ")}
}

// unscheduled returns why the scheduler does not choose the node, or nil.
func (c *Capacity) unscheduled(p *Pod, m *deviceManager) *Verdict {
	var words, perhaps []string
	reason := ""
	add := func(name, text string) {
		if reason == "" {
			reason = "Insufficient " + name
		}
		if words != nil { // the reason names the first
			text = name + ": " + text
		}
		words = append(words, text)
	}
	for _, s := range c.short(p, nil) {
		if s.present == 0 && p.classMayGive(s.resource) {
			perhaps = append(perhaps, s.resource)
			continue
		}
		add(s.resource, s.text("requested by the node's pods"))
	}
	for _, name := range c.unheard(p, m) {
		if p.classMayGive(name) {
			perhaps = append(perhaps, name)
			continue
		}
		add(name, "the node does not have this resource")
	}
	switch {
	case reason == "" && perhaps != nil:
		return &Verdict{Outcome: Unknown, Message: fmt.Sprintf("the node has no %s, and the pod stays Pending unless a DeviceClass provides it (DRAExtendedResource, from Kubernetes %s on). fettle does not read DeviceClasses; to list them: kubectl get deviceclasses -o custom-columns=NAME:.metadata.name,GIVES:.spec.extendedResourceName", strings.Join(perhaps, " and no "), claimsFit)}
	case reason == "":
		return nil
	}
	return &Verdict{Outcome: Pending, Reason: reason, Message: strings.Join(words, "; ")}
}

// text describes a shortage, such as "8 requested, 1 of 4 in use".
func (s shortage) text(use string) string {
	t := unitText
	if s.present == 0 {
		return t(s.resource, s.asked) + " requested, and the node has none"
	}
	if isBytes(s.resource) && s.asked+s.used > s.present && Bytes(uint64(s.asked+s.used)) == Bytes(uint64(s.present)) {
		t = func(_ string, n int64) string { return text.Count(n, "byte") } // three digits do not show the difference
	}
	return fmt.Sprintf("%s requested, %s of %s %s", t(s.resource, s.asked), t(s.resource, s.used), t(s.resource, s.present), use)
}

// Human formats a quantity for people: bytes in binary units, others unchanged.
func Human(name, quantity string) string {
	q, err := resource.ParseQuantity(quantity)
	switch {
	case err != nil || !isBytes(name):
		return quantity
	case q.Sign() < 0:
		return "-" + Bytes(uint64(-q.Value()))
	}
	return Bytes(uint64(q.Value()))
}

func isBytes(name string) bool {
	return name == Memory || name == EphemeralStorage || isHugePages(name)
}

func unitText(name string, n int64) string {
	switch {
	case name == CPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case isBytes(name):
		return Bytes(uint64(n))
	}
	return text.Sprintf("%d", n)
}
