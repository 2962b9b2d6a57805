package admission

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// cpuManager is the CPU manager of a started kubelet.
type cpuManager struct {
	static  bool
	t       *topology
	options cpuOptions
	// reserved are the reserved CPUs, which no container gets. reservedCores adds the other CPUs of
	// their cores, which no container gets with full-pcpus-only.
	reserved, reservedCores unit.CPUSet
	// shared is the present pool of all containers without exclusive CPUs.
	shared unit.CPUSet
	// restart is why the kubelet would not start again, or nil.
	restart error
}

// startCPUManager starts the CPU manager like the kubelet; the error says why the kubelet does not
// start.
func startCPUManager(in *Input, s Settings, t *topology) (*cpuManager, error) {
	if outside := s.ReservedSystemCPUs.Minus(t.all); !outside.IsEmpty() {
		return nil, fmt.Errorf("reservedSystemCPUs: not online: %s (online: %s)", outside.Words(), t.all)
	}
	switch s.CPUManagerPolicy {
	case PolicyNone:
		if err := s.noneTakes(); err != nil {
			return nil, err
		}
		if st := in.State.CPU; st != nil && st.Policy != PolicyNone {
			return nil, otherPolicy("cpuManagerPolicy", PolicyNone, st.Policy, "cpu_manager_state")
		}
		return &cpuManager{t: t}, nil
	case PolicyStatic:
	default:
		return nil, fmt.Errorf("cpuManagerPolicy %q: want none or static", s.CPUManagerPolicy)
	}
	if err := s.staticNeeds(); err != nil {
		return nil, err
	}
	options, err := s.cpuOptions()
	if err != nil {
		return nil, err
	}
	if options.bySocket && len(t.sockets) > len(t.nodes) {
		return nil, text.Errorf("cpuManagerPolicyOptions: align-by-socket needs at least as many NUMA nodes as sockets; this machine has %d and %d", len(t.nodes), len(t.sockets))
	}
	reserved := s.reserved(CPU)
	m := &cpuManager{static: true, t: t, options: options}
	number := int(math.Ceil(float64(reserved.MilliValue()) / 1000))
	if m.reserved = s.ReservedSystemCPUs; m.reserved.IsEmpty() {
		if m.reserved, err = t.take(t.all, number, options); err != nil && errors.Is(err, errLoop) {
			return nil, err
		}
	}
	if m.reserved.Len() != number {
		return nil, text.Errorf("%d CPUs reserved for the system, but the machine has only %d", number, t.all.Len())
	}
	m.reservedCores = t.wholeCores(m.reserved)
	if err := m.load(in.State.CPU); err != nil {
		if !in.State.Running || in.State.CPU == nil {
			return nil, err
		}
		m.shared, m.restart = in.State.CPU.Default, err
	}
	return m, nil
}

func otherPolicy(setting, wanted, found, file string) error {
	return fmt.Errorf("%s is %s, but %s was written with %s; drain the node and remove the file, or the kubelet does not start", setting, wanted, file, found)
}

// load loads the state file; the error says how it contradicts the machine or the settings.
func (m *cpuManager) load(st *CPUState) error {
	all := m.t.all
	if m.options.strictlyReserve {
		all = all.Minus(m.reserved)
	}
	if st != nil && st.Policy != PolicyStatic {
		return otherPolicy("cpuManagerPolicy", PolicyStatic, st.Policy, "cpu_manager_state")
	}
	const remedy = ": drain the node and remove cpu_manager_state"
	if st == nil || st.Default.IsEmpty() {
		if st != nil && len(st.Entries) > 0 {
			return errors.New("cpu_manager_state has exclusive CPUs and no shared pool" + remedy)
		}
		m.shared = all
		return nil
	}
	if m.options.strictlyReserve {
		if both := m.reserved.Intersect(st.Default); !both.IsEmpty() {
			return fmt.Errorf("cpu_manager_state has the strictly reserved %s in the shared pool%s", both.Words(), remedy)
		}
	} else if lost := m.reserved.Minus(st.Default); !lost.IsEmpty() {
		return fmt.Errorf("the shared pool of cpu_manager_state lacks the reserved %s%s", lost.Words(), remedy)
	}
	known := st.Default
	for _, pod := range sorted(st.Entries) {
		for _, container := range sorted(st.Entries[pod]) {
			cpus := st.Entries[pod][container]
			if both := st.Default.Intersect(cpus); !both.IsEmpty() {
				return fmt.Errorf("cpu_manager_state has %s both in the shared pool and for container %s of pod %s%s", both.Words(), container, pod, remedy)
			}
			known = known.Union(cpus)
		}
	}
	if !known.Equal(all) {
		return fmt.Errorf("cpu_manager_state is from a machine with %s; this machine has %s%s", known.Words(), all, remedy)
	}
	m.shared = st.Default
	return nil
}

