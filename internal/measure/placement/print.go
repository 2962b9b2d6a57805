package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// summarize returns the headline: the room, the misses and NUMA balancing, the devices.
func (v *View) summarize() (h ui.Headline) {
	if len(v.Nodes) == 0 {
		if len(v.Unknown) > 0 {
			h.Line("NUMA nodes unknown: %s", v.Unknown[0])
		} else {
			h.Line("no NUMA nodes in this kernel: all memory is at the same distance")
		}
		return h
	}
	h.Line("%s", v.room(&h))
	if len(v.Nodes) == 1 {
		h.Line("one node: all memory is at the same distance from all CPUs")
		return h
	}
	h.Line("%s; %s", v.misses(&h), v.balancing(&h))
	h.Line("%s", v.offNode(&h))
	return h
}

// room describes the nodes, their memory, and the node with the most free memory.
func (v *View) room(h *ui.Headline) string {
	cpus, memory, free, most := 0, int64(0), int64(0), v.Nodes[0]
	known := true
	for _, n := range v.Nodes {
		set, _ := unit.ParseCPUList(n.CPUs.Or(""))
		cpus += set.Len()
		total, ok := n.MemoryBytes.Get()
		left, ok2 := n.FreeBytes.Get()
		known = known && ok && ok2
		memory, free = memory+total, free+left
		if left > most.FreeBytes.Or(0) {
			most = n
		}
	}
	text := h.Count("nodes", len(v.Nodes), "NUMA node") + ", " + h.Count("cpus", cpus, "CPU")
	if !known {
		return text + ", memory unknown"
	}
	size := func(name string, n int64) string { return h.Value(name, float64(n), unit.Size(n).Human()) }
	text += ", " + size("memory_bytes", memory) + ", " + size("free_bytes", free) + " free"
	if len(v.Nodes) > 1 {
		text += ", most on node " + h.Count("most_free_node", most.Number, "") + " (" + size("most_free_bytes", most.FreeBytes.Or(0)) + ")"
	}
	return text
}

// misses describes the node with the largest share of allocations that were intended for
// another node.
func (v *View) misses(h *ui.Headline) string {
	worst, at := -1.0, 0
	for _, n := range v.Nodes {
		if p, ok := n.MissPercent.Get(); ok && p > worst {
			worst, at = p, n.Number
		}
	}
	switch {
	case worst < 0:
		return "allocations on the wrong node: unknown"
	case worst == 0:
		return "since boot " + h.Count("miss_percent", 0, "") + " % of allocations on the wrong node"
	}
	return "since boot up to " + h.Figure("miss_percent", worst, "%") + " of allocations on the wrong node (node " + h.Count("miss_node", at, "") + ")"
}

func (v *View) balancing(h *ui.Headline) string {
	mode, ok := v.Balancing.Get()
	switch {
	case !ok && v.Balancing.Unknown() != "":
		return "NUMA balancing unknown"
	case !ok:
		return "no NUMA balancing in this kernel"
	case mode == 0:
		return "NUMA balancing off"
	}
	text := "NUMA balancing on"
	if mode == 2 {
		text = "memory tiering on"
	}
	if rate, ok := v.HintFaultsPerS.Get(); ok {
		text += ", " + h.Figure("hint_faults_per_s", rate, "hint faults/s")
	}
	return text
}

// offNode describes devices whose interrupts other nodes serve.
func (v *View) offNode(h *ui.Headline) string {
	var off []string
	unplaced, unknown, known := 0, 0, 0
	for _, d := range v.Devices {
		irqs, ok := d.OffNode.Get()
		if ok && d.Interrupts.Or(0) > 0 {
			known++
		}
		switch {
		case ok && len(irqs) > 0:
			off = append(off, d.Name)
		case d.OffNode.Unknown() != "" || d.Node.Unknown() != "":
			unknown++
		case d.Node.Absent():
			unplaced++
		}
	}
	parts := []string{"devices with interrupts off the device's node: unknown"}
	if known > 0 {
		parts[0] = h.Count("devices_off_node", len(off), "device") + " with interrupts off the device's node"
	}
	if len(off) > 0 {
		parts[0] += ": " + strings.Join(off[:min(len(off), 4)], ", ")
	}
	if unplaced > 0 {
		parts = append(parts, "the firmware reports no node for "+h.Count("devices_without_node", unplaced, "device"))
	}
	if unknown > 0 {
		parts = append(parts, h.Count("devices_unknown", unknown, "")+" not recorded")
	}
	return strings.Join(parts, "; ")
}

