package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Limits of the verdict, in percent.
const (
	leastAligned = 90 // of local share, as numad's -m
	mostRemote   = 50
	mostOnOne    = 80 // of the memory, for "remote"
)

// judge returns the verdict. A process that is not aligned and may not use all nodes is bound,
// because no scheduler can align it.
func (v *View) judge(p *Process) string {
	largest, most := int64(0), int64(0)
	for _, n := range v.Nodes {
		largest = max(largest, n.MemoryBytes.Or(0))
	}
	for _, n := range p.Nodes {
		most = max(most, n.Bytes)
	}
	bond := v.bond(p)
	switch {
	case len(v.Nodes) < 2 || p.Bytes == 0 || p.LocalPercent >= leastAligned:
		return "aligned"
	case largest > 0 && p.Bytes > largest:
		return "larger than a node"
	case bond != "":
		return "bound by " + bond
	case p.LocalPercent < mostRemote && float64(most)*100 >= mostOnOne*float64(p.Bytes):
		return "remote"
	}
	return "spread"
}

// bond names the restriction that excludes a process from some nodes, or returns "".
func (v *View) bond(p *Process) string {
	cpus, err := unit.ParseCPUList(p.CPUs)
	nodes, err2 := unit.ParseCPUList(p.MemoryNodes)
	for _, n := range v.Nodes {
		own, _ := unit.ParseCPUList(n.CPUs.Or(""))
		switch {
		case err2 == nil && !nodes.Has(n.Number) && n.MemoryBytes.Or(0) > 0:
			return "the cpuset of " + p.Cgroup + " (memory of nodes " + p.MemoryNodes + ")"
		case err == nil && !own.IsEmpty() && own.Intersect(cpus).IsEmpty():
			return "its CPUs (" + p.CPUs + ")"
		}
	}
	for policy, bytes := range p.Policies {
		if strings.HasPrefix(policy, "bind") && bytes*2 > p.Bytes {
			return "its memory policy (" + policy + ")"
		}
	}
	return ""
}

func (d *Processes) summarize() (h ui.Headline) {
	worst := 0
	bytes, local := int64(0), 0.0
	for i, p := range d.Processes {
		bytes += p.Bytes
		local += p.LocalPercent * float64(p.Bytes)
		if p.LocalPercent < d.Processes[worst].LocalPercent {
			worst = i
		}
	}
	unread := ""
	if len(d.Unread) > 0 {
		unread = "; " + h.Count("unread", len(d.Unread), "process") + " not read: " + d.Unread[0].Why
	}
	if len(d.Processes) == 0 {
		h.Line("memory unknown%s", unread)
		return h
	}
	share := 100.0
	if bytes > 0 {
		share = local / float64(bytes)
	}
	h.Line("%s with %s, %s local%s", h.Count("processes", len(d.Processes), "process"), h.Value("memory_bytes", float64(bytes), unit.Size(bytes).Human()), h.Figure("local_percent", share, "%"), unread)
	p := d.Processes[worst]
	h.Line("%s (%s): %s", p.Name, h.Value("worst_pid", float64(p.PID), strconv.Itoa(p.PID)), p.Verdict)
	return h
}

// maxListed is the maximum number of processes that Print lists.
const maxListed = 20

// Print prints the processes, the largest first, each with its nodes.
func (d *Processes) Print(s *ui.Screen, all bool) {
	ui.PrintHeadline(s, &d.Headline)
	g := &ui.Grid{Columns: []ui.Column{{Head: "PID", Right: true}, {Head: "name"}, {Head: "local", Right: true}, {Head: "node", Right: true}, {Head: "memory", Right: true}, {Head: "CPU time", Right: true}, {Head: "verdict", Below: true}}}
	shown := d.Processes
	if !all {
		shown = shown[:min(len(shown), maxListed)]
	}
	for _, p := range shown {
		first := []string{strconv.Itoa(p.PID), p.Name, unit.Digits(p.LocalPercent) + " %"}
		verdict := p.Verdict
		nodes := slices.DeleteFunc(slices.Clone(p.Nodes), func(n NodeShare) bool { return n.Bytes == 0 && n.CPUPercent == 0 })
		for _, n := range nodes {
			g.Rows = append(g.Rows, append(first, strconv.Itoa(n.Node), unit.Size(n.Bytes).Human(), unit.Digits(n.CPUPercent)+" %", verdict))
			first, verdict = []string{"", "", ""}, ""
		}
	}
	if len(g.Rows) > 0 {
		ui.Heading(s, "processes")
		g.Write(s)
	}
	if left := len(d.Processes) - len(shown); left > 0 {
		ui.PrintLine(s, "%s not listed (--details)", text.Count(left, "process"))
	}
	printLimits(s, shown)
	for _, u := range d.Unread {
		ui.PrintLine(s, "? %s (%d) not read: %s", u.Name, u.PID, u.Why)
	}
}

// printLimits prints on which CPUs processes may run, which memory they may use and their memory
// policy; processes with the same answers share a row.
func printLimits(s *ui.Screen, all []Process) {
	g := &ui.Grid{Columns: []ui.Column{{Head: "PID"}, {Head: "may run on CPUs"}, {Head: "memory of nodes"}, {Head: "memory policy"}}}
	count := []int{}
	for i := range all {
		p := &all[i]
		cells := []string{strconv.Itoa(p.PID), p.CPUs, p.MemoryNodes, p.policies()}
		at := slices.IndexFunc(g.Rows, func(row []string) bool { return slices.Equal(row[1:], cells[1:]) })
		if at < 0 {
			g.Rows, count = append(g.Rows, cells), append(count, 1)
			continue
		}
		count[at]++
		g.Rows[at][0] = text.Count(count[at], "process")
	}
	if len(g.Rows) > 0 {
		ui.Heading(s, "limits")
		g.Write(s)
	}
}

// policies names the memory policies of a process with their shares, the largest share first.
func (p *Process) policies() string {
	names := slices.SortedFunc(maps.Keys(p.Policies), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Policies[b], p.Policies[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names {
		share := 100 * float64(p.Policies[name]) / float64(max(p.Bytes, 1))
		if share < 1 && len(words) > 0 {
			break // a library's own pages
		}
		if share < 99 {
			name += " " + unit.Digits(share) + " %"
		}
		words = append(words, name)
	}
	return strings.Join(words, ", ")
}
