package irq

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Advice lists the interrupts and queues that other CPUs should serve, and the devices that should
// keep their settings.
type Advice struct {
	Moves []Move
	Left  []Left
}

// Move is a change to one interrupt or queue, or to irqbalance. Its reason is Change.Reason.Text.
type Move struct {
	Device string // "" for irqbalance and for advice on all devices
	What   string // irq 40, rx-0 RPS
	Change setting.Change

	leaves int // number of interrupts that irqbalance should not move
}

// Left is a device that keeps its settings.
type Left struct{ Device, Why string }

// unknownCPUs is the reason to keep the settings of a device about which nothing is known.
const unknownCPUs = "its CPUs are unknown"

// Changes returns the changes of all moves, in the order of writing.
func (a *Advice) Changes() (out []setting.Change) {
	for _, m := range a.Moves {
		out = append(out, m.Change)
	}
	return out
}

// Row returns the cells of the move in a table: device, interrupt or queue, now, wanted. Masks are
// shown as lists of CPUs.
func (m *Move) Row(now, wanted setting.Value) []string {
	if m.leaves > 0 {
		return []string{m.Device, m.What, "in charge", "leaves " + strconv.Itoa(m.leaves)}
	}
	return []string{m.Device, m.What, m.words(now), m.words(wanted)}
}

func (m *Move) words(v setting.Value) string {
	switch {
	case v.Unknown:
		return "?"
	case v.Absent:
		return "-"
	case m.Change.Setting.Kind != "sysfs":
		return v.Text
	}
	cpus, err := unit.ParseCPUMask(v.Text)
	switch {
	case err != nil:
		return v.Text
	case cpus.IsEmpty():
		return "off"
	}
	return cpus.String()
}

// Advise returns the changes for the named devices, or for all. unknown lists names that are not a
// device of the report.
func (r *Report) Advise(devices []string) (a Advice, unknown []string) {
	c := adviser{Report: r, load: map[int]int{}, house: r.online.Minus(r.Balance.quiet)}
	for _, n := range r.Nodes {
		if own := n.cpus.Intersect(r.online); !own.IsEmpty() {
			c.nodes = append(c.nodes, own)
		}
	}
	for _, d := range r.Devices {
		for _, i := range d.lines {
			if i.busy() && i.cpus.Len() == 1 {
				c.load[i.cpus.Max()]++
			}
		}
	}
	for _, name := range devices {
		if !slices.Contains(r.Names(), name) {
			unknown = append(unknown, name)
		}
	}
	wanted := func(name string) bool { return len(devices) == 0 || slices.Contains(devices, name) }
	for i := range r.Devices {
		d := &r.Devices[i]
		if !wanted(d.Name) {
			continue
		}
		why := c.interrupts(d)
		at := slices.IndexFunc(r.Queues, func(q Queues) bool { return q.Device == d.Name })
		if at >= 0 && d.busy > 0 {
			c.queues(&r.Queues[at])
		}
		if !slices.ContainsFunc(c.Moves, func(m Move) bool { return m.Device == d.Name }) {
			c.Left = append(c.Left, Left{d.Name, why})
		}
	}
	if r.unread == "" && slices.ContainsFunc(r.Queues, func(q Queues) bool { return wanted(q.Device) }) {
		c.flows()
	}
	return c.Advice, unknown
}

// adviser collects advice.
type adviser struct {
	*Report
	Advice
	house unit.CPUSet // online CPUs that are not isolated
	// nodes has the online CPUs of each node that has some: a node may have only memory.
	nodes []unit.CPUSet
	// load is the number of interrupts in use that each CPU serves alone.
	load map[int]int
	ban  []string // arguments to add to those of irqbalance
}

func (c *adviser) move(device, what string, s setting.Setting, want, why string) {
	c.Moves = append(c.Moves, Move{Device: device, What: what, Change: setting.Change{Setting: s, Want: setting.Text(want), Reason: setting.Reason{Text: why}}})
}

