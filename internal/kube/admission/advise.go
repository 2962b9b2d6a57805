package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Advice is a change with which the pod would be admitted: it has been predicted.
type Advice struct {
	// Where is what is changed: pod, node (what runs there) or kubelet (its settings).
	Where  string `json:"where"`
	Change string `json:"change"`
	// Then is what comes of it.
	Then string `json:"then"`
}

// advise tries changes, those first that change the least, and keeps those that help.
func (p *Prediction) advise() {
	switch p.Verdict.Outcome {
	case Invalid:
		p.repair()
	case Refused, Undecided:
		p.reshape()
		p.shrink()
		p.makeRoom()
		p.resettle()
	case Admitted:
		p.ownCPUs()
	}
}

// try keeps a change of the input if the pod is admitted with it.
func (p *Prediction) try(where, change string, edit func(*Input) bool) bool {
	in := *p.in
	in.Pod = p.in.Pod.clone()
	in.Settings.CPUManagerPolicyOptions = maps.Clone(in.Settings.CPUManagerPolicyOptions)
	if !edit(&in) {
		return false
	}
	then, err := predict(&in)
	if err != nil || then.Verdict.Outcome != Admitted {
		return false
	}
	p.Advice = append(p.Advice, Advice{where, change, then.summary()})
	return true
}

// summary is what a pod gets, in a line.
func (p *Prediction) summary() string {
	var parts []string
	for _, c := range p.Outcomes[0].Containers {
		if !c.CPUs.IsEmpty() {
			parts = append(parts, c.Name+" on CPUs "+c.CPUs.String())
		}
	}
	if len(parts) == 0 {
		return "admitted, " + p.QoS.Class
	}
	if len(p.Outcomes) > 1 {
		parts = append(parts, "or others, as the devices fall")
	}
	return "admitted, " + strings.Join(parts, ", ")
}

// repair makes requests and limits agree where the API server wants that.
func (p *Prediction) repair() {
	pod := p.in.Pod.clone()
	var done []string
	for _, list := range [][]Container{pod.Init, pod.Containers} {
		for i := range list {
			c := &list[i]
			both := Resources{}
			both.atLeast(c.Requests)
			both.atLeast(c.Limits)
			for _, name := range both.names() {
				request, asked := c.Requests[name]
				limit, limited := c.Limits[name]
				want := both[name]
				var field string
				switch {
				case !mayOvercommit(name) && !limited, limited && request.Cmp(limit) > 0 && mayOvercommit(name):
					field = "limit"
				case !mayOvercommit(name) && asked && request.Cmp(limit) != 0:
					field, want = "request", limit
				default:
					continue
				}
				c.set(name, want)
				done = append(done, fmt.Sprintf("container %s: set the %s of %s to %s", c.Name, field, name, want.String()))
			}
		}
	}
	if len(done) > 0 {
		p.try("pod", strings.Join(done, "; "), func(in *Input) bool { in.Pod = pod; return true })
	}
}

// set gives a container as much of a resource as request and as limit, as far as it
// has these already or has to have them.
func (c *Container) set(name string, q resource.Quantity) {
	if c.Requests == nil {
		c.Requests = Resources{}
	}
	if c.Limits == nil {
		c.Limits = Resources{}
	}
	request, asked := c.Requests[name]
	limit, limited := c.Limits[name]
	if !asked || !limited || request.Cmp(limit) == 0 || !mayOvercommit(name) {
		c.Requests[name] = q.DeepCopy()
		if limited || !mayOvercommit(name) {
			c.Limits[name] = q.DeepCopy()
		}
		return
	}
	c.Requests[name] = q.DeepCopy()
	if q.Cmp(limit) > 0 {
		c.Limits[name] = q.DeepCopy()
	}
}

// reshape changes the pod without making it smaller.
func (p *Prediction) reshape() {
	if p.Verdict.Reason == ReasonSMT {
		per := p.in.topology().perCore()
		if c := p.in.Pod.container(p.Verdict.Container); c != nil && per > 1 {
			q := c.Requests[CPU]
			if n := (int(q.Value()) + per - 1) / per * per; n != int(q.Value()) {
				p.trySize(c.Name, CPU, int64(n), "whole cores of "+count(per, "thread"))
			}
		}
	}
}

// trySize tries another amount of a resource for a container.
func (p *Prediction) trySize(container, name string, amount int64, why string) bool {
	q := quantity(name, amount)
	after := p.in.Pod.clone()
	c := after.container(container)
	before := c.Limits[name]
	c.set(name, q)
	fields := "request"
	if limit, ok := c.Limits[name]; ok && limit.Cmp(before) != 0 {
		fields = "request and limit"
	}
	change := fmt.Sprintf("container %s: %s of %s %s", container, fields, name, q.String())
	if why != "" {
		change += " (" + why + ")"
	}
	return p.try("pod", change, func(in *Input) bool { in.Pod = after; return true })
}

