package placement

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// planned returns a plan as words: PID and nodes of the moves, PID and reason of the others.
func planned(p *Plan) (words []string) {
	for _, m := range p.Moves {
		words = append(words, fmt.Sprint(m.PID, " to ", m.Nodes))
	}
	for _, s := range p.Stay {
		words = append(words, fmt.Sprint(s.PID, " ", s.Reason))
	}
	return words
}

func TestPlan(t *testing.T) {
	idle := [4]int{200, 200, 200, 200}
	// with returns a process with its CPU time on nodes 0 to 3, and changes.
	with := func(p *WorkloadProcess, cpu [4]float64, change func(*WorkloadProcess)) *WorkloadProcess {
		for i := range p.Memory.Nodes {
			s := &p.Memory.Nodes[i]
			s.CPUPercent = cpu[i]
			p.Memory.LocalPercent += cpu[i] * float64(s.Bytes) / float64(p.Memory.Bytes)
		}
		if change != nil {
			change(p)
		}
		return p
	}
	spread := func(change func(*WorkloadProcess)) *WorkloadProcess {
		return with(running("0-7", 90, 1, 88, 87, 88, 87), [4]float64{0, 0, 0, 100}, change)
	}
	on := func(unit string) func(*WorkloadProcess) {
		return func(p *WorkloadProcess) { p.Unit, p.Cgroup = unit, "/system.slice/"+unit }
	}
	aligned := [4]float64{100, 0, 0, 0}
	for _, c := range []struct {
		name string
		free [4]int
		all  []*WorkloadProcess
		want string
	}{
		{"four get a node each", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(nil), spread(nil), spread(nil), spread(nil)}, "1 to 0; 2 to 2; 3 to 1; 4 to 3"},
		{"local already", [4]int{500, 500, 500, 500}, []*WorkloadProcess{with(running("0-7", 100, 1, 400, 0, 0, 0), aligned, nil)}, "1 " + stayAligned},
		{"only the CPUs move", [4]int{500, 900, 500, 500}, []*WorkloadProcess{with(running("0-7", 100, 1, 0, 400, 0, 0), aligned, nil)}, "1 to 1"},
		{"two nodes are needed", [4]int{600, 600, 0, 0}, []*WorkloadProcess{with(running("0-7", 300, 4, 400, 390, 5, 5), [4]float64{50, 50, 0, 0}, nil)}, "1 " + stayBest},
		{"larger than a node", [4]int{900, 900, 900, 900}, []*WorkloadProcess{with(running("0-7", 100, 4, 300, 300, 300, 300), aligned, nil)}, "1 " + stayLarge},
		{"small or idle", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.Candidate = false })}, "1 " + staySmall},
		{"not read", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.Memory, p.Unread = nil, "permission denied" })}, "1 " + stayUnread},
		{"interleaved by its own policy", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.Memory.Policies = map[string]int64{"interleave:0-3": p.Memory.Bytes} })}, "1 " + stayPolicy},
		{"a database", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.Name = "hdbindexserver" })}, "1 " + staySelf},
		{"bound by its administrator", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.CPUs = "6-7" })}, "1 " + stayPinned},
		{"bound by the kubelet", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.CPUs, p.Cgroup = "6-7", pod })}, "1 " + stayManaged},
		{"a pod that may run everywhere", [4]int{500, 900, 500, 500}, []*WorkloadProcess{spread(func(p *WorkloadProcess) { p.Cgroup = pod })}, "1 to 1"},
		{"full nodes", [4]int{0, 0, 0, 0}, []*WorkloadProcess{spread(nil)}, "1 " + stayNoRoom},
		{"one unit, one place", [4]int{500, 900, 500, 500}, []*WorkloadProcess{spread(on("db.service")), spread(on("db.service"))}, "1 to 1; 2 to 1"},
		{"one of the unit stays", [4]int{500, 900, 500, 500}, []*WorkloadProcess{spread(on("db.service")), with(running("0-7", 100, 1, 400, 0, 0, 0), aligned, on("db.service"))}, "2 " + stayAligned + "; 1 " + stayUnit},
		{"the unit has more than its process", [4]int{500, 500, 500, 500}, []*WorkloadProcess{spread(on("large.service"))}, "1 " + stayNoRoom},
	} {
		w := fourRooms(c.free, idle)
		for i, p := range c.all {
			p.PID = i + 1
			if p.Cgroup == "" {
				p.Cgroup = "/user.slice/user-0.slice/session-1.scope"
			}
			p.Owner = w.owner(p)
			w.Processes = append(w.Processes, *p)
		}
		got := w.plan(func(cgroup string) int64 {
			if strings.HasSuffix(cgroup, "/large.service") {
				return 900 << 20
			}
			return 0
		})
		if words := strings.Join(planned(got), "; "); words != c.want {
			t.Errorf("%s: %s; want %s", c.name, words, c.want)
		}
		if h := got.summarize(); strings.HasPrefix(h.Lines[0], "leave it: ") != (len(got.Moves) == 0) {
			t.Errorf("%s: %q", c.name, h.Lines)
		}
	}
}

