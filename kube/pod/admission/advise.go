package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/text"
)

// Advice is a change after which, according to the prediction, the pod would be admitted.
type Advice struct {
	// Where names the place of the change: pod, node (the pods on it) or kubelet (its settings).
	Where  string `json:"where"`
	Change string `json:"change"`
	// Then is the predicted result after the change.
	Then string `json:"then"`
}

// edit is one change of a prediction's input.
type edit struct {
	where, change string
	do            func(*Input)
}

// advise tries changes, smallest first, and keeps those that admit the pod. If none does, it tries
// pairs.
func (p *Prediction) advise() {
	p.replace()
	switch p.Verdict.Outcome {
	case Invalid:
		p.repair()
	case Refused, Undecided:
		shapes, settings := p.reshape(), p.resettle()
		for _, e := range shapes {
			p.try(e)
		}
		p.shrink()
		p.makeRoom()
		for _, group := range settings {
			p.first(group)
		}
		if len(p.Advice) > 0 {
			return
		}
		for _, shape := range shapes {
			for _, group := range settings {
				p.first(group, shape)
			}
		}
	case Admitted:
		p.ownCPUs()
	}
}

// keepPageRules adds advice on huge page rules that do not decide the admission: the kubelet admits
// a volume larger than the memory that may be written to it.
func (p *Prediction) keepPageRules() {
	for _, r := range p.HugePages {
		if r.Result == "fail" && r.fix != "" {
			p.Advice = append(p.Advice, Advice{r.where, r.fix, "holds: " + r.Rule})
		}
	}
}

// first keeps the first edit of a group that, with the edits in with, admits the pod.
func (p *Prediction) first(group []edit, with ...edit) {
	for _, e := range group {
		if p.try(append(slices.Clone(with), e)...) {
			return
		}
	}
}

// try keeps the edits if they admit the pod, and reports whether they do.
func (p *Prediction) try(edits ...edit) bool {
	in := *p.in
	in.Pod = p.in.Pod.clone()
	in.Settings.CPUManagerPolicyOptions = maps.Clone(in.Settings.CPUManagerPolicyOptions)
	var where, changes []string
	for _, e := range edits {
		e.do(&in)
		where, changes = append(where, e.where), append(changes, e.change)
	}
	then, err := predict(&in)
	if err != nil || then.Verdict.Outcome != Admitted {
		return false
	}
	p.Advice = append(p.Advice, Advice{strings.Join(where, " and "), strings.Join(changes, "; and "), then.summary()})
	return true
}

// summary describes in one line the resources that the pod gets.
func (p *Prediction) summary() string {
	var parts []string
	for _, c := range p.Outcomes[0].Containers {
		if !c.CPUs.IsEmpty() {
			parts = append(parts, c.Name+" on "+c.CPUs.Words())
		}
	}
	if len(parts) == 0 {
		parts = append(parts, p.QoS.Class)
	}
	for _, al := range p.Outcomes[0].alignments() {
		if !al.Preferred {
			parts = append(parts, "but not all from the preferred NUMA nodes")
			break
		}
	}
	if len(p.Outcomes) > 1 {
		parts = append(parts, "or other CPUs, depending on which devices are taken")
	}
	return "admitted, " + strings.Join(parts, ", ")
}

// repair makes requests and limits equal where the API server requires that.
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
	if len(done) == 0 {
		return
	}
	change := edit{"pod", strings.Join(done, "; "), func(in *Input) { in.Pod = pod }}
	if p.try(change) {
		return
	}
	// The API server then accepts the pod, but the node may not.
	in := *p.in
	in.Pod = pod
	if then, err := predict(&in); err == nil && then.Verdict.Outcome != Invalid {
		p.Advice = append(p.Advice, Advice{change.where, change.change, "the API server then accepts the pod; on this node it would be " + then.Verdict.words()})
	}
}

// set changes a container's request and limit of a resource, if the container has or needs them.
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

// reshape returns edits of the pod that do not make it smaller.
func (p *Prediction) reshape() []edit {
	if p.Verdict.Reason != ReasonSMT {
		return nil
	}
	per := p.in.topology().perCore()
	c := p.in.Pod.container(p.Verdict.Container)
	if c == nil || per < 2 {
		return nil
	}
	q := c.Requests[CPU]
	whole := (int(q.Value()) + per - 1) / per * per
	if whole == int(q.Value()) {
		return nil
	}
	return []edit{p.size(c.Name, CPU, int64(whole), "whole cores of "+text.Count(per, "thread"))}
}

// size returns an edit that sets the amount of a container's resource.
func (p *Prediction) size(container, name string, amount int64, why string) edit {
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
	return edit{"pod", change, func(in *Input) { in.Pod = after }}
}

func quantity(name string, amount int64) resource.Quantity {
	if name == Memory || isHugePages(name) || name == EphemeralStorage {
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

// ownCPUs advises how a pod that requests whole CPUs gets exclusive ones.
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
		of := p.in.Pod.clone()
		of.Requests, of.Limits = nil, nil
		if of.qos().Class == Guaranteed && p.try(edit{"pod", "for exclusive CPUs: remove spec.resources, so that the containers' resources count", func(in *Input) { in.Pod = of }}) {
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
					return // its needs are unknown
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
		p.try(edit{"pod", "for exclusive CPUs: " + strings.Join(done, "; "), func(in *Input) { in.Pod = pod }})
	}
}
