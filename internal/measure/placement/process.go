package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// Processes is the JSON form of fettle numa show -p.
type Processes struct {
	Schema    string      `json:"schema"` // fettle/numa-processes/v1
	Headline  ui.Headline `json:"headline"`
	Processes []Process   `json:"processes"`
	// Unread lists the matching processes whose memory was not read, with the reasons.
	Unread []Unread `json:"unread"`
}

// Unread is a process whose memory was not read.
type Unread struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Process is the placement of one process.
type Process struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	Cgroup string `json:"cgroup"`
	// Bytes is the memory on all nodes.
	Bytes int64       `json:"bytes"`
	Nodes []NodeShare `json:"nodes"`
	// LocalPercent is the sum over the nodes of memory share times CPU share.
	LocalPercent float64 `json:"local_percent"`
	// Policies has the bytes under each memory policy: default, bind:0, ...
	Policies map[string]int64 `json:"policies"`
	// CPUs and MemoryNodes are those that affinity and cpuset allow.
	CPUs        string `json:"cpus"`
	MemoryNodes string `json:"memory_nodes"`
	// Verdict is aligned, spread, remote, "larger than a node", or "bound by" and the restriction.
	Verdict string `json:"verdict"`
}

// NodeShare is the part of a process on one node.
type NodeShare struct {
	Node  int   `json:"node"`
	Bytes int64 `json:"bytes"`
	// CPUPercent is the share of the process's CPU time used by threads that last ran on this node.
	CPUPercent float64 `json:"cpu_percent"`
}

// ReadProcesses reads the placement of the processes that match a word: a process number, a
// name, a systemd unit, a container, a libvirt guest or a pod (see Matches). It
// reads the largest processes first, and stops at the time limit.
func ReadProcesses(h *host.Host, word string, self int, limit time.Duration) (*Processes, error) {
	found, err := matching(h, word, self)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process matches %q: want a process number or name, a unit, a container's id or name, a guest, or a pod's UID or name; a container's name is known for Docker, Podman, systemd-nspawn and LXC only", word)
	}
	slices.SortFunc(found, func(a, b Identity) int {
		return cmp.Or(cmp.Compare(b.ResidentBytes, a.ResidentBytes), cmp.Compare(a.PID, b.PID))
	})
	v := ReadNodes(h)
	out := &Processes{Schema: "fettle/numa-processes/v1", Processes: []Process{}, Unread: []Unread{}}
	out.Unread = append(out.Unread, readMaps(h, found, limit, func(i int, m *pages) {
		out.Processes = append(out.Processes, v.place(h, &found[i], m))
	})...)
	out.Headline = out.summarize()
	return out, nil
}

// pages is the memory of a process in bytes, by node and by memory policy.
type pages struct {
	nodes    map[int]int64
	policies map[string]int64
	err      error
}

func readPages(h *host.Host, pid int) *pages {
	p := &pages{nodes: map[int]int64{}, policies: map[string]int64{}}
	p.err = fact.ReadNumaMaps(h, pid, func(m *fact.NumaMapping) {
		for _, n := range m.Nodes {
			p.nodes[n.Node] += n.Pages * m.PageBytes
			p.policies[m.Policy] += n.Pages * m.PageBytes
		}
	})
	return p
}

// readMaps calls each with the index and the memory of every process, in order. It stops at
// the time limit, because the kernel walks a process's page tables to produce its numa_maps file.
func readMaps(h *host.Host, all []Identity, limit time.Duration, each func(i int, m *pages)) (unread []Unread) {
	late := time.After(limit)
	read := make(chan *pages, len(all))
	expired := false
	for i, p := range all {
		if expired {
			unread = append(unread, Unread{p.PID, p.Name, "time limit"})
			continue
		}
		go func() { read <- readPages(h, p.PID) }()
		select {
		case m := <-read:
			if m.err != nil {
				why := host.Why(fmt.Sprintf("/proc/%d/numa_maps", p.PID), m.err)
				unread = append(unread, Unread{p.PID, p.Name, cmp.Or(why, "the process has ended")})
				continue
			}
			each(i, m)
		case <-late:
			expired = true
			unread = append(unread, Unread{p.PID, p.Name, "time limit"})
		}
	}
	return unread
}

// place sums the memory and CPU time of a process on each node.
func (v *View) place(h *host.Host, c *Identity, m *pages) Process {
	p := Process{PID: c.PID, Name: c.Name, Cgroup: c.Cgroup, CPUs: c.CPUs, MemoryNodes: c.MemoryNodes, Policies: m.policies}
	for _, bytes := range m.nodes {
		p.Bytes += bytes
	}
	cpu, all := v.cpuTime(h, c.PID)
	for _, n := range v.Nodes {
		s := NodeShare{Node: n.Number, Bytes: m.nodes[n.Number]}
		if all > 0 {
			s.CPUPercent = 100 * cpu[n.Number] / all
		}
		if p.Bytes > 0 {
			p.LocalPercent += s.CPUPercent * float64(s.Bytes) / float64(p.Bytes)
		}
		p.Nodes = append(p.Nodes, s)
	}
	p.Verdict = v.judge(&p)
	return p
}

// cpuTime returns the CPU time of a process's threads in ticks, by the node on which each thread
// ran last. It adds one tick per thread, so that idle threads count a little.
func (v *View) cpuTime(h *host.Host, pid int) (ticks map[int]float64, all float64) {
	ticks = map[int]float64{}
	cpus := v.cpus()
	for _, stat := range threadStats(h, pid) {
		user, err := strconv.ParseFloat(stat[11], 64)
		system, err2 := strconv.ParseFloat(stat[12], 64)
		cpu, err3 := strconv.Atoi(stat[36])
		if err != nil || err2 != nil || err3 != nil {
			continue
		}
		for n, set := range cpus {
			if set.Has(cpu) {
				ticks[n] += user + system + 1
				all += user + system + 1
			}
		}
	}
	return ticks, all
}

// threadStats returns the fields of /proc/PID/task/TID/stat from the third on (proc_pid_stat(5)) of each
// thread of a process. /proc/PID/stat has them too if there is one thread.
func threadStats(h *host.Host, pid int) (all [][]string) {
	dir := "/proc/" + strconv.Itoa(pid)
	const threads, least = 17, 37
	if w := host.StatFields(h.File(dir + "/stat").Text); len(w) >= least && w[threads] == "1" {
		return [][]string{w}
	}
	list, _ := h.Files.ReadDir(dir + "/task")
	for _, d := range list {
		if w := host.StatFields(h.File(dir + "/task/" + d.Name() + "/stat").Text); len(w) >= least {
			all = append(all, w)
		}
	}
	return all
}
