package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Pod is the part of a pod's specification that affects admission.
type Pod struct {
	Kind, Namespace, Name string // for messages, such as Deployment, default, web
	// Placement decides on which nodes the pod may run.
	Placement Placement
	// Release is the release of the API server and the kubelet.
	Release Release
	// Init are the init containers, in order; those that always restart are sidecars.
	Init       []Container
	Containers []Container
	// Requests and Limits are for the pod as a whole (spec.resources).
	Requests, Limits Resources
	// Overhead is the overhead of the pod's runtime class.
	Overhead Resources
	// Volumes are the pod's emptyDir volumes of huge pages.
	Volumes []HugePageVolume
	// Features are the features that the node must declare (status.declaredFeatures).
	Features []string
}

// Container is a container of a pod.
type Container struct {
	Name string
	// Sidecar reports whether it is an init container with restartPolicy Always.
	Sidecar          bool
	Requests, Limits Resources
	// Claimed are the extended resources that the container gets from a claim rather than a device
	// plug-in (status.extendedResourceClaimStatus of the pod).
	Claimed []string
}

// HugePageVolume is an emptyDir of medium HugePages or HugePages-SIZE.
type HugePageVolume struct {
	Name, Medium string
	// SizeLimit is nil if the volume has none.
	SizeLimit *resource.Quantity
}

// all returns the containers in the kubelet's order.
func (p *Pod) all() []Container {
	return append(append([]Container{}, p.Init...), p.Containers...)
}

// isInit reports whether the named container is an init container that ends before the next one
// starts.
func (p *Pod) isInit(name string) bool {
	for _, c := range p.Init {
		if c.Name == name {
			return !c.Sidecar
		}
	}
	return false
}

// reuses reports whether a container may get an earlier init container's resources.
func (p *Pod) reuses(name string) bool {
	for _, c := range p.all() {
		if c.Name == name {
			return false
		}
		if p.isInit(c.Name) {
			return true
		}
	}
	return false
}

// hasPodResources reports whether the pod as a whole has resources. If it has, the CPU and memory
// managers ignore it.
func (p *Pod) hasPodResources() bool { return anyOfPod(p.Requests) || anyOfPod(p.Limits) }

func anyOfPod(r Resources) bool {
	for name := range r {
		if ofPod(name) {
			return true
		}
	}
	return false
}

// clone returns a copy that can be changed.
func (p *Pod) clone() Pod {
	out := *p
	out.Requests, out.Limits, out.Overhead = p.Requests.clone(), p.Limits.clone(), p.Overhead.clone()
	copies := func(in []Container) []Container {
		list := make([]Container, len(in))
		for i, c := range in {
			c.Requests, c.Limits = c.Requests.clone(), c.Limits.clone()
			list[i] = c
		}
		return list
	}
	out.Init, out.Containers = copies(p.Init), copies(p.Containers)
	return out
}

// container returns a pointer to the container with a name, or nil.
func (p *Pod) container(name string) *Container {
	for _, list := range [][]Container{p.Init, p.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// sum returns a pod's simultaneous need; of returns a container's amounts. It is the sum of
// containers and sidecars, or the need of an init container with the sidecars before it, if that is
// more.
func (p *Pod) sum(of func(*Container) Resources) Resources {
	total, sidecars, starting := Resources{}, Resources{}, Resources{}
	for i := range p.Containers {
		total.plus(of(&p.Containers[i]))
	}
	for i := range p.Init {
		c := &p.Init[i]
		if c.Sidecar {
			total.plus(of(c))
			sidecars.plus(of(c))
			starting.atLeast(sidecars)
			continue
		}
		now := Resources{}
		now.plus(of(c))
		now.plus(sidecars)
		starting.atLeast(now)
	}
	total.atLeast(starting)
	return total
}

func requestsOf(c *Container) Resources { return c.Requests }
func limitsOf(c *Container) Resources   { return c.Limits }

// requests returns the amounts that scheduler and kubelet count for the pod.
func (p *Pod) requests() Resources {
	total := p.sum(requestsOf)
	for name, q := range p.Requests {
		if ofPod(name) {
			total[name] = q.DeepCopy()
		}
	}
	total.plus(p.Overhead)
	return total
}

// Default sets the API server's defaults of a new pod, and returns the fields that it set. A
// missing request of a container becomes equal to the limit. If the pod has resources as a whole,
// these get defaults from the containers.
func (p *Pod) Default() []string {
	var done []string
	for _, group := range []struct {
		path string
		list []Container
	}{{"initContainers", p.Init}, {"containers", p.Containers}} {
		for i := range group.list {
			c := &group.list[i]
			for _, name := range c.Limits.names() {
				if _, ok := c.Requests[name]; ok {
					continue
				}
				if c.Requests == nil {
					c.Requests = Resources{}
				}
				c.Requests[name] = c.Limits[name].DeepCopy()
				done = append(done, group.path+"["+c.Name+"].resources.requests."+name)
			}
		}
	}
	switch {
	case p.Release.orNewest() < podResources && (p.Requests != nil || p.Limits != nil):
		p.Requests, p.Limits = nil, nil
		done = append(done, "resources (removed: off in Kubernetes "+p.Release.String()+")")
	case len(p.Requests)+len(p.Limits) > 0:
		if p.Release.orNewest() >= podLimits { // the pod's amounts are sums of rounded amounts
			p.round()
		}
		done = append(done, p.defaultOwn()...)
	}
	p.round()
	return done
}

// round rounds amounts up to thousandths, like the API server after defaulting.
func (p *Pod) round() {
	lists := []Resources{p.Requests, p.Limits, p.Overhead}
	for _, c := range p.all() {
		lists = append(lists, c.Requests, c.Limits)
	}
	for _, list := range lists {
		for name, q := range list {
			q.RoundUp(resource.Milli)
			list[name] = q
		}
	}
}

// defaultOwn sets the defaults of the pod's own resources.
func (p *Pod) defaultOwn() []string {
	var done []string
	set := func(r *Resources, field, name string, q resource.Quantity) {
		if *r == nil {
			*r = Resources{}
		}
		(*r)[name] = q.DeepCopy()
		done = append(done, "resources."+field+"."+name)
	}
	limits := p.sum(limitsOf)
	for _, name := range limits.names() {
		_, requested := p.Requests[name]
		if _, limited := p.Limits[name]; isHugePages(name) && !requested && !limited {
			set(&p.Limits, "limits", name, limits[name])
		}
	}
	filled := p.Release.orNewest() >= podLimits
	if len(p.Limits) == 0 && !filled {
		return done
	}
	requests := p.sum(requestsOf)
	for _, name := range requests.names() {
		if _, ok := p.Requests[name]; !ok && ofPod(name) && mayOvercommit(name) {
			set(&p.Requests, "requests", name, requests[name])
		}
	}
	for _, name := range p.Limits.names() {
		if _, ok := p.Requests[name]; !ok && ofPod(name) {
			set(&p.Requests, "requests", name, p.Limits[name])
		}
	}
	if !filled {
		return done
	}
	for _, name := range p.Requests.names() {
		if _, ok := p.Limits[name]; ok || !ofPod(name) || !p.allLimited(name) {
			continue
		}
		limit := limits[name]
		if request := p.Requests[name]; request.Cmp(limit) > 0 {
			limit = request
		}
		set(&p.Limits, "limits", name, limit)
	}
	return done
}

// allLimited reports whether every container has a limit of a resource.
func (p *Pod) allLimited(name string) bool {
	return !slices.ContainsFunc(p.all(), func(c Container) bool { _, ok := c.Limits[name]; return !ok })
}
