package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// refusedByAPI returns the API server's errors about the resources of a pod; a pod with errors
// never reaches a kubelet. Source: k8s.io/kubernetes v1.34.4,
// pkg/apis/core/validation/validation.go, validateResourceRequirements and
// validatePodResourceConsistency.
func (p *Pod) refusedByAPI() []string {
	var wrong []string
	if len(p.Containers) == 0 {
		wrong = append(wrong, "the pod has no containers")
	}
	seen := map[string]bool{}
	for _, c := range p.all() {
		who := "container " + c.Name
		if c.Name == "" || seen[c.Name] {
			wrong = append(wrong, fmt.Sprintf("two containers are named %q, or one has no name", c.Name))
		}
		seen[c.Name] = true
		wrong = append(wrong, wrongAmounts(who, c.Requests, c.Limits, ofContainer)...)
	}
	if p.Requests == nil && p.Limits == nil {
		return wrong
	}
	wrong = append(wrong, wrongAmounts("the pod as a whole", p.Requests, p.Limits, ofPod)...)
	containers := p.sum(requestsOf)
	for _, name := range containers.names() {
		sum := containers[name]
		if own, ok := p.Requests[name]; ok && sum.Cmp(own) > 0 {
			wrong = append(wrong, fmt.Sprintf("the containers request %s of %s, the pod as a whole requests only %s", sum.String(), name, own.String()))
		}
	}
	containers = p.sum(limitsOf)
	for _, name := range containers.names() {
		sum := containers[name]
		if own, ok := p.Limits[name]; ok && isHugePages(name) && sum.Cmp(own) > 0 {
			wrong = append(wrong, fmt.Sprintf("the limits of the containers are %s of %s, the limit of the pod as a whole is only %s", sum.String(), name, own.String()))
		}
	}
	for _, c := range p.Containers {
		for _, name := range c.Limits.names() {
			limit := c.Limits[name]
			if own, ok := p.Limits[name]; ok && limit.Cmp(own) > 0 {
				wrong = append(wrong, fmt.Sprintf("container %s has a limit of %s of %s, the pod as a whole only %s", c.Name, limit.String(), name, own.String()))
			}
		}
	}
	return wrong
}

// ofContainer reports whether a container can request a resource.
func ofContainer(name string) bool {
	return name == CPU || name == Memory || name == EphemeralStorage || isHugePages(name) || strings.Contains(name, "/")
}

// wrongAmounts returns violations of the rules for both containers and pods.
func wrongAmounts(who string, requests, limits Resources, allowed func(string) bool) []string {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, who+": "+fmt.Sprintf(format, args...)) }
	pages, cpuOrMemory := false, false
	for _, list := range []Resources{limits, requests} {
		for _, name := range list.names() {
			q := list[name]
			switch {
			case !allowed(name):
				bad("unknown resource %q", name)
			case q.Sign() < 0:
				bad("%s of %s is below zero", q.String(), name)
			case isExtended(name) && q.MilliValue()%1000 != 0:
				bad("%s of %s is not a whole number", q.String(), name)
			case isHugePages(name) && !pagesFit(name, q):
				bad("%s of %s is not a multiple of the page size", q.String(), name)
			}
			pages = pages || isHugePages(name)
			cpuOrMemory = cpuOrMemory || name == CPU || name == Memory
		}
	}
	for _, name := range requests.names() {
		request := requests[name]
		limit, limited := limits[name]
		switch {
		case !limited && !mayOvercommit(name):
			bad("%s needs a limit as well, equal to the request of %s", name, request.String())
		case limited && !mayOvercommit(name) && request.Cmp(limit) != 0:
			bad("the request of %s, %s, must equal the limit, %s", name, request.String(), limit.String())
		case limited && request.Cmp(limit) > 0:
			bad("the request of %s, %s, is above the limit, %s", name, request.String(), limit.String())
		}
	}
	if pages && !cpuOrMemory {
		bad("huge pages can only be requested together with cpu or memory")
	}
	return wrong
}

// pageSize returns the page size in the name of a huge page resource.
func pageSize(name string) (resource.Quantity, error) {
	return resource.ParseQuantity(strings.TrimPrefix(name, hugePages))
}

func pagesFit(name string, q resource.Quantity) bool {
	size, err := pageSize(name)
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return false
	}
	return q.Value()%size.Value() == 0
}

// PageRule is a rule for huge pages, with the result for the pod.
type PageRule struct {
	Rule string `json:"rule"`
	// Result is pass or fail.
	Result string `json:"result"`
	Why    string `json:"why"`

	fix, where string // the change that fulfills the rule, and where; "" if other advice has it
}

