package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// ownCPUs returns a container's number of exclusive CPUs, and the reason.
func (a *admission) ownCPUs(c *Container) (int, string) {
	if !a.cpu.static {
		return 0, "cpuManagerPolicy is none: all containers run on all CPUs"
	}
	return a.pod.wantsCPUs(c, a.class)
}

// ask returns the hints of all managers for a container, or for the pod as a whole. cpus is the
// number of exclusive CPUs, and why the reason for it.
func (a *admission) ask(limits Resources, cpus int, why string, memory func() (memoryRequest, error)) ([]Answer, error) {
	answers := a.kubelet.devices.answers(a.kubelet.devices.wanted(limits), a.taken, a.reuse)
	if cpus > 0 {
		answers = append(answers, a.cpu.hints(a.shared, a.reuseCPUs, cpus))
	} else {
		answers = append(answers, Answer{Provider: cpuProvider, Any: true, Why: why})
	}
	if why := a.noMemory(); why != "" {
		return append(answers, Answer{Provider: memoryProvider, Any: true, Why: why}), nil
	}
	want, err := memory()
	if err != nil {
		return append(answers, Answer{Provider: memoryProvider, Any: true, Why: err.Error()}), nil
	}
	if err := a.unknownMemory(want); err != nil {
		return nil, err
	}
	return append(answers, a.memory.answers(want, a.reuseMemory)...), nil
}

// podCPUs returns the number of exclusive CPUs that the pod's containers need together, and the
// reason.
func (a *admission) podCPUs() (int, string) {
	starting, sidecars, running := 0, 0, 0
	for i := range a.pod.Init {
		n, _ := a.ownCPUs(&a.pod.Init[i])
		if a.pod.Init[i].Sidecar {
			sidecars += n
		} else {
			starting = max(starting, sidecars+n)
		}
	}
	for i := range a.pod.Containers {
		n, _ := a.ownCPUs(&a.pod.Containers[i])
		running += n
	}
	if n := max(starting, running+sidecars); n > 0 {
		return n, ""
	}
	_, why := a.ownCPUs(&a.pod.Containers[0])
	return 0, why
}

// noMemory returns why the memory manager ignores the pod, or "".
func (a *admission) noMemory() string {
	switch {
	case !a.kubelet.memory.static:
		return "memoryManagerPolicy is None"
	case a.class != Guaranteed:
		return "the pod is " + a.class + ", and the memory manager serves only Guaranteed pods"
	case a.pod.hasPodResources():
		return "the pod has resources as a whole (spec.resources), which the memory manager of Kubernetes " + a.pod.Release.orNewest().String() + " leaves alone"
	}
	return ""
}

// unknownMemory returns an error for a huge page size that the node lacks.
func (a *admission) unknownMemory(want memoryRequest) error {
	name := a.memory.missing(want)
	if name == "" {
		return nil
	}
	return fmt.Errorf("the node has no %s; the memory manager of Kubernetes %s would crash if a pod with spec.nodeName requested it here", name, a.pod.Release.orNewest())
}

// notAligned returns the refusal of the topology manager, with the possible nodes of each
// resource.
func (a *admission) notAligned(al Alignment) error {
	single := a.topology.policy == PolicySingleNUMANode
	var parts []string
	for _, x := range al.Answers {
		var sets []string
		for _, h := range x.Hints {
			if h.Preferred && (!single || h.Nodes.Count() == 1) {
				sets = append(sets, nodeText(h.Nodes))
			}
		}
		const room = 4
		if len(sets) > room {
			sets = append(sets[:room], text.Count(len(sets)-room, "other"))
		}
		because := " (" + x.Why + ")"
		switch {
		case x.Any:
		case x.None:
			parts = append(parts, x.Resource+" fits nowhere"+because)
		case len(sets) == 0 && single:
			parts = append(parts, x.Resource+" fits on no single node"+because)
		case len(sets) == 0:
			parts = append(parts, x.Resource+" fits only on more nodes than on an empty machine"+because)
		case single:
			parts = append(parts, x.Resource+" fits on "+strings.Join(sets, " or "))
		default:
			parts = append(parts, x.Resource+" prefers "+strings.Join(sets, " or "))
		}
	}
	lead := "the resources do not prefer the same NUMA nodes"
	if single {
		lead = "no single NUMA node has room for all"
	}
	return &refusal{ReasonTopology, lead + ": " + strings.Join(parts, "; ")}
}

