package placement

import (
	"maps"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

// fourRooms are nodes of 1000 MiB with two CPUs each.
func fourRooms(freeMB, freeCPU [4]int) *Workload {
	w := &Workload{View: &View{}}
	for i, cpus := range []string{"0-1", "2-3", "4-5", "6-7"} {
		w.View.Nodes = append(w.View.Nodes, Node{Number: i, CPUs: fact.Known(cpus, "test"), MemoryBytes: fact.Known(int64(1000<<20), "test")})
		distances := []int{20, 20, 20, 20}
		distances[i] = 10
		w.Rooms = append(w.Rooms, Room{Node: i, TotalMB: 1000, FreeMB: freeMB[i], TotalCPU: 200, FreeCPU: freeCPU[i], Distances: distances})
	}
	return w
}

// running returns a process with so many MiB on each node.
func running(cpus string, cpu, threads int, mb ...int64) *WorkloadProcess {
	p := &WorkloadProcess{Identity: Identity{CPUs: cpus, MemoryNodes: "0-3"}, CPU: cpu, Threads: threads, Candidate: true, Memory: &Process{Policies: map[string]int64{}}}
	for i, n := range mb {
		p.Memory.Nodes = append(p.Memory.Nodes, NodeShare{Node: i, Bytes: n << 20})
		p.Memory.Bytes += n << 20
	}
	p.Memory.Policies["default"] = p.Memory.Bytes
	p.ResidentBytes, p.VirtualBytes = p.Memory.Bytes, p.Memory.Bytes
	return p
}

func TestTarget(t *testing.T) {
	idle, full := [4]int{200, 200, 200, 200}, [4]int{}
	for _, c := range []struct {
		name    string
		free    [4]int
		freeCPU [4]int
		p       *WorkloadProcess
		want    string
	}{
		{"where most of its memory is", [4]int{500, 500, 500, 500}, idle, running("0-7", 100, 1, 50, 50, 250, 50), "2"},
		{"where there is room", [4]int{100, 900, 100, 100}, idle, running("0-7", 100, 1, 100, 100, 100, 100), "1"},
		{"its own memory is room", [4]int{0, 0, 0, 200}, full, running("0-7", 100, 1, 0, 0, 0, 600), "3"},
		{"two nodes for the memory", [4]int{700, 700, 0, 0}, idle, running("0-7", 100, 4, 300, 300, 100, 100), "0-1"},
		{"two nodes for the CPUs", [4]int{900, 900, 100, 100}, idle, running("0-7", 340, 4, 100, 100, 0, 0), "0-1"},
		{"no more CPUs than threads", [4]int{900, 900, 100, 100}, idle, running("0-7", 340, 1, 100, 0, 0, 0), "0"},
		{"CPUs are missing on all", [4]int{900, 100, 100, 100}, full, running("0-7", 150, 2, 100, 100, 0, 0), "0"},
		{"bound and at home", [4]int{300, 500, 300, 300}, idle, running("0-1", 100, 1, 400, 0, 0, 0), "0"},
	} {
		if got := fourRooms(c.free, c.freeCPU).Target(c.p, Utilization).String(); got != c.want {
			t.Errorf("%s: nodes %q, want %q", c.name, got, c.want)
		}
	}
	w, p := fourRooms(idle, idle), running("0-7", 100, 1, 0, 0, 0, 900)
	p.VirtualBytes = 1900 << 20
	if got := w.Target(p, 100); got.Len() < 2 {
		t.Errorf("nodes %s for a process that may grow beyond a node", got)
	}
	if p.Memory = nil; !w.Target(p, Utilization).IsEmpty() {
		t.Error("a target without known memory")
	}
	if got := running("0-7", 1, 1, 10, 20, 30, 40).Elsewhere(unit.CPUs(1, 3)); got != 40<<20 {
		t.Errorf("%d", got)
	}
}

// TestPlace: what is on the nodes stays there, and the rest goes to them in proportion to what they
// have free.
func TestPlace(t *testing.T) {
	w, p := fourRooms([4]int{300, 100, 300, 300}, [4]int{}), running("0-7", 100, 1, 100, 200, 60, 40)
	to := w.Place(p, unit.CPUs(0, 1))
	if want := map[int]int64{0: 175 << 20, 1: 225 << 20}; !maps.Equal(to, want) {
		t.Errorf("%v, want %v", to, want)
	}
	if r := w.Rooms; r[0].FreeMB != 225 || r[1].FreeMB != 75 || r[2].FreeMB != 360 || r[0].FreeCPU != -50 || r[1].FreeCPU != -50 {
		t.Errorf("%+v", r)
	}
}

// TestLift: without the processes, the nodes have what they and the other processes leave, whether or not
// the threads last ran where they ran before. Keep takes the same CPU time again.
func TestLift(t *testing.T) {
	on := func(p *WorkloadProcess, node int) *WorkloadProcess { p.Memory.Nodes[node].CPUPercent = 100; return p }
	one := func(cpus string, cpu int) *WorkloadProcess { return running(cpus, cpu, 1, 60, 60, 60, 60) }
	for _, c := range []struct {
		name      string
		free      [4]int
		processes []*WorkloadProcess
		want      [4]int
	}{
		{"none", [4]int{10, 20, 30, 200}, nil, [4]int{10, 20, 30, 200}},
		{"where it runs", [4]int{100, 200, 200, 200}, []*WorkloadProcess{on(one("0-7", 100), 0)}, [4]int{200, 200, 200, 200}},
		{"where it ran, now elsewhere", [4]int{100, 200, 200, 200}, []*WorkloadProcess{on(one("0-7", 100), 3)}, [4]int{200, 200, 200, 200}},
		{"besides others", [4]int{40, 140, 200, 200}, []*WorkloadProcess{on(one("0-7", 100), 0)}, [4]int{140, 140, 200, 200}},
		{"elsewhere, and others", [4]int{40, 140, 200, 200}, []*WorkloadProcess{on(one("0-7", 100), 3)}, [4]int{113, 167, 200, 200}},
		{"unknown, bound", [4]int{100, 100, 140, 200}, []*WorkloadProcess{one("0-3", 200)}, [4]int{200, 200, 140, 200}},
		{"more than the CPUs did", [4]int{190, 200, 200, 200}, []*WorkloadProcess{on(one("0-7", 100), 0)}, [4]int{200, 200, 200, 200}},
	} {
		w := fourRooms([4]int{}, c.free)
		w.Lift(c.processes)
		for i, r := range w.Rooms {
			if r.FreeCPU != c.want[i] {
				t.Errorf("%s: node %d has %d free, want %d", c.name, i, r.FreeCPU, c.want[i])
			}
		}
	}
	w := fourRooms([4]int{}, [4]int{200, 200, 200, 200})
	if w.Keep(on(one("0-7", 70), 2)); w.Rooms[2].FreeCPU != 130 || w.Rooms[0].FreeCPU != 200 {
		t.Errorf("%+v", w.Rooms)
	}
}
