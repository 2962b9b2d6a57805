package admission

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/test/admission/upstream"
)

// dice throws everything that is random here, from one seed.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x6665747c))} }

// chance is true p times of a hundred.
func (d dice) chance(p int) bool { return d.IntN(100) < p }

// between is a number from a to b.
func (d dice) between(a, b int) int { return a + d.IntN(b-a+1) }

func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// node is a machine: sockets that hold NUMA nodes or NUMA nodes that hold sockets,
// cores with one, two or four threads, numbered as Intel, AMD or a hypervisor do, caches
// that are shared by parts of a node, by a node or by several nodes; now and then with
// CPUs offline, with nodes of memory only, or with gaps in the numbers of the nodes.
func (d dice) node() admission.Node {
	type shape struct{ sockets, nodes int }
	s := one(d, shape{1, 1}, shape{1, 2}, shape{1, 4}, shape{2, 2}, shape{2, 2}, shape{2, 4}, shape{2, 8}, shape{4, 4}, shape{4, 8}, shape{2, 1}, shape{4, 2}, shape{3, 3}, shape{1, 8})
	smt := one(d, 1, 2, 2, 2, 2, 4)
	perNode := d.between(1, 6)
	if s.sockets > s.nodes {
		perNode *= s.sockets / s.nodes
	}
	ids := make([]int, s.nodes)
	gaps := d.chance(8)
	for i := range ids {
		ids[i] = i
		if gaps {
			ids[i] = i * 3
		}
	}
	cores := s.nodes * perNode
	var n admission.Node
	style := d.IntN(3)
	caches := d.IntN(5)
	for core := range cores {
		node := core / perNode
		socket := node * s.sockets / s.nodes
		if s.sockets > s.nodes {
			socket = core * s.sockets / cores
		}
		if style == 2 { // a core of each node in turn
			node = core % s.nodes
			socket = node * s.sockets / s.nodes
			if s.sockets > s.nodes {
				perSocket := s.sockets / s.nodes
				socket = node*perSocket + core/s.nodes%perSocket
			}
		}
		uncore := -1
		switch caches {
		case 1: // half a node
			uncore = core / max(1, perNode/2)
		case 2: // a node
			uncore = node
		case 3: // two nodes
			uncore = node / 2
		case 4: // three cores
			uncore = core / 3
		}
		for thread := range smt {
			id := core*smt + thread
			if style > 0 {
				id = thread*cores + core
			}
			n.CPUs = append(n.CPUs, admission.Processor{ID: id, Core: core, Socket: socket, NUMA: ids[node], Uncore: uncore})
		}
	}
	if d.chance(7) && len(n.CPUs) > 8 { // offline
		for range d.between(1, 3) {
			i := d.IntN(len(n.CPUs))
			n.CPUs = slices.Delete(n.CPUs, i, i+1)
		}
	}
	if d.chance(6) && len(ids) < 8 { // memory only
		ids = append(ids, ids[len(ids)-1]+1)
	}
	d.Shuffle(len(n.CPUs), func(i, j int) { n.CPUs[i], n.CPUs[j] = n.CPUs[j], n.CPUs[i] })
	d.memory(&n, ids)
	return n
}

const (
	gib      = 1 << 30
	mib2     = 2 << 20
	gibPages = gib
)

func (d dice) memory(n *admission.Node, ids []int) {
	size := uint64(d.between(4, 16)) * gib
	small, large := d.chance(50), d.chance(30)
	for _, id := range ids {
		m := admission.NUMANode{ID: id, MemoryBytes: size}
		if d.chance(20) {
			m.MemoryBytes += uint64(d.between(0, 8)) * gib
		}
		pages := admission.HugePages{SizeBytes: mib2}
		if small {
			pages.Pages = uint64(d.between(0, 512))
		}
		m.HugePages = append(m.HugePages, pages)
		if large {
			m.HugePages = append(m.HugePages, admission.HugePages{SizeBytes: gibPages, Pages: uint64(d.between(0, 2))})
		}
		n.NUMA = append(n.NUMA, m)
	}
	last := ids[len(ids)-1]
	for i := range n.NUMA {
		for other := range last + 1 {
			distance := uint64(one(d, 12, 20, 20, 21, 32))
			if other == n.NUMA[i].ID {
				distance = 10
			}
			n.NUMA[i].Distances = append(n.NUMA[i].Distances, distance)
		}
	}
}