// hugePageRules checks a pod that uses huge pages against their rules.
func (p *Pod) hugePageRules(n *Node) []PageRule {
	var out []PageRule
	rule := func(ok bool, rule, why string) {
		result := "pass"
		if !ok {
			result = "fail"
		}
		out = append(out, PageRule{Rule: rule, Result: result, Why: why})
	}
	type entry struct {
		who              string
		requests, limits Resources
	}
	var entries []entry
	if p.Requests != nil || p.Limits != nil {
		entries = append(entries, entry{"the pod as a whole", p.Requests, p.Limits})
	}
	for _, c := range p.all() {
		entries = append(entries, entry{"container " + c.Name, c.Requests, c.Limits})
	}
	sizes := map[string]bool{}
	for _, e := range entries {
		both := Resources{}
		both.atLeast(e.requests)
		both.atLeast(e.limits)
		for _, name := range both.names() {
			if !isHugePages(name) {
				continue
			}
			sizes[name] = true
			request, asked := e.requests[name]
			limit, limited := e.limits[name]
			rule(asked && limited && request.Cmp(limit) == 0, "the request equals the limit",
				fmt.Sprintf("%s: %s, request %s, limit %s", e.who, name, quantityOr(request, asked), quantityOr(limit, limited)))
		}
	}
	total := p.requests()
	for _, name := range total.names() {
		if !isHugePages(name) {
			continue
		}
		asked := total[name]
		have, known := n.pages(name)
		switch {
		case !known:
			rule(false, "the node has pages of this size", fmt.Sprintf("%s: the node's kernel does not support this page size", name))
			out[len(out)-1].where, out[len(out)-1].fix = "pod", name+": request a size that the node has"+n.pageSizes()
		default:
			rule(have >= uint64(max(asked.Value(), 0)), "the node has pages of this size",
				fmt.Sprintf("%s: %s for the pod, %s on the node, used or free", name, asked.String(), resource.NewQuantity(int64(have), resource.BinarySI)))
		}
	}
	for _, v := range p.Volumes {
		out = append(out, p.volumeRules(v, sizes, total)...)
	}
	return out
}

// volumeRules checks an emptyDir of huge pages. The kubelet mounts it with the pod's page size
// (pkg/volume/emptydir); its content counts towards the limit of the pod's cgroup.
func (p *Pod) volumeRules(v HugePageVolume, sizes map[string]bool, total Resources) []PageRule {
	result := func(rule, result, why, fix string) PageRule {
		return PageRule{rule, result, "volume " + v.Name + ": " + why, fix, "pod"}
	}
	fail := func(rule, why, fix string) PageRule { return result(rule, "fail", why, "volume "+v.Name+": "+fix) }
	pass := func(rule, why string) PageRule { return result(rule, "pass", why, "") }
	const medium, within = "the medium of an emptyDir is a size that the pod requests", "an emptyDir is within the pod's request"
	var name string
	switch {
	case len(sizes) == 0:
		return []PageRule{fail(medium, "no container requests huge pages", "request hugepages-SIZE in a container, as much as the volume needs")}
	case v.Medium == "HugePages" && len(sizes) > 1:
		return []PageRule{fail(medium, "the pod requests several sizes, so the medium must be HugePages-SIZE", "set medium HugePages-SIZE")}
	case v.Medium == "HugePages":
		name = slices.Collect(maps.Keys(sizes))[0]
	default:
		want, err := resource.ParseQuantity(strings.TrimPrefix(v.Medium, "HugePages-"))
		for n := range sizes {
			if size, e := pageSize(n); err == nil && e == nil && size.Cmp(want) == 0 {
				name = n
			}
		}
		if name == "" {
			return []PageRule{fail(medium, "the medium is "+v.Medium+", but no container requests pages of this size", "request pages of this size in a container, or set another medium")}
		}
	}
	out := []PageRule{pass(medium, v.Medium+", "+name)}
	if v.SizeLimit == nil {
		return append(out, pass(within, "the volume has no sizeLimit; the pod's request limits it"))
	}
	asked := total[name]
	why := fmt.Sprintf("sizeLimit %s, request of the pod %s", v.SizeLimit.String(), asked.String())
	if v.SizeLimit.Cmp(asked) > 0 {
		return append(out, fail(within, why, fmt.Sprintf("set sizeLimit %s; or request %s of %s in the containers in total", asked.String(), v.SizeLimit.String(), name)))
	}
	return append(out, pass(within, why))
}

// pageSizes lists the node's huge page sizes as text.
func (n *Node) pageSizes() string {
	seen := map[string]bool{}
	for _, m := range n.NUMA {
		for _, h := range m.HugePages {
			if h.Pages > 0 {
				seen[h.resource()] = true
			}
		}
	}
	if len(seen) == 0 {
		return ", of which it has none now"
	}
	return ": " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// pages returns the node's total amount of a huge page size in bytes, used or free.
func (n *Node) pages(name string) (bytes uint64, known bool) {
	for _, m := range n.NUMA {
		for _, h := range m.HugePages {
			if h.resource() == name {
				bytes, known = bytes+h.Pages*h.SizeBytes, true
			}
		}
	}
	return bytes, known
}

func quantityOr(q resource.Quantity, ok bool) string {
	if !ok {
		return "none"
	}
	return q.String()
}