// TestPlanBusy: on a machine whose CPUs are all busy, one that a planned move has taken is not
// offered to the next process, however much memory its node has. That holds for processes that run on
// all nodes in turn, and for those that each run on one.
func TestPlanBusy(t *testing.T) {
	for _, cpuPercent := range [][4][4]float64{
		{{25, 25, 25, 25}, {25, 25, 25, 25}, {25, 25, 25, 25}, {25, 25, 25, 25}},
		{{100, 0, 0, 0}, {0, 100, 0, 0}, {0, 0, 100, 0}, {0, 0, 0, 100}},
		{{0, 0, 0, 100}, {0, 0, 100, 0}, {0, 100, 0, 0}, {100, 0, 0, 0}},
	} {
		w := fourRooms([4]int{400, 500, 500, 1000}, [4]int{})
		for i := range w.Rooms {
			w.Rooms[i].TotalCPU = 100
		}
		for i := range 4 {
			p := running("0-7", 95-i, 1, 60, 60, 60, 60)
			p.PID, p.Memory.LocalPercent = i+1, 25
			for n := range p.Memory.Nodes {
				p.Memory.Nodes[n].CPUPercent = cpuPercent[i][n]
			}
			w.Processes = append(w.Processes, *p)
		}
		wantOneEach(t, w, cpuPercent)
	}
}

// TestPlanWaiting: processes that share a CPU, each waiting half of the time, go to a node each where
// others are idle; also if the kernel has moved one of them since its CPU time was measured.
func TestPlanWaiting(t *testing.T) {
	for _, last := range [][4]int{{1, 3, 1, 3}, {1, 3, 0, 3}, {0, 3, 1, 3}} {
		w := fourRooms([4]int{400, 500, 500, 500}, [4]int{100, 0, 100, 0})
		for i := range w.Rooms {
			w.Rooms[i].TotalCPU = 100
		}
		for i := range 4 {
			p := running("0-7", 52, 1, 60, 60, 60, 60)
			p.PID, p.Memory.LocalPercent, p.Waiting = i+1, 25, 48
			p.Memory.Nodes[last[i]].CPUPercent = 100
			w.Processes = append(w.Processes, *p)
		}
		wantOneEach(t, w, last)
	}
}

// wantOneEach checks that a plan moves one process to each of four nodes.
func wantOneEach(t *testing.T, w *Workload, what any) {
	t.Helper()
	used := map[string]int{}
	for _, m := range w.plan(func(string) int64 { return 0 }).Moves {
		used[m.Nodes]++
	}
	if want := map[string]int{"0": 1, "1": 1, "2": 1, "3": 1}; !maps.Equal(used, want) {
		t.Errorf("%v: processes by nodes: %v, want %v", what, used, want)
	}
}

func TestMove(t *testing.T) {
	w := fourRooms([4]int{500, 500, 500, 500}, [4]int{200, 200, 200, 200})
	w.isolated = unit.CPUs(3)
	p := running("0-7", 150, 2, 100, 200, 0, 50)
	m := w.newMove(p, unit.CPUs(1))
	if m.From != "0-1,3" || m.Nodes != "1" || m.TargetCPUs != "2" || m.MoveBytes != 150<<20 || m.CPUsUsed != 1.5 {
		t.Errorf("%+v", m)
	}
	p.Memory.Nodes[0].CPUPercent = 100
	w.Place(p, unit.CPUs(1))
	want := map[int][2]int{0: {600, 200}, 1: {350, 50}, 2: {500, 200}, 3: {550, 200}}
	for _, r := range w.Rooms {
		if got := [2]int{r.FreeMB, r.FreeCPU}; got != want[r.Node] {
			t.Errorf("node %d: %v, want %v", r.Node, got, want[r.Node])
		}
	}
}