// settings are those of a kubelet; most of them start.
func (d dice) settings(n *admission.Node) admission.Settings {
	s := admission.Settings{Release: upstream.Release,
		CPUManagerPolicy:      one(d, admission.PolicyStatic, admission.PolicyStatic, admission.PolicyStatic, admission.PolicyStatic, admission.PolicyNone),
		TopologyManagerPolicy: one(d, admission.PolicyNone, admission.PolicyBestEffort, admission.PolicyRestricted, admission.PolicySingleNUMANode, admission.PolicyRestricted),
		TopologyManagerScope:  one(d, admission.ScopeContainer, admission.ScopePod),
		MemoryManagerPolicy:   one(d, admission.MemoryPolicyStatic, admission.MemoryPolicyNone),
		FeatureGates:          map[string]bool{"CPUManagerPolicyAlphaOptions": !d.chance(10)},
	}
	if s.CPUManagerPolicy == admission.PolicyStatic || d.chance(5) {
		s.CPUManagerPolicyOptions = d.cpuOptions()
	}
	if d.chance(30) {
		s.TopologyManagerPolicyOptions = map[string]string{"prefer-closest-numa-nodes": one(d, "true", "true", "false", "1")}
	}
	if d.chance(10) {
		s.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-nodes": one(d, "8", "12", "7", "many")}
	}
	if d.chance(2) {
		s.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-node": "8"}
	}
	switch {
	case d.chance(50):
		for range d.between(1, 3) {
			cpu := n.CPUs[d.IntN(len(n.CPUs))].ID
			s.ReservedSystemCPUs.AddRange(cpu, cpu)
		}
		if d.chance(2) {
			s.ReservedSystemCPUs.AddRange(4000, 4000)
		}
	case d.chance(95):
		s.KubeReserved = admission.Resources{admission.CPU: resource.MustParse(one(d, "500m", "1", "1500m", "2"))}
		if d.chance(30) {
			s.SystemReserved = admission.Resources{admission.CPU: resource.MustParse(one(d, "250m", "1"))}
		}
	}
	if s.KubeReserved == nil {
		s.KubeReserved = admission.Resources{}
	}
	s.KubeReserved[admission.Memory] = resource.MustParse("1Gi")
	s.EvictionHardMemoryBytes = 100 << 20
	d.reservedMemory(&s, n)
	return s
}

// reservedMemory spreads what is reserved over the nodes; now and then wrongly.
func (d dice) reservedMemory(s *admission.Settings, n *admission.Node) {
	if s.MemoryManagerPolicy != admission.MemoryPolicyStatic {
		return
	}
	total := int64(gib + 100<<20)
	if d.chance(4) {
		total += 1 << 20
	}
	first := total / int64(d.between(1, 3))
	s.ReservedMemory = []admission.MemoryReservation{{NUMANode: n.NUMA[0].ID, Limits: bytes(first)}}
	if rest := total - first; rest > 0 {
		last := n.NUMA[len(n.NUMA)-1].ID
		if last == n.NUMA[0].ID {
			s.ReservedMemory[0].Limits = bytes(total)
		} else {
			s.ReservedMemory = append(s.ReservedMemory, admission.MemoryReservation{NUMANode: last, Limits: bytes(rest)})
		}
	}
	if d.chance(2) {
		s.ReservedMemory[0].NUMANode = 40
	}
}

func bytes(n int64) admission.Resources {
	return admission.Resources{admission.Memory: *resource.NewQuantity(n, resource.BinarySI)}
}

// optionsSince are the options that the oldest releases do not have.
var optionsSince = map[string]admission.Release{"distribute-cpus-across-cores": 31, "strict-cpu-reservation": 32, "prefer-align-cpus-by-uncorecache": 32}

func (d dice) cpuOptions() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"full-pcpus-only", "strict-cpu-reservation", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache", "align-by-socket", "distribute-cpus-across-cores"} {
		if d.chance(22) {
			out[name] = strconv.FormatBool(!d.chance(10))
		}
	}
	// Most pairs that exclude each other are taken apart.
	if d.chance(90) {
		if out["distribute-cpus-across-cores"] != "" {
			delete(out, "full-pcpus-only")
			delete(out, "distribute-cpus-across-numa")
			delete(out, "prefer-align-cpus-by-uncorecache")
		}
		if out["distribute-cpus-across-numa"] != "" {
			delete(out, "prefer-align-cpus-by-uncorecache")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(optionsSince)) {
		if upstream.Release < optionsSince[name] && d.chance(95) {
			delete(out, name)
		}
	}
	if d.chance(1) {
		out["full-pcpu-only"] = "true"
	}
	return out
}