// Print prints the view. With details it lists all devices.
func (v *View) Print(s *ui.Screen, details bool) {
	ui.PrintHeadline(s, &v.Headline)
	if len(v.Nodes) == 0 {
		return
	}
	ui.Heading(s, "memory")
	v.nodeGrid().Write(s)
	if g := v.hugeGrid(); len(g.Rows) > 0 {
		ui.Heading(s, "huge pages")
		g.Write(s)
	}
	if len(v.Nodes) > 1 {
		ui.Heading(s, "distances")
		v.distanceGrid().Write(s)
		v.printDevices(s, details)
	}
	for _, why := range v.Unknown {
		ui.PrintLine(s, "? %s", why)
	}
}

func (v *View) nodeGrid() *ui.Grid {
	right := func(head string) ui.Column { return ui.Column{Head: head, Right: true} }
	optional := func(head string) ui.Column { return ui.Column{Head: head, Right: true, Optional: true} }
	g := &ui.Grid{Columns: []ui.Column{right("node"), right("memory"), right("free"), right("cache"), right("freeable"), right("anon"), optional("slab"), right("missed"), optional("remote"), {Head: "CPUs"}}}
	for _, n := range v.Nodes {
		cpus := cell(n.CPUs, func(list string) string { return list })
		if n.Kind != "" {
			cpus = strings.TrimSpace(cpus + " (" + n.Kind + ")")
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(n.Number), sizeText(n.MemoryBytes), sizeText(n.FreeBytes), sizeText(n.CacheBytes), sizeText(n.ReclaimableBytes), sizeText(n.AnonBytes), sizeText(n.SlabBytes), percent(n.MissPercent), percent(n.RemotePercent), cpus})
	}
	return g
}

// hugeGrid has a row for each page size with a pool, and the free and all pages of each node.
func (v *View) hugeGrid() *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{Head: "page size", Right: true}, {Head: "node", Right: true}, {Head: "pages", Right: true}, {Head: "free", Right: true}}}
	for i := range v.Nodes[0].HugePages {
		for _, n := range v.Nodes {
			if i >= len(n.HugePages) || fact.Is(n.HugePages[i].Total, 0) {
				continue
			}
			p := n.HugePages[i]
			g.Rows = append(g.Rows, []string{sizeText(p.SizeBytes), strconv.Itoa(n.Number), cell(p.Total, count), cell(p.Free, count)})
		}
	}
	return g
}

func (v *View) distanceGrid() *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{Head: "node", Right: true}, {Head: "to nodes " + v.numbers()}}}
	for _, n := range v.Nodes {
		g.Rows = append(g.Rows, []string{strconv.Itoa(n.Number), cell(n.Distances, numbers)})
	}
	return g
}

// numbers lists the nodes like the kernel: 0-3,8.
func (v *View) numbers() string {
	var all []int
	for _, n := range v.Nodes {
		all = append(all, n.Number)
	}
	return unit.CPUs(all...).String()
}

// printDevices prints the devices with interrupts off their node, and with details all.
func (v *View) printDevices(s *ui.Screen, details bool) {
	g := &ui.Grid{Columns: []ui.Column{{Head: "device"}, {Head: "node", Right: true}, {Head: "interrupts", Right: true}, {Head: "off the node", Right: true}, {Head: "", Cut: true}}}
	for _, d := range v.Devices {
		off, ok := d.OffNode.Get()
		if !details && len(off) == 0 {
			continue
		}
		why := slices.DeleteFunc([]string{d.Node.Unknown(), d.OffNode.Unknown()}, func(why string) bool { return why == "" })
		note := strings.Join(why, "; ")
		switch {
		case ok && len(off) > 0:
			note = "interrupts " + numbers(off)
		case note == "" && d.Node.Absent():
			note = "the firmware reports no node"
		}
		g.Rows = append(g.Rows, []string{d.Name, cell(d.Node, count), cell(d.Interrupts, count), cell(d.OffNode, func(all []int64) string { return strconv.Itoa(len(all)) }), note})
	}
	if len(g.Rows) == 0 {
		return
	}
	ui.Heading(s, "devices")
	g.Write(s)
}

func numbers(all []int64) string {
	var words []string
	for _, n := range all {
		words = append(words, strconv.FormatInt(n, 10))
	}
	return strings.Join(words, " ")
}

// cell formats a fact for a grid: "-" if absent, "?" if unknown.
func cell[T any](f fact.Fact[T], format func(T) string) string {
	v, ok := f.Get()
	switch {
	case ok:
		return format(v)
	case f.Unknown() != "":
		return "?"
	}
	return "-"
}

func sizeText(f fact.Fact[int64]) string {
	return cell(f, func(n int64) string { return unit.Size(n).Human() })
}

func percent(f fact.Fact[float64]) string {
	return cell(f, func(p float64) string { return unit.Digits(p) + " %" })
}

func count(n int64) string { return fmt.Sprint(n) }