// pickDevices returns the function that chooses a container's devices of a resource. The choice
// matters if a later container is aligned with devices of the same resource.
func (a *admission) pickDevices(c *Container, resource string) func([]string, int, map[string]Mask) []string {
	if a.topology.policy == PolicyNone || a.topology.scope == ScopePod {
		return first
	}
	all := a.pod.all()
	here := slices.IndexFunc(all, func(x Container) bool { return x.Name == c.Name })
	for _, later := range all[here+1:] {
		if _, ok := later.Limits[resource]; ok {
			return a.pick.devices
		}
	}
	return first
}

// giveDevices allocates the devices of a container.
func (a *admission) giveDevices(c *Container, al Alignment, to *ContainerOutcome) error {
	m := a.kubelet.devices
	want := m.wanted(c.Limits)
	for _, name := range sorted(want) {
		if a.in.byClaim(c, name) {
			continue
		}
		got, certain, err := m.give(name, want[name], a.taken[name], a.reuse[name], al, a.pickDevices(c, name))
		if err != nil {
			return err
		}
		if len(got) == 0 {
			continue
		}
		a.taken[name] = a.taken[name].with(got)
		a.unsure[name] = a.unsure[name] || !certain // later devices are uncertain too
		to.Devices = append(to.Devices, GivenDevices{Resource: name, IDs: got, Certain: !a.unsure[name]})
	}
	for _, d := range to.Devices {
		if a.pod.isInit(c.Name) {
			a.reuse[d.Resource] = a.reuse[d.Resource].with(d.IDs)
		} else {
			a.reuse[d.Resource] = a.reuse[d.Resource].without(d.IDs)
		}
		a.devices[d.Resource] = len(a.taken[d.Resource])
	}
	return nil
}

// giveCPUs allocates a container's CPUs. CPUs of init containers are reused; sidecars and
// containers keep theirs.
func (a *admission) giveCPUs(c *Container, al Alignment, to *ContainerOutcome) error {
	if to.WholeCPUs == 0 {
		return nil
	}
	got, err := a.cpu.allocate(a.shared, a.reuseCPUs, to.WholeCPUs, al)
	if err != nil {
		return err
	}
	to.CPUs = got
	a.shared = a.shared.Minus(got)
	if a.pod.isInit(c.Name) {
		a.reuseCPUs = a.reuseCPUs.Union(got)
	} else {
		a.reuseCPUs = a.reuseCPUs.Minus(got)
	}
	return nil
}

// giveMemory allocates the memory of a container.
func (a *admission) giveMemory(c *Container, al Alignment, to *ContainerOutcome) error {
	if a.noMemory() != "" {
		return nil
	}
	want, err := memoryOf(c)
	if err != nil {
		return &refusal{ReasonUnexpected, err.Error()}
	}
	if err := a.unknownMemory(want); err != nil {
		return err
	}
	blocks, err := a.memory.give(want, a.reuseMemory, al, a.pod.Release.orNewest())
	var refused *refusal
	if errors.As(err, &refused) {
		return &refusal{refused.reason, fmt.Sprintf("%s (%s)", refused.message, wanted(want))}
	}
	if err != nil {
		return err
	}
	to.Memory = blocks
	a.reuseMemory.after(a.pod.isInit(c.Name), blocks)
	return nil
}

func wanted(want memoryRequest) string {
	var parts []string
	for _, name := range sorted(want) {
		parts = append(parts, name+" "+Bytes(want[name]))
	}
	return "wanted: " + strings.Join(parts, ", ")
}
