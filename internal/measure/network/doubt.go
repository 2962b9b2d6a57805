package network

import (
	"fmt"

	"fettle.dev/fettle/internal/text"
)

// Shares of all processors from which on other work makes the figures doubtful: choices of the
// authors.
const (
	othersMost = 0.1
	stolenMost = 0.05
	countMost  = 0.1 // of the starts or the probes of a cell
)

// doubts returns reasons why the figures may show a busy machine rather than the network. It names
// the cell with the most processor time of other programs and other guests of the hypervisor, the cell
// in which this program started the most requests or probes late, and one whose probes or replies have
// no sending times of the kernel.
func (r *Result) doubts() (all []string) {
	for _, end := range []struct{ where, others, stolen string }{{"here", othersHere, stolenHere}, {"at the peer", othersPeer, stolenPeer}} {
		for _, q := range []struct {
			name, who string
			most      float64
		}{{end.others, "other programs used", othersMost}, {end.stolen, "other guests took", stolenMost}} {
			worst := 0.0
			for i := range r.Cells {
				if f, is := r.Cells[i].Figure(q.name); is {
					worst = max(worst, f.Value)
				}
			}
			if worst > q.most {
				all = append(all, fmt.Sprintf("%s %s %s of the processors", end.where, q.who, text.Percent(worst)))
			}
		}
	}
	for _, q := range []struct{ name, text string }{
		{lateStarts, "fettle itself started %s of %s late"},
		{unstampedHere, "here the kernel gave no sending time for %s of the probes of %s, so a busy program counts as delay"},
		{unstampedPeer, "at the peer the kernel gave no sending time for %s of the replies of %s, so a busy program counts as delay"},
	} {
		worst, cell := countMost, ""
		for i := range r.Cells {
			if f, is := r.Cells[i].Figure(q.name); is && f.Value > worst {
				worst, cell = f.Value, r.Cells[i].Cell
			}
		}
		if cell != "" {
			all = append(all, fmt.Sprintf(q.text, text.Percent(worst), cell))
		}
	}
	return all
}