// many are devices of one resource on all nodes, for machines on which much depends on
// them.
func (d dice) many(n *admission.Node) []admission.DeviceResource {
	r := admission.DeviceResource{Name: "example.com/nic"}
	for i := range d.between(4, 7) {
		r.Devices = append(r.Devices, admission.Device{ID: fmt.Sprintf("m%d", i), NUMA: []int{n.NUMA[i%len(n.NUMA)].ID}})
	}
	return []admission.DeviceResource{r}
}

// devices are those of up to two resources.
func (d dice) devices(n *admission.Node) []admission.DeviceResource {
	var out []admission.DeviceResource
	if !d.chance(45) {
		return nil
	}
	for i, name := range []string{"example.com/nic", "example.com/gpu"}[:d.between(1, 2)] {
		r := admission.DeviceResource{Name: name}
		silent := d.chance(15) // no plug-in says where its devices are
		for j := range d.between(1, 6) {
			dev := admission.Device{ID: fmt.Sprintf("%c%d", 'a'+i, j), Unhealthy: d.chance(8), Used: d.chance(15)}
			if !silent && !d.chance(5) {
				dev.NUMA = []int{n.NUMA[d.IntN(len(n.NUMA))].ID}
				if d.chance(8) {
					dev.NUMA = append(dev.NUMA, n.NUMA[d.IntN(len(n.NUMA))].ID)
				}
			}
			r.Devices = append(r.Devices, dev)
		}
		out = append(out, r)
	}
	return out
}

// pod is a pod that the API server takes; most are Guaranteed.
func (d dice) pod(uid string, n *admission.Node, devices []admission.DeviceResource) *v1.Pod {
	p := &v1.Pod{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	guaranteed := d.chance(88)
	for i := range d.between(1, 3) {
		p.Spec.Containers = append(p.Spec.Containers, d.container(fmt.Sprintf("c%d", i), guaranteed, n, devices))
	}
	if d.chance(35) {
		for i := range d.between(1, 2) {
			c := d.container(fmt.Sprintf("i%d", i), guaranteed, n, devices)
			if d.chance(40) {
				always := v1.ContainerRestartPolicyAlways
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	if d.chance(4) {
		r := &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1000"), "memory": resource.MustParse("4Ti")}}
		r.Requests = r.Limits.DeepCopy()
		upstream.SetResources(p, r)
	}
	return p
}

func (d dice) container(name string, guaranteed bool, n *admission.Node, devices []admission.DeviceResource) v1.Container {
	list := v1.ResourceList{}
	cpus := d.between(1, max(1, len(n.CPUs)/one(d, 1, 2, 4, 8)))
	list["cpu"] = *resource.NewQuantity(int64(cpus), resource.DecimalSI)
	if d.chance(8) {
		list["cpu"] = resource.MustParse(one(d, "500m", "1500m", "2.5", "1e0", "2000m"))
	}
	most := int(n.NUMA[0].MemoryBytes / gib)
	list["memory"] = *resource.NewQuantity(int64(d.between(1, max(1, most*one(d, 2, 3, 8)/4)))*gib/int64(one(d, 1, 2, 4)), resource.BinarySI)
	if d.chance(2) {
		list["memory"] = resource.MustParse("1500m")
	}
	if d.chance(20) {
		list["hugepages-2Mi"] = *resource.NewQuantity(int64(d.between(0, 300))*mib2, resource.BinarySI)
	}
	if d.chance(6) {
		list["hugepages-1Gi"] = *resource.NewQuantity(int64(d.between(1, 2))*gib, resource.BinarySI)
	}
	for _, r := range devices {
		if r.Devices[0].ID[0] == 'm' {
			list[v1.ResourceName(r.Name)] = *resource.NewQuantity(int64(d.between(1, 3)), resource.DecimalSI)
			if d.chance(50) { // a share of all nodes, as the devices
				list["cpu"] = *resource.NewQuantity(int64(max(1, len(n.CPUs)*2/3)), resource.DecimalSI)
			}
		} else if d.chance(50) {
			list[v1.ResourceName(r.Name)] = *resource.NewQuantity(int64(d.between(0, max(1, len(r.Devices)/2))), resource.DecimalSI)
		}
	}
	c := v1.Container{Name: name, Image: "pause", Resources: v1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}}
	if !guaranteed {
		c.Resources.Requests["cpu"] = resource.MustParse("100m")
	}
	if d.chance(20) {
		c.Resources.Requests = nil // the API server fills them in
		if !guaranteed {
			delete(c.Resources.Limits, "memory")
		}
	}
	return c
}

// online are the CPUs of a machine.
func online(n *admission.Node) unit.CPUSet {
	var s unit.CPUSet
	for _, c := range n.CPUs {
		s.AddRange(c.ID, c.ID)
	}
	return s
}