func quantity(name string, amount int64) resource.Quantity {
	if name == Memory || isHugePages(name) || name == EphemeralStorage {
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

// maxTries bounds how many sizes of a resource are tried.
const maxTries = 300

// shrink looks for the largest request that would be admitted, a resource at a time,
// in the container that failed or else in the one that asks for most.
func (p *Prediction) shrink() {
	for _, name := range p.in.Pod.requests().names() {
		c := p.largest(name)
		if c == nil || name == EphemeralStorage {
			continue
		}
		for i, amount := range p.smaller(name, c) {
			if i == maxTries || p.trySize(c.Name, name, amount, "") {
				break
			}
		}
	}
}

func (p *Prediction) largest(name string) *Container {
	if c := p.in.Pod.container(p.Verdict.Container); c != nil {
		if q := c.Requests[name]; positive(q) {
			return c
		}
		return nil
	}
	var most *Container
	for _, c := range p.in.Pod.all() {
		if q := c.Requests[name]; positive(q) {
			if most == nil || q.Cmp(most.Requests[name]) > 0 {
				most = p.in.Pod.container(c.Name)
			}
		}
	}
	return most
}

// smaller lists smaller amounts of a resource that are worth trying, from the largest.
func (p *Prediction) smaller(name string, c *Container) []int64 {
	q := c.Requests[name]
	var out []int64
	switch {
	case name == Memory || isHugePages(name):
		for _, free := range p.freeMemory(name) {
			if size, err := pageSize(name); isHugePages(name) && err == nil && size.Value() > 0 {
				free -= free % size.Value()
			}
			if free > 0 && free < q.Value() {
				out = append(out, free)
			}
		}
	case name == CPU || isExtended(name):
		for n := (q.MilliValue()+999)/1000 - 1; n > 0; n-- {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}

// freeMemory lists what sets of NUMA nodes have free of a resource, and what is free on
// the node as a whole.
func (p *Prediction) freeMemory(name string) []int64 {
	var out []int64
	if k, problems := start(p.in); len(problems) == 0 {
		subsets(k.memory.nodes.ids(), func(set Mask) {
			var sum uint64
			for _, id := range set.Nodes() {
				if t := k.memory.nodes[id].Tables[name]; t != nil {
					sum += t.FreeBytes
				}
			}
			out = append(out, int64(sum))
		})
	}
	if c := p.in.Capacity; c != nil {
		have, used := c.Allocatable[name], c.Requested[name]
		out = append(out, have.Value()-used.Value())
	}
	return out
}

// ownCPUs says how a pod that asks for whole CPUs would get them for itself.
func (p *Prediction) ownCPUs() {
	s := p.in.Settings.withDefaults()
	asks, has := false, false
	for _, c := range p.Outcomes[0].Containers {
		of := p.in.Pod.container(c.Name)
		q := of.Requests[CPU]
		asks = asks || c.WholeCPUs == 0 && q.MilliValue() >= 1000
		has = has || c.WholeCPUs > 0
	}
	if s.CPUManagerPolicy != PolicyStatic || !asks || has {
		return
	}
	if p.in.Pod.hasPodResources() {
		if p.try("pod", "for CPUs of its own: leave spec.resources out, so that those of the containers count", func(in *Input) bool {
			in.Pod.Requests, in.Pod.Limits = nil, nil
			return in.Pod.qos().Class == Guaranteed
		}) {
			return
		}
	}
	pod := p.in.Pod.clone()
	var done []string
	for _, list := range [][]Container{pod.Init, pod.Containers} {
		for i := range list {
			c := &list[i]
			if c.Requests == nil {
				c.Requests = Resources{}
			}
			if c.Limits == nil {
				c.Limits = Resources{}
			}
			for _, name := range []string{CPU, Memory} {
				request, limit := c.Requests[name], c.Limits[name]
				want := request
				if !positive(want) {
					want = limit
				}
				if !positive(want) {
					return // what it needs cannot be known
				}
				if name == CPU && want.MilliValue() >= 1000 && want.MilliValue()%1000 != 0 {
					want = *resource.NewQuantity(want.Value(), resource.DecimalSI)
				}
				if request.Cmp(want) != 0 || limit.Cmp(want) != 0 {
					done = append(done, fmt.Sprintf("container %s: request and limit of %s %s", c.Name, name, want.String()))
				}
				c.Requests[name], c.Limits[name] = want.DeepCopy(), want.DeepCopy()
			}
		}
	}
	if len(done) > 0 {
		p.try("pod", "for CPUs of its own: "+strings.Join(done, "; "), func(in *Input) bool { in.Pod = pod; return true })
	}
}
