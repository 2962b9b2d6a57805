package irq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// headline names the devices that the wrong CPUs serve, and whether irqbalance moves their
// interrupts.
func (r *Report) headline() (h ui.Headline) {
	counts := map[Verdict]int{}
	interrupts := 0
	for _, d := range r.Devices {
		counts[d.Verdict]++
		interrupts += len(d.Interrupts)
	}
	if len(r.Devices) == 0 {
		line := "no device has interrupts"
		if r.unread != "" {
			line = "interrupts unknown: " + r.unread
		}
		h.Line("%s", line)
		h.Line("%s", r.Balance.words())
		return h
	}
	line := fmt.Sprintf("%s of %s", h.Count("interrupts", interrupts, "interrupt"), h.Count("devices", len(r.Devices), "device"))
	var wrong []string
	for _, v := range []struct {
		is   Verdict
		name string
	}{{Isolated, "isolated"}, {OffNode, "off_node"}, {OneCPU, "one_cpu"}, {Unknown, "unknown"}} {
		if n := counts[v.is]; n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s", h.Count(v.name, n, "device"), strings.Replace(string(v.is), string(Unknown), "on unknown CPUs", 1)))
		}
	}
	switch {
	case len(wrong) > 0:
		line += ": " + strings.Join(wrong, ", ")
	case len(r.Nodes) < 2:
		line += ", on a machine with one NUMA node"
	default:
		line += ", each served on its device's node"
	}
	h.Line("%s", line)
	h.Line("%s", r.Balance.words())
	return h
}

// words describes irqbalance.
func (b *Balance) words() string {
	out := "irqbalance " + map[string]string{"running": "runs", "stopped": "does not run", "unknown": "unknown", "enabled": "starts at boot"}[b.State]
	if b.State == "not installed" {
		return "irqbalance is not installed"
	}
	if b.BannedList != "" {
		out += "; leaves out CPUs " + b.BannedList + " (" + b.BannedBy + ")"
	}
	if len(b.BannedIRQs) > 0 {
		out += "; leaves alone interrupts " + strings.Join(b.BannedIRQs, ", ")
	}
	if len(b.BannedMods) > 0 {
		out += "; leaves alone modules " + strings.Join(b.BannedMods, ", ")
	}
	if b.Policy != "" {
		out += "; policy script " + b.Policy
	}
	if b.Oneshot {
		out += "; runs once at boot"
	}
	if b.Invalid != "" {
		out += "; it cannot read " + b.Invalid + " (" + b.File + ")"
	}
	return out
}

// devicesShown is the number of devices shown without --all. Devices that the wrong CPUs serve are
// always shown.
const devicesShown = 12

// Print prints a report. With all, it prints every device.
func Print(s *ui.Screen, r *Report, all bool) {
	ui.PrintHeadline(s, &r.Headline)
	shown := devicesShown
	for i, d := range r.Devices { // these stand first
		if d.Verdict != OK && d.Verdict != Unknown {
			shown = max(shown, i+1)
		}
	}
	if all || len(r.Devices) < shown {
		shown = len(r.Devices)
	}
	if shown > 0 {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: []ui.Column{{Head: "device"}, {Head: "node", Right: true}, {Head: "irqs", Right: true}, {Head: "count", Right: true}, {Head: "local %", Right: true}, {Head: "CPUs"}, {Head: "off node"}, {Head: "hints ignored", Right: true, Optional: true}, {Head: "verdict"}}}
		for _, d := range r.Devices[:shown] {
			local := ""
			if d.LocalPercent != nil {
				local = unit.Decimals(*d.LocalPercent, 1)
			}
			ignored := ""
			if d.HintsIgnored > 0 {
				ignored = strconv.Itoa(d.HintsIgnored)
			}
			g.Rows = append(g.Rows, []string{d.Name, number(d.Node), strconv.Itoa(len(d.Interrupts)), unit.Digits(d.Count), local, d.CPUList, d.OffNodeList, ignored, string(d.Verdict)})
		}
		writeFilled(s, &g)
	}
	if n := len(r.Devices) - shown; n > 0 {
		ui.PrintLine(s, "%s not shown (--all)", text.Count(n, "device"))
	}
	r.printQueues(s)
	for _, why := range r.Unknown {
		if why == r.unread {
			continue // in the headline
		}
		ui.PrintLine(s, "unknown: %s", why)
	}
}