// interrupts adds the moves of a device's interrupts. If it adds none, it returns the reason.
func (c *adviser) interrupts(d *Device) (left string) {
	if d.Verdict == Unknown {
		return unknownCPUs
	}
	local, target := c.targets(d.Node)
	var wrong []interrupt
	reasons := map[int]string{}
	busy := 0
	for _, i := range d.lines {
		why := c.wrong(i.cpus, local, d.Node)
		if i.busy() {
			busy++
		}
		if why == "" && d.Verdict == OneCPU && i.busy() && busy > 1 { // the first one stays
			why = fmt.Sprintf("CPU %s serves %d busy interrupts", i.cpus, d.busy)
		}
		switch {
		case why == "":
		case i.fixed:
			left = "the kernel manages its interrupts: no program can move them"
		case !i.busy():
			left = cmp.Or(left, "its interrupts elsewhere are rarely used")
		default:
			wrong = append(wrong, i)
			reasons[i.number] = why
		}
	}
	switch {
	case len(wrong) == 0:
		return cmp.Or(left, c.right(d))
	case target.IsEmpty():
		return where(d.Node) + " has no CPU that is not isolated"
	case d.Verdict == OffNode && c.eachCPU(d):
		return "each CPU has an interrupt of its own"
	case d.Verdict != Isolated && target.Len() == 1 && d.busy > 1:
		return fmt.Sprintf("%s has one CPU for its %d busy interrupts", where(d.Node), d.busy)
	}
	if c.Balance.State == "running" || c.Balance.State == "enabled" {
		wrong, left = c.balanced(d, wrong, local)
	}
	moved := false
	for _, i := range wrong {
		want := target
		if d.busy > 1 {
			own := -1
			if i.cpus.Len() == 1 {
				own = i.cpus.Max()
			}
			cpu := c.leastLoaded(target, own, moved)
			if cpu == own {
				left = cmp.Or(left, "the other CPUs of "+where(d.Node)+" serve more interrupts")
				continue
			}
			moved = true
			want = unit.CPUs(cpu)
		}
		number := strconv.Itoa(i.number)
		c.move(d.Name, "irq "+number, setting.Setting{Kind: "irq", Name: number + "/affinity"}, want.String(), reasons[i.number])
	}
	return left
}

// where names a node, or the whole machine for a device without one.
func where(node *int) string {
	if node == nil {
		return "this machine"
	}
	return fmt.Sprintf("node %d", *node)
}

// targets returns the CPUs of a device's node (local), and the CPUs to which its interrupts may be
// moved (target). target contains the CPUs of the node that are not isolated, or of the whole
// machine if the device has no node.
func (c *adviser) targets(node *int) (local, target unit.CPUSet) {
	local, known := c.cpusOf(node)
	if !known || local.IsEmpty() {
		return c.online, c.house
	}
	return local, local.Intersect(c.house)
}

// wrong returns why CPUs should not serve a device of a node, or "".
func (c *adviser) wrong(cpus, local unit.CPUSet, node *int) string {
	if isolated := cpus.Intersect(c.Balance.quiet); !isolated.IsEmpty() {
		return are(isolated) + "isolated"
	}
	// A mask may have CPUs that are offline.
	if off := cpus.Intersect(c.online).Minus(local); !off.IsEmpty() {
		return are(off) + "not on " + where(node)
	}
	return ""
}

func are(cpus unit.CPUSet) string {
	if cpus.Len() == 1 {
		return "CPU " + cpus.String() + " is "
	}
	return "CPUs " + cpus.String() + " are "
}

// right returns the reason to keep the settings of a device, if no interrupt has to move.
func (c *adviser) right(d *Device) string {
	switch {
	case d.busy == 0:
		return "hardly used"
	case len(c.nodes) < 2:
		return "one NUMA node"
	case d.Node == nil:
		return "of no NUMA node"
	}
	return "served on its node"
}