// The text to copy depends on what a process belongs to, and on what the machine honors.
func TestTexts(t *testing.T) {
	all := directives{systemd: 252, reserved: "612Mi", first: 0}
	for _, c := range []struct {
		name   string
		d      directives
		change Identity
		kind   string
		want   string // of File, Content, Then and Omitted
	}{
		{"a service", all, Identity{Unit: "db.service", Cgroup: "/system.slice/db.service"}, "systemd",
			"/etc/systemd/system/db.service.d/60-numa.conf|[Service]|NUMAPolicy=bind|NUMAMask=1|AllowedCPUs=2-3|AllowedMemoryNodes=1|systemctl daemon-reload && systemctl restart db.service"},
		{"without cpuset", directives{systemd: 252, cpuset: "version 1"}, Identity{Unit: "db.service"}, "systemd",
			"/etc/systemd/system/db.service.d/60-numa.conf|[Service]|NUMAPolicy=bind|NUMAMask=1|CPUAffinity=2-3|systemctl daemon-reload && systemctl restart db.service|AllowedCPUs=, AllowedMemoryNodes=: version 1"},
		{"RHEL 8", directives{systemd: 239}, Identity{Unit: "db.service"}, "systemd",
			"/etc/systemd/system/db.service.d/60-numa.conf|[Service]|CPUAffinity=2-3|systemctl daemon-reload && systemctl restart db.service|NUMAPolicy=, NUMAMask=: systemd 239; they need 243|AllowedCPUs=, AllowedMemoryNodes=: systemd 239; they need 244"},
		{"a guest", all, Identity{Guest: "web", vcpus: 2, Cgroup: `/machine.slice/machine-qemu\x2d1\x2dweb.scope`}, "libvirt",
			"virsh edit web|<!-- strict holds from the start of the guest on; to change the nodes while it|     runs, start it with mode='restrictive' (libvirt 7.3 and later) -->|<vcpu placement='static' cpuset='2-3'>2</vcpu>|<numatune>|  <memory mode='strict' nodeset='1'/>|</numatune>|virsh shutdown web && virsh start web"},
		{"QEMU without libvirt", all, Identity{Guest: "web", PID: 7, Cgroup: "/user.slice"}, "process", "|fettle numa balance -p 7"},
		{"Docker", all, Identity{Container: "0123456789ab", Unit: "docker-0123456789ab.scope", Cgroup: "/system.slice/docker-0123456789ab.scope"}, "container", "|docker update --cpuset-cpus 2-3 --cpuset-mems 1 0123456789ab"},
		{"Podman", all, Identity{Container: "0123456789ab", Cgroup: "/machine.slice/libpod-0123456789ab.scope"}, "container", "|podman update --cpuset-cpus 2-3 --cpuset-mems 1 0123456789ab"},
		// Its service is that of the machine, not of the host.
		{"systemd-nspawn", all, Identity{Unit: "db.service", ContainerName: "lab", PID: 7, Cgroup: "/machine.slice/systemd-nspawn@lab.service/payload/system.slice/db.service"}, "process", "|fettle numa balance -p 7"},
		{"a pod", all, Identity{Pod: "aaaa", Container: "0123456789ab", Cgroup: pod}, "kubelet",
			"KubeletConfiguration|cpuManagerPolicy: static|topologyManagerPolicy: single-numa-node|memoryManagerPolicy: Static|reservedMemory:|- numaNode: 0|  limits: {memory: 612Mi}|"},
		{"a pod, reservation unknown", directives{}, Identity{Pod: "aaaa", Cgroup: pod}, "kubelet",
			"KubeletConfiguration|cpuManagerPolicy: static|topologyManagerPolicy: single-numa-node||memoryManagerPolicy, reservedMemory: what the kubelet reserves is unknown (kubeReserved, systemReserved, evictionHard), and reservedMemory must be the sum"},
		{"a user's unit", all, Identity{Unit: "x.service", PID: 7, Cgroup: "/user.slice/user@0.service/x.service"}, "process", "|fettle numa balance -p 7"},
	} {
		p := Plan{Moves: []Move{{Identity: c.change, From: "0-2", Nodes: "1", TargetCPUs: "2-3", MoveBytes: 1}}}
		p.write(c.d)
		text := p.Moves[0].Text
		var content []string
		for line := range strings.Lines(text.Content) {
			if !strings.HasPrefix(line, "#") {
				content = append(content, strings.TrimSuffix(line, "\n"))
			}
		}
		got := strings.Join(append(append(append([]string{text.File}, content...), text.Then), text.Omitted...), "|")
		if got != c.want || text.Kind != c.kind {
			t.Errorf("%s: %s\n%s; want\n%s", c.name, text.Kind, got, c.want)
		}
	}
}