func (r *Report) printQueues(s *ui.Screen) {
	if len(r.Queues) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "queues of"}, {Head: "node", Right: true}, {Head: "rx", Right: true}, {Head: "RPS CPUs"}, {Head: "RFS entries", Right: true}, {Head: "tx", Right: true}, {Head: "XPS CPUs"}, {Head: "RPS off node"}}}
	list := func(cpus string) string {
		if cpus == "" {
			return "off"
		}
		return cpus
	}
	for _, q := range r.Queues {
		g.Rows = append(g.Rows, []string{q.Device, number(q.Node), strconv.Itoa(q.RxQueues), list(q.RPSList), unit.Thousands(uint64(q.RFSEntries)), strconv.Itoa(q.TxQueues), list(q.XPSList), q.OffNodeList})
	}
	writeFilled(s, &g)
	if r.RFSEntries != nil && *r.RFSEntries == 0 && slices.ContainsFunc(r.Queues, func(q Queues) bool { return q.RFSEntries > 0 }) {
		ui.PrintLine(s, "RFS is off: net.core.rps_sock_flow_entries is 0")
	}
}

// writeFilled writes a grid without its empty columns.
func writeFilled(s *ui.Screen, g *ui.Grid) {
	for i := len(g.Columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(g.Rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		g.Columns = slices.Delete(g.Columns, i, i+1)
		for j := range g.Rows {
			g.Rows[j] = slices.Delete(g.Rows[j], i, i+1)
		}
	}
	g.Write(s)
}

func number(node *int) string {
	if node == nil {
		return "-"
	}
	return strconv.Itoa(*node)
}

// Undetermined returns why the advice is about no device, or "".
func (a *Advice) Undetermined(r *Report) string {
	switch {
	case r.unread != "":
		return r.unread
	case len(a.Moves) == 0 && len(a.Left) > 0 && !slices.ContainsFunc(a.Left, func(l Left) bool { return l.Why != unknownCPUs }):
		return "the CPUs that serve interrupts are unknown"
	}
	return ""
}

// Headline returns the number of interrupts and queues that other CPUs should serve (none on most
// machines), and whether irqbalance controls the interrupts. writes is the number of values that
// the plan changes.
func (a *Advice) Headline(r *Report, writes int) (h ui.Headline) {
	moved := map[string]bool{}
	for _, m := range a.Moves {
		if m.Device != "" {
			moved[m.Device] = true
		}
	}
	devices := len(a.Left) + len(moved)
	switch why := a.Undetermined(r); {
	case why != "":
		h.Line("cannot tell: %s", why)
	case len(a.Moves) == 0:
		h.Count("values_to_write", 0, "")
		line := "leave it: nothing to move for " + h.Count("devices", devices, "device")
		if groups := a.byReason(); len(groups) == 1 {
			line += ": " + groups[0].why
		}
		h.Line("%s", line)
	default:
		h.Line("%s for %s of %s", h.Count("values_to_write", writes, "change"), h.Count("devices_moved", len(moved), "device"), h.Count("devices", devices, ""))
	}
	h.Line("%s", r.Balance.words())
	return h
}

// reasonGroup are the devices that are left for the same reason.
type reasonGroup struct {
	why     string
	devices []string
}

// byReason groups the devices that keep their settings by reason.
func (a *Advice) byReason() (out []reasonGroup) {
	for _, l := range a.Left {
		i := slices.IndexFunc(out, func(g reasonGroup) bool { return g.why == l.Why })
		if i < 0 {
			i = len(out)
			out = append(out, reasonGroup{why: l.Why})
		}
		out[i].devices = append(out[i].devices, l.Device)
	}
	return out
}

// PrintLeft prints the devices that keep their settings, with the reasons.
func (a *Advice) PrintLeft(s *ui.Screen) {
	groups := a.byReason()
	if len(groups) == 0 || len(groups) == 1 && len(a.Moves) == 0 { // the headline has it
		return
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "left because"}, {Head: "devices", Cut: true}}}
	for _, l := range groups {
		g.Rows = append(g.Rows, []string{l.why, strings.Join(l.devices, ", ")})
	}
	g.Write(s)
}