// eachCPU reports whether each CPU that is not isolated has an interrupt of the device that no
// other CPU serves.
func (c *adviser) eachCPU(d *Device) bool {
	var all unit.CPUSet
	for _, i := range d.lines {
		if i.cpus.Len() == 1 && i.busy() {
			all = all.Union(i.cpus)
		}
	}
	return c.house.Minus(all).IsEmpty()
}

// leastLoaded returns the CPU that should serve an interrupt, the one that serves the fewest other
// interrupts, and counts the interrupt for it. own is the CPU that serves the interrupt alone now,
// or -1. Among equally loaded CPUs, own comes first if stay is set and last otherwise, and the
// lowest number wins.
func (c *adviser) leastLoaded(cpus unit.CPUSet, own int, stay bool) int {
	if own >= 0 {
		c.load[own]--
	}
	rank := func(cpu int) int { // an interrupt counts 2
		switch {
		case cpu != own:
			return 2 * c.load[cpu]
		case stay:
			return 2*c.load[cpu] - 1
		}
		return 2*c.load[cpu] + 1
	}
	best := -1
	for _, cpu := range cpus.Numbers() {
		if best < 0 || rank(cpu) < rank(best) {
			best = cpu
		}
	}
	c.load[best]++
	return best
}

// queues adds the moves of a network device's software queues: those that leave the device's node
// or use isolated CPUs.
func (c *adviser) queues(q *Queues) {
	local, target := c.targets(q.Node)
	file := func(queue, attribute string) setting.Setting {
		return setting.Setting{Kind: "sysfs", Name: path.Join("/sys/class/net", q.Device, "queues", queue, attribute)}
	}
	for _, rx := range q.rps {
		why := c.wrong(rx.cpus, local, q.Node)
		if why == "" || target.IsEmpty() {
			continue
		}
		want := rx.cpus.Intersect(target)
		if want.IsEmpty() {
			want = target
		}
		c.move(q.Device, rx.name+" RPS", file(rx.name, "rps_cpus"), want.Mask(), why)
	}
	if len(c.nodes) > 1 && q.XPSQueues == 0 && len(q.tx) >= len(c.nodes) {
		for i, cpus := range c.senders(len(q.tx)) {
			c.move(q.Device, q.tx[i]+" XPS", file(q.tx[i], "xps_cpus"), cpus.Mask(), "CPUs of all nodes share a queue")
		}
	}
}

// senders distributes the CPUs over at most n transmit queues, so that CPUs of different nodes use
// different queues (Documentation/networking/scaling.rst, XPS: Transmit Packet Steering). Each node
// gets queues in proportion to its CPUs, at least one. If there are more queues than CPUs, the last
// queues get none.
func (c *adviser) senders(n int) []unit.CPUSet {
	queues, free := make([][]int, len(c.nodes)), 0 // by node
	for _, node := range c.nodes {
		free += node.Len()
	}
	n = min(n, free)
	for q := range n {
		most := 0
		for at, node := range c.nodes {
			if have, other := len(queues[at]), len(queues[most]); other > 0 && (have == 0 || node.Len()*(other+1) > c.nodes[most].Len()*(have+1)) {
				most = at
			}
		}
		queues[most] = append(queues[most], q)
	}
	out := make([]unit.CPUSet, n)
	for at, node := range c.nodes {
		for i, cpu := range node.Numbers() {
			q := queues[at][i%len(queues[at])]
			out[q] = out[q].Union(unit.CPUs(cpu))
		}
	}
	return out
}

// flows adds the machine's table of RFS if queues have tables but the machine has none, because RFS
// is then off.
func (c *adviser) flows() {
	most := int64(0)
	device := ""
	for _, q := range c.Queues {
		if q.RFSEntries > most {
			most, device = q.RFSEntries, q.Device
		}
	}
	if c.RFSEntries == nil || *c.RFSEntries != 0 || most == 0 {
		return
	}
	entries := int64(1)
	for entries < most {
		entries *= 2
	}
	s := setting.Setting{Kind: "sysctl", Name: "net.core.rps_sock_flow_entries"}
	c.move("", "RFS", s, strconv.FormatInt(entries, 10), device+" has entries, but RFS is off")
}
