package admission

import (
	"errors"
	"strings"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/unit"
)

// QoS is the class of a pod with its reasons.
func (p *Pod) QoS() QoS { return p.qos() }

// OwnCPUs is how many CPUs a container gets for itself where the CPU manager is static;
// 0 with the reason where it gets none. An unknown container gets none.
func (p *Pod) OwnCPUs(container string) (int, string) {
	c := p.container(container)
	if c == nil {
		return 0, "the pod has no such container"
	}
	return p.wantsCPUs(c, p.qos().Class)
}

// Pool is what a CPU manager has to give.
type Pool struct {
	// Static reports whether containers get CPUs for themselves at all.
	Static bool
	// Online are all CPUs, Shared those of all containers without their own, Reserved
	// those of them that no other container gets, and Free those that a container may still
	// get.
	Online, Shared, Reserved, Free unit.CPUSet
}

// Pool says what the CPU manager of a node has to give before the pod comes. The error
// is of a kubelet that would not start with these settings and this state.
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

// CPUShares are the CPU shares of the pod's own control group, by its requests
// (pkg/kubelet/cm/helpers_linux.go, ResourceConfigForPod).
func (p *Pod) CPUShares() uint64 {
	if p.qos().Class == BestEffort {
		return kuberelease.Shares(0)
	}
	q := p.requests()[CPU]
	return kuberelease.Shares(q.MilliValue())
}

// ContainerCPUShares are those that the container runtime is told for a container
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
