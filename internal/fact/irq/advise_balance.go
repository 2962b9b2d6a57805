package irq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// balanced returns the interrupts of a device that may be moved while irqbalance runs: those that
// irqbalance does not move, and those for which balanced adds a change of irqbalance's
// configuration. left is why the others stay under irqbalance's control.
func (c *adviser) balanced(d *Device, wrong []interrupt, local unit.CPUSet) (movable []interrupt, left string) {
	b := &c.Balance
	var others []interrupt
	for _, i := range wrong {
		if slices.Contains(b.BannedIRQs, strconv.Itoa(i.number)) || slices.Contains(b.BannedMods, d.driver) {
			movable = append(movable, i)
		} else {
			others = append(others, i)
		}
	}
	banned, _ := unit.ParseCPUList(b.BannedList)
	exposed := d.cpus.Intersect(c.Balance.quiet).Minus(banned)
	switch {
	case len(others) == 0:
		return movable, ""
	case b.Policy != "":
		return movable, "irqbalance's policy script decides: " + b.Policy
	case !exposed.IsEmpty() && b.BannedBy == maskVariable:
		return movable, fmt.Sprintf("%s in %s lets irqbalance use isolated CPUs: remove it by hand", maskVariable, b.File)
	case !exposed.IsEmpty() && b.File != "":
		c.banIsolated(banned)
		return movable, "irqbalance will move them off the isolated CPUs"
	case d.Verdict == OneCPU:
		return movable, "irqbalance spreads them when they are busy"
	case !banned.IsEmpty() && local.Minus(banned).IsEmpty():
		return movable, fmt.Sprintf("irqbalance may not use the CPUs of %s (%s)", where(d.Node), b.BannedBy)
	case b.File == "":
		return movable, "irqbalance serves it, and has no environment file"
	}
	c.banInterrupts(others)
	return append(movable, others...), ""
}

// banIsolated adds the change that keeps irqbalance off the isolated CPUs.
func (c *adviser) banIsolated(banned unit.CPUSet) {
	s := setting.Setting{Kind: "irqbalance", Name: c.Balance.File}
	if slices.ContainsFunc(c.Moves, func(m Move) bool { return m.Change.Setting == s }) {
		return
	}
	c.move("", "irqbalance", s, banned.Union(c.Balance.quiet).String(), "its list lets it use isolated CPUs")
}

// banInterrupts adds a change that forbids irqbalance to move interrupts. It precedes their moves.
func (c *adviser) banInterrupts(list []interrupt) {
	s := setting.Setting{Kind: "irqbalance", Name: c.Balance.File + "/" + argsVariable}
	at := slices.IndexFunc(c.Moves, func(m Move) bool { return m.Change.Setting == s })
	if at < 0 {
		at = len(c.Moves)
		c.move("", "irqbalance", s, "", "it would move them back")
	}
	for _, i := range list {
		c.ban = append(c.ban, "--banirq="+strconv.Itoa(i.number))
	}
	c.Moves[at].leaves = len(c.ban)
	c.Moves[at].Change.Want = setting.Text(strconv.Quote(strings.TrimSpace(c.Balance.args + " " + strings.Join(c.ban, " "))))
}
