package placement

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
)

// kinds are the rows of a process's table.
var kinds = []string{"Huge", "Heap", "Stack", "Private"}

// processMemory is the memory of a process in MiB, by kind and node.
type processMemory struct {
	name  string
	kinds [4]map[int]float64
}

// readMemory sums the pages of a process on each node.
func (n *numastat) readMemory(pid int) (*processMemory, error) {
	p := &processMemory{name: n.name(pid)}
	for i := range p.kinds {
		p.kinds[i] = map[int]float64{}
	}
	err := fact.ReadNumaMaps(n.host, pid, func(m *fact.NumaMapping) {
		kind := 3
		switch {
		case m.Huge:
			kind = 0
		case m.Heap:
			kind = 1
		case m.Stack:
			kind = 2
		}
		for _, on := range m.Nodes {
			p.kinds[kind][on.Node] += float64(on.Pages) * float64(m.PageBytes) / (1 << 20)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read /proc/%d/numa_maps", pid)
	}
	return p, nil
}

// row returns the values of one kind on all nodes. A negative kind means the sum of all kinds.
func (n *numastat) row(p *processMemory, kind int) []*float64 {
	out := make([]*float64, len(n.tables))
	for i := range n.tables {
		sum := 0.0
		for k := range kinds {
			if k == kind || kind < 0 {
				sum += p.kinds[k][n.tables[i].Number]
			}
		}
		out[i] = &sum
	}
	return out
}

// unreadable is numastat's name of a process that it cannot read.
const unreadable = "(null)"

// printProcesses prints a table for each process, or without -v one of their totals. As in
// numastat, that table is missing if the last process cannot be read.
func (n *numastat) printProcesses() {
	single := n.verbose || len(n.pids) == 1
	if !single {
		fmt.Fprintln(n.out, "\nPer-node process memory usage (in MBs)")
	}
	all := n.newTable("PID", "Node ", true)
	for i, pid := range n.pids {
		p, err := n.readMemory(pid)
		if err != nil {
			n.say("%v", err)
			p = &processMemory{name: unreadable}
		}
		switch {
		case single:
			fmt.Fprintf(n.out, "\nPer-node process memory usage (in MBs) for PID %d (%s)\n", pid, p.name)
			if err == nil {
				n.printProcess(p)
			}
		case err != nil && i == len(n.pids)-1:
			return
		default:
			all.addRow(fmt.Sprintf("%d (%s)", pid, p.name), n.row(p, -1))
		}
	}
	if !single {
		all.addTotals()
		n.layout.print(n.out, all)
	}
}

func (n *numastat) printProcess(p *processMemory) {
	t := n.newTable("", "Node ", true)
	for k, kind := range kinds {
		t.addRow(kind, n.row(p, k))
	}
	t.addTotals()
	n.layout.print(n.out, t)
}
