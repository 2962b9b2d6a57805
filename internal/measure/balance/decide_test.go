package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// fourNodes are nodes of 1000 MiB with one CPU each, all CPUs busy.
func fourNodes(freeMB int, processes ...placement.WorkloadProcess) *placement.Workload {
	w := &placement.Workload{View: &placement.View{}, Processes: processes}
	for i := range 4 {
		w.View.Nodes = append(w.View.Nodes, placement.Node{
			Number: i, CPUs: fact.Known(fmt.Sprint(i), "test"), MemoryBytes: fact.Known(int64(1000<<20), "test"), FreeBytes: fact.Known(int64(freeMB/2<<20), "test"),
		})
		distances := []int{20, 20, 20, 20}
		distances[i] = 10
		w.Rooms = append(w.Rooms, placement.Room{Node: i, TotalMB: 1000, FreeMB: freeMB, TotalCPU: 100, Distances: distances})
	}
	return w
}

// running returns a process that uses one CPU, on a node, and has so many MiB on each node.
func running(pid, on int, mb ...int64) placement.WorkloadProcess {
	p := placement.WorkloadProcess{
		Identity: placement.Identity{PID: pid, Name: fmt.Sprintf("p%d", pid), CPUs: "0-3", MemoryNodes: "0-3"},
		ID:       host.TaskID{TID: pid, Start: 7}, CPU: 100, Threads: 1, Candidate: true, Memory: &placement.Process{},
	}
	for i, n := range mb {
		s := placement.NodeShare{Node: i, Bytes: n << 20}
		if i == on {
			s.CPUPercent = 100
		}
		p.Memory.Nodes = append(p.Memory.Nodes, s)
		p.Memory.Bytes += n << 20
	}
	p.Memory.LocalPercent = 100 * float64(mb[on]<<20) / float64(p.Memory.Bytes)
	p.ResidentBytes, p.VirtualBytes = p.Memory.Bytes, p.Memory.Bytes
	return p
}

// decide decides without a journal. ours says that an earlier pass has set all CPUs.
func decide(w *placement.Workload, o Options, ours bool, threads func(host.TaskID) string) []Decision {
	d := decider{o, func(host.TaskID, unit.CPUSet) bool { return ours }, threads}
	return d.decide(w)
}

func noThreads(host.TaskID) string { return "" }

// TestDecideSpreads: four interleaved processes on busy CPUs go to a node each.
func TestDecideSpreads(t *testing.T) {
	var all []placement.WorkloadProcess
	for i := range 4 {
		all = append(all, running(10+i, (i+1)%4, 88, 88, 88, 88))
	}
	nodes := map[string]int{}
	for _, d := range decide(fourNodes(500, all...), Options{Utilization: 85, Local: 90}, false, noThreads) {
		if !d.Move || d.CPUs != d.Nodes || d.MoveBytes != 3*88<<20 || d.spread.Total() != 4*88<<20 {
			t.Errorf("%+v", d)
		}
		nodes[d.Nodes]++
	}
	if got := slices.Sorted(maps.Keys(nodes)); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("nodes %v", nodes)
	}
}