// release returns the CPUs of removed containers to the shared pool, except those that another
// container of the same pod also has.
func (m *cpuManager) release(st *CPUState, gone func(pod, container string) bool) {
	if !m.static || st == nil {
		return
	}
	for _, pod := range sorted(st.Entries) {
		for _, container := range sorted(st.Entries[pod]) {
			if !gone(pod, container) {
				continue
			}
			free := st.Entries[pod][container]
			for other, cpus := range st.Entries[pod] {
				if other != container && !gone(pod, other) {
					free = free.Minus(cpus)
				}
			}
			m.shared = m.shared.Union(free)
		}
	}
}

// available returns the CPUs that containers can get.
func (m *cpuManager) available(shared unit.CPUSet) unit.CPUSet { return shared.Minus(m.reserved) }

// hints returns the sets of NUMA nodes with enough free CPUs. The pod's init containers' CPUs must
// be reused, so each set contains all of them.
func (m *cpuManager) hints(shared, reuse unit.CPUSet, number int) Answer {
	answer := Answer{Provider: cpuProvider, Resource: CPU}
	ids := m.t.nodeIDs()
	total, free := map[int]int{}, map[int]int{}
	available := m.available(shared).Minus(reuse)
	var words []string
	for _, n := range ids {
		total[n] = m.t.nodes[n].Len()
		free[n] = available.Intersect(m.t.nodes[n]).Len() + reuse.Intersect(m.t.nodes[n]).Len()
		words = append(words, fmt.Sprintf("%d on node %d", free[n], n))
	}
	must, least := m.t.nodesOf(reuse), len(ids)
	subsets(ids, func(set Mask) {
		all, here := 0, 0
		for _, n := range set.Nodes() {
			all += total[n]
			here += free[n]
		}
		if all >= number {
			least = min(least, set.Count())
		}
		if set&must == must && here >= number {
			answer.Hints = append(answer.Hints, Hint{Nodes: set})
		}
	})
	for i, h := range answer.Hints {
		answer.Hints[i].Preferred = h.Nodes.Count() == least || m.options.bySocket && m.socketAligned(h.Nodes, least)
	}
	answer.None = len(answer.Hints) == 0
	empty := "on an empty machine it would fit on " + text.Count(least, "NUMA node")
	if whole := m.t.all.Len(); number > whole {
		empty = "the machine has only " + text.Count(whole, "CPU")
	}
	answer.Why = fmt.Sprintf("%s requested; free: %s; %s", text.Count(number, "CPU"), strings.Join(words, ", "), empty)
	if !reuse.IsEmpty() {
		answer.Why += fmt.Sprintf("; reused from an init container: %s", reuse.Words())
	}
	return answer
}

// socketAligned reports whether a set of NUMA nodes spans no more sockets than the smallest
// possible set.
func (m *cpuManager) socketAligned(set Mask, least int) bool {
	perSocket := len(m.t.nodes) / len(m.t.sockets)
	if perSocket == 0 {
		return false
	}
	return len(m.t.socketsOf(set)) == (least+perSocket-1)/perSocket
}

// allocate takes CPUs from the NUMA nodes that the topology manager chose, then from others;
// without a hint from all.
func (m *cpuManager) allocate(shared, reuse unit.CPUSet, number int, hint Alignment) (unit.CPUSet, error) {
	if m.options.fullCores {
		if perCore := m.t.perCore(); number%perCore != 0 {
			return unit.CPUSet{}, &refusal{ReasonSMT, text.Sprintf("the request is %s; with full-pcpus-only it must be a multiple of %d, the threads per core", text.Count(number, "CPU"), perCore)}
		}
		if whole := shared.Minus(m.reservedCores).Len(); number > whole {
			return unit.CPUSet{}, &refusal{ReasonSMT, text.Sprintf("the request is %s, but only %d are on cores without a reserved CPU, as full-pcpus-only requires", text.Count(number, "CPU"), whole)}
		}
	}
	free := m.available(shared).Union(reuse)
	var got unit.CPUSet
	if !hint.Any {
		aligned := free.Intersect(m.t.within(hint.Nodes))
		if m.options.bySocket {
			aligned = unit.CPUSet{}
			for _, s := range m.t.socketsOf(hint.Nodes) {
				aligned = aligned.Union(free.Intersect(m.t.sockets[s]))
			}
		}
		var err error
		if got, err = m.t.take(aligned, min(number, aligned.Len()), m.options); err != nil {
			return unit.CPUSet{}, m.failed(err, number, aligned)
		}
	}
	rest, err := m.t.take(free.Minus(got), number-got.Len(), m.options)
	if err != nil {
		return unit.CPUSet{}, m.failed(err, number, free)
	}
	return got.Union(rest), nil
}

func (m *cpuManager) failed(err error, number int, free unit.CPUSet) error {
	if errors.Is(err, errLoop) {
		return err
	}
	return &refusal{ReasonUnexpected, text.Sprintf("the request is %s, but %d are free (%s): %v", text.Count(number, "CPU"), free.Len(), free, err)}
}
