package admission

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/unit"
)

// machine returns sockets with the given numbers of NUMA nodes, cores and threads. The first
// threads of all cores are numbered first, as on most servers.
func machine(sockets, nodes, cores, threads int) Node {
	n := Node{Name: "n1"}
	total := sockets * nodes * cores
	for c := range total {
		node := c / cores
		for t := range threads {
			n.CPUs = append(n.CPUs, Processor{ID: t*total + c, Core: c, Socket: node / nodes, NUMA: node, Uncore: -1})
		}
	}
	for id := range sockets * nodes {
		m := NUMANode{ID: id, MemoryBytes: 16 << 30, HugePages: []HugePages{{SizeBytes: 2 << 20}}}
		for other := range sockets * nodes {
			distance := uint64(20)
			if other == id {
				distance = 10
			}
			m.Distances = append(m.Distances, distance)
		}
		n.NUMA = append(n.NUMA, m)
	}
	return n
}

// with parses resources: "cpu=2 memory=1Gi".
func with(words string) Resources {
	r := Resources{}
	for _, w := range strings.Fields(words) {
		name, q, _ := strings.Cut(w, "=")
		r[name] = resource.MustParse(q)
	}
	return r
}

// guaranteed returns a container whose requests equal its limits.
func guaranteed(name, words string) Container {
	return Container{Name: name, Requests: with(words), Limits: with(words)}
}

func pod(containers ...Container) Pod {
	return Pod{Kind: "Pod", Namespace: "default", Name: "p", Containers: containers}
}

// static returns settings with the static CPU manager, a reserved CPU and a policy of the topology
// manager.
func static(policy string, options ...string) Settings {
	s := Settings{CPUManagerPolicy: PolicyStatic, TopologyManagerPolicy: policy, ReservedSystemCPUs: unit.CPUs(0), FeatureGates: map[string]bool{"CPUManagerPolicyAlphaOptions": true}}
	for _, o := range options {
		if s.CPUManagerPolicyOptions == nil {
			s.CPUManagerPolicyOptions = map[string]string{}
		}
		s.CPUManagerPolicyOptions[o] = "true"
	}
	return s
}

// withMemory adds the static memory manager, with a GiB reserved on node 0.
func withMemory(s Settings) Settings {
	s.MemoryManagerPolicy = MemoryPolicyStatic
	s.KubeReserved = with("memory=1Gi")
	s.ReservedMemory = []MemoryReservation{{0, with("memory=1Gi")}}
	return s
}

// held returns a state in which pods have CPUs, and the rest is shared.
func held(n Node, cpus ...string) State {
	st := &CPUState{Policy: PolicyStatic, Entries: map[string]map[string]unit.CPUSet{}}
	st.Default = newTopology(&n).all
	for i, list := range cpus {
		set := cpuList(list)
		st.Entries[fmt.Sprintf("uid-%d", i)] = map[string]unit.CPUSet{"c": set}
		st.Default = st.Default.Minus(set)
	}
	return State{CPU: st}
}

func cpuList(list string) unit.CPUSet {
	s, err := unit.ParseCPUList(list)
	if err != nil {
		panic(err)
	}
	return s
}

func mustPredict(t *testing.T, in Input) *Prediction {
	t.Helper()
	p, err := Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outcome formats the verdict: "admitted c=1-2", "refused TopologyAffinityError".
func outcome(p *Prediction) string {
	if p.Verdict.Outcome != Admitted {
		return p.Verdict.words()
	}
	parts := []string{Admitted}
	for _, c := range p.Outcomes[0].Containers {
		cpus := c.CPUs.String()
		if cpus == "" {
			cpus = "shared"
		}
		parts = append(parts, c.Name+"="+cpus)
	}
	return strings.Join(parts, " ")
}
