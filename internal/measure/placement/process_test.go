package placement

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// process returns the files of a process whose only thread ran on a CPU.
func process(pid, cpu, cpus, nodes, maps, cgroup string) map[string]string {
	dir := "/proc/" + pid + "/"
	return map[string]string{
		dir + "status":                "Name:\tdb\nVmRSS:\t" + pid + " kB\nCpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t" + nodes + "\n",
		dir + "cgroup":                "0::" + cgroup + "\n",
		dir + "cmdline":               "/usr/bin/qemu-system-x86_64\x00-name\x00guest=vm" + pid + ",debug-threads=on\x00",
		dir + "numa_maps":             maps,
		dir + "task/" + pid + "/stat": pid + " (db) S 1 1 1 0 -1 0 0 0 0 0 50 50 0 0 20 0 1 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 " + cpu + " 0 0 0 0 0\n",
	}
}

const (
	pod       = "/kubepods.slice/kubepods-podaaaaaaaa_bbbb_cccc_dddd_eeeeeeeeeeee.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope"
	onZero    = "7f00 default anon=950 N0=950 N1=50 kernelpagesize_kB=4\n"
	onBoth    = "7f00 default anon=950 N0=500 N1=500 kernelpagesize_kB=4\n"
	boundZero = "7f00 bind:0 anon=950 N0=1000 kernelpagesize_kB=4\n"
	tooMuch   = "7f00 default anon=950 N0=4000 N1=4000 kernelpagesize_kB=1024\n"
)

// processMachine has two nodes of 1 GiB with two CPUs each, and a process for each verdict.
func processMachine() map[string]string {
	files := map[string]string{}
	for _, m := range []map[string]string{
		node("0", "0-1", "1048576", "10 20"), node("1", "2-3", "1048576", "20 10"),
		process("11", "0", "0-3", "0-1", onZero, "/system.slice/db.service"),
		process("12", "2", "0-3", "0-1", onZero, "/system.slice/db.service"),
		process("13", "2", "0-3", "0-1", onBoth, pod),
		process("14", "2", "2-3", "0-1", onZero, "/"),
		process("15", "2", "0-3", "0", onZero, pod),
		process("16", "2", "0-3", "0-1", boundZero, "/"),
		process("17", "2", "0-3", "0-1", tooMuch, "/"),
	} {
		maps.Copy(files, m)
	}
	return files
}

func TestVerdicts(t *testing.T) {
	h := machine.Mounted(t, processMachine())
	for pid, want := range map[string]struct {
		verdict string
		local   float64
	}{
		"11": {"aligned", 95}, "12": {"remote", 5}, "13": {"spread", 50}, "14": {"bound by its CPUs (2-3)", 5},
		"15": {"bound by the cpuset of " + pod + " (memory of nodes 0)", 5},
		"16": {"bound by its memory policy (bind:0)", 0}, "17": {"larger than a node", 50},
	} {
		d, err := ReadProcesses(h, pid, 1, time.Minute)
		if err != nil || len(d.Processes) != 1 {
			t.Fatalf("%s: %+v, %v", pid, d, err)
		}
		if p := d.Processes[0]; p.Verdict != want.verdict || p.LocalPercent != want.local {
			t.Errorf("%s: %s, %g %% local; want %s, %g %%", pid, p.Verdict, p.LocalPercent, want.verdict, want.local)
		}
	}
}

func TestProcessNames(t *testing.T) {
	h := machine.Mounted(t, processMachine())
	for word, want := range map[string][]int{
		"db": {17, 16, 15, 14, 13, 12, 11}, "12": {12}, "db.service": {12, 11}, "vm14": {14}, "0123456789ab": {15, 13}, "0123456789abcdef": {15, 13},
		"aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee": {15, 13}, "vm1": nil, "other": nil, "99": nil,
	} {
		d, err := ReadProcesses(h, word, 1, time.Minute)
		var got []int
		if err == nil {
			for _, p := range d.Processes {
				got = append(got, p.PID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v (%v)", word, got, want, err)
		}
	}
}

// slowFiles does not answer for numa_maps until the test ends.
type slowFiles struct {
	host.Files
	end chan struct{}
}

func (f slowFiles) ReadFile(p string) ([]byte, error) {
	if p == "/proc/16/numa_maps" {
		<-f.end
	}
	return f.Files.ReadFile(p)
}

// A process whose memory takes too long, or cannot be read, is counted as unread: not as 0.
func TestUnreadProcesses(t *testing.T) {
	files := processMachine()
	delete(files, "/proc/17/numa_maps")
	h := machine.Mounted(t, files)
	end := make(chan struct{})
	defer close(end)
	h.Files = slowFiles{h.Files, end}
	d, err := ReadProcesses(h, "db", 1, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Processes)+len(d.Unread) != 7 || len(d.Unread) < 2 || d.Unread[0].PID != 17 || d.Unread[1].Why != "time limit" {
		t.Errorf("%+v", d)
	}
}

// TestLimits: processes with the same limits share a row, and pages of a library's own policy are
// not shown.
func TestLimits(t *testing.T) {
	one := func(pid int, cpus string, policies map[string]int64) Process {
		return Process{PID: pid, Bytes: 1000, CPUs: cpus, MemoryNodes: "0-1", Policies: policies}
	}
	var b strings.Builder
	printLimits(&ui.Screen{Out: &b, Format: ui.Table, Width: 80}, []Process{
		one(11, "0-3", map[string]int64{"default": 995, "bind:0": 5}), one(12, "0-3", map[string]int64{"default": 1000}),
		one(13, "0-3", map[string]int64{"interleave:0-1": 600, "default": 400}), one(14, "2", map[string]int64{}),
	})
	want := [][]string{{"2", "processes", "0-3", "0-1", "default"}, {"13", "0-3", "0-1", "interleave:0-1", "60", "%,", "default", "40", "%"}, {"14", "2", "0-1"}}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, line := range lines[len(lines)-len(want):] {
		if !slices.Equal(strings.Fields(line), want[i]) {
			t.Errorf("%q, want %q", line, want[i])
		}
	}
}