func TestDecideLeaves(t *testing.T) {
	plain := Options{Utilization: 85, Local: 90}
	change := func(f func(p *placement.WorkloadProcess)) placement.WorkloadProcess {
		p := running(10, 0, 88, 88, 88, 88)
		f(&p)
		return p
	}
	owned := func(kind string) placement.WorkloadProcess {
		return change(func(p *placement.WorkloadProcess) {
			p.Owner, p.CPUs = placement.Owner{Kind: kind, Why: "it may use CPUs 0"}, "0"
		})
	}
	for _, c := range []struct {
		name string
		o    Options
		p    placement.WorkloadProcess
		ours bool
		want string // "" if it moves, "not listed", or a part of the reason
	}{
		{"interleaved", plain, running(10, 0, 88, 88, 88, 88), false, ""},
		{"local", plain, running(10, 0, 330, 8, 8, 8), false, "93.2 % local"},
		{"local, but less than wanted", Options{Utilization: 85, Local: 95}, running(10, 0, 330, 8, 8, 8), false, ""},
		{"small", plain, change(func(p *placement.WorkloadProcess) { p.Candidate = false }), false, "not listed"},
		{"small and named", Options{Processes: []string{"p10"}, Utilization: 85, Local: 90}, change(func(p *placement.WorkloadProcess) { p.Candidate, p.CPU = false, 20 }), false, "uses 352 MiB and 0.2 CPUs; only processes above 300 MiB and 0.5 CPUs are moved"},
		{"not named", Options{Processes: []string{"11"}, Utilization: 85, Local: 90}, running(10, 0, 88, 88, 88, 88), false, "not listed"},
		{"excluded", Options{Exclude: []string{"10"}, Utilization: 85, Local: 90}, running(10, 0, 88, 88, 88, 88), false, "excluded"},
		{"unread", plain, change(func(p *placement.WorkloadProcess) { p.Memory, p.Unread = nil, "time limit" }), false, "memory not read: time limit"},
		{"pod", plain, owned(placement.OwnedByKubelet), false, "kubelet: it may use CPUs 0"},
		{"pod that fettle has placed", plain, owned(placement.OwnedByKubelet), true, "kubelet"},
		{"bound", plain, owned(placement.OwnedByAdmin), false, "administrator"},
		{"bound by fettle", plain, owned(placement.OwnedByAdmin), true, ""},
		{"on two nodes it gains nothing", plain, running(10, 0, 700, 20, 400, 20), false, "61.4 % of its memory is local; on nodes 0,2 that would not increase"},
		{"too large", plain, running(10, 0, 900, 900, 900, 900), false, "all nodes"},
	} {
		got := decide(fourNodes(500, c.p), c.o, c.ours, noThreads)
		switch {
		case c.want == "not listed":
			if len(got) != 0 {
				t.Errorf("%s: %+v", c.name, got)
			}
		case len(got) != 1 || got[0].Move != (c.want == "") || !strings.Contains(got[0].Why, c.want):
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}

// TestPlacedBy: CPUs that a profile has set are not those of an earlier pass, which may be set again;
// nor are those that another program has set since.
func TestPlacedBy(t *testing.T) {
	id := host.TaskID{TID: 10, Start: 7}
	d := Decision{PID: 10, Name: "p10", Nodes: "1", CPUs: "1", id: id}
	ours, after := d.changes([]host.TaskID{id}, false)[0].Reason, new(setting.Text("1"))
	for _, c := range []struct {
		reason setting.Reason
		after  *setting.Value
		cpus   string
		want   bool
	}{
		{ours, after, "1", true},
		{ours, after, "1-2", false},
		{ours, nil, "1-2", true}, // interrupted
		{setting.Reason{Text: "isolated_cores"}, after, "1", false},
	} {
		e := &journal.Entry{Before: journal.Before{Setting: cpu.TaskAffinity(id), Reason: c.reason}, After: c.after, State: journal.Live}
		cpus, _ := unit.ParseCPUList(c.cpus)
		if got := placedBy(&journal.State{Txs: []*journal.Tx{{Entries: []*journal.Entry{e}}}})(id, cpus); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestDecideRoom: a process that stays because of its threads takes no room from the next one.
func TestDecideRoom(t *testing.T) {
	for why, want := range map[string]int{"": 764, "thread 11 may use CPUs 1": 500} {
		w := fourNodes(500, running(10, 3, 264, 0, 0, 88))
		got := decide(w, Options{Utilization: 85, Local: 90}, false, func(host.TaskID) string { return why })
		if len(got) != 1 || got[0].Why != why || got[0].Move != (why == "") || w.Rooms[0].FreeMB != want {
			t.Errorf("%q: %+v, node 0 has %d MiB free, want %d", why, got, w.Rooms[0].FreeMB, want)
		}
	}
}

func TestOnlyFree(t *testing.T) {
	w := fourNodes(500, running(10, 0, 88, 88, 88, 88))
	decide(w, Options{OnlyFree: true, Exclude: []string{"10"}, Utilization: 85, Local: 90}, false, noThreads)
	if w.Rooms[3].FreeMB != 250 {
		t.Errorf("%+v", w.Rooms)
	}
}

func TestBrake(t *testing.T) {
	meminfo := func(free, inactive int) string {
		return fmt.Sprintf("Node 1 MemTotal: 1000000 kB\nNode 1 MemFree: %d kB\nNode 1 Inactive(file): %d kB\n", free, inactive)
	}
	for _, c := range []struct{ psi, meminfo, want string }{
		{"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", meminfo(50<<10, 15<<10), ""},
		{"some avg10=10.50 avg60=0.00 avg300=0.00 total=1\n", meminfo(50<<10, 15<<10), "memory pressure: 10.5 %"},
		{"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", meminfo(50<<10, 13<<10), "node 1 has 63 MiB free"},
		{"", meminfo(50<<10, 15<<10), ""}, // a kernel without pressure
	} {
		files := map[string]string{"/sys/devices/system/node/node1/meminfo": c.meminfo}
		if c.psi != "" {
			files["/proc/pressure/memory"] = c.psi
		}
		if notes := notesOf(machine.Mounted(t, files)); (len(notes) > 0) != (c.psi == "") {
			t.Errorf("%q: notes %q", c.psi, notes)
		}
		if got := brake(machine.Mounted(t, files), unit.CPUs(1)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.psi, got, c.want)
		}
	}
}