// What the kubelet reserves, and what a unit uses, are sums of the machine's files.
func TestPlanFacts(t *testing.T) {
	config := func(text string) map[string]string {
		return map[string]string{
			"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + text,
			"/usr/bin/kubelet":             "",
		}
	}
	for text, want := range map[string]string{
		"kubeReserved: {memory: 500Mi, cpu: 500m}\nsystemReserved: {memory: \"1Gi\"}\n": "1624Mi",
		"evictionHard: {memory.available: 5%}\n":                                        "", // of an unknown capacity
		"evictionHard: {memory.available: 500M}\n":                                      "477Mi",
	} {
		if got := kubeletReserved(context.Background(), machine.Mounted(t, config(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	h := machine.Mounted(t, map[string]string{
		"/sys/fs/cgroup/a/memory.stat":        "anon 1000\nfile 500\nshmem 30\n",
		"/sys/fs/cgroup/memory/b/memory.stat": "total_rss 1000\nrss 1\ntotal_shmem 30\n",
	})
	for cgroup, want := range map[string]int64{"/a": 1030, "/b": 1030, "/c": 0} {
		if got := cgroupMemory(h, cgroup); got != want {
			t.Errorf("%s: %d, want %d", cgroup, got, want)
		}
	}
}

func TestReadDirectives(t *testing.T) {
	files := processMachine()
	maps.Copy(files, map[string]string{"/proc/self/cgroup": "0::/\n"})
	h := machine.Mounted(t, files)
	if d := readDirectives(t.Context(), h, Read(h)); d.systemd != 0 || d.systemdWhy == "" || d.cpuset == "" || d.first != 0 {
		t.Errorf("%+v", d)
	}
}

// A recorded machine has no CPU time in an interval. With one node the answer is known anyway.
func TestPlanAllRecorded(t *testing.T) {
	for path, want := range map[string]error{fourNodes: ErrRecorded, "../../../testdata/hosts/kvm-guest.txt": nil} {
		h, err := host.OpenArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := PlanAll(t.Context(), h, 1, time.Second)
		if err != want || err == nil && !strings.HasPrefix(p.Headline.Lines[0], "leave it: 1 NUMA node") {
			t.Errorf("%s: %+v, %v", path, p, err)
		}
	}
}

func TestReadCommand(t *testing.T) {
	for words, want := range map[string]Identity{
		"qemu -name guest=web,debug-threads=on -smp 4,sockets=4": {command: "qemu", Guest: "web", vcpus: 4},
		"qemu -smp cpus=8,maxcpus=16":                            {command: "qemu", vcpus: 8},
		"qemu -smp":                                              {command: "qemu"},
		"/usr/libexec/qemu-kvm -name web,process=x":              {command: "/usr/libexec/qemu-kvm", Guest: "web"},
		"login guest=web -smp 4":                                 {command: "login"},
	} {
		var p Identity
		if p.readCommand(strings.Fields(words)); !reflect.DeepEqual(p, want) {
			t.Errorf("%s: %+v", words, p)
		}
	}
}

// This machine moves its own memory between the first and the last node.
func TestMoveRate(t *testing.T) {
	nodes := unit.CPUs(0)
	for _, n := range Read(host.Live()).Nodes {
		nodes = nodes.Union(unit.CPUs(n.Number))
	}
	if rate, err := moveRate(host.Live().Clock, nodes.Numbers()[0], nodes.Max()); os.Geteuid() == 0 && (err != nil || rate <= 0) {
		t.Errorf("%g, %v", rate, err)
	}
}
