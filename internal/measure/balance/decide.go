// Package balance moves running processes to the NUMA nodes on which they fit best, as numad does.
// In: the workload of a machine (package placement). Out: a decision for each process, and
// transactions in the journal that undo can revert. Used by fettle numa balance.
package balance

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/unit"
)

// Local is the default of Options.Local: numad's -m.
const Local = 90

// Options select processes, and set the conditions for a move.
type Options struct {
	// Processes are the words that select the processes to move (placement.Identity.Matches, or a
	// process number); nil means all.
	Processes []string
	// Exclude are the words that select processes not to move.
	Exclude []string
	// Utilization is the share of its memory and CPU time that a process should use, in percent:
	// numad's -u.
	Utilization int
	// Local is the percentage of local memory from which a process is not moved: numad's -m.
	Local int
	// OnlyFree counts free memory without inactive page cache: numad's -C 0.
	OnlyFree bool
	// Self is a process that is not considered: the caller.
	Self int
	// Daemon marks repeated passes: a word of Processes without a process is not an error.
	Daemon bool
	// Since is the start of the interval for which CPU time is measured: Report.Usage of an earlier
	// pass. If nil, the interval starts now and takes 2 s.
	Since *placement.Usage
	// Leave, if not nil, returns why a process is left alone, or "".
	Leave func(host.TaskID) string
}

// Decision is the action for one process, with its reason.
type Decision struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Start is the start time in clock ticks after boot. Together with the process number it
	// identifies the process.
	Start       uint64 `json:"start"`
	MemoryBytes int64  `json:"memory_bytes"`
	// Move reports whether the process is moved; Why has the reason if not.
	Move bool   `json:"move"`
	Why  string `json:"why,omitempty"`
	// Nodes and CPUs are the destination of the process.
	Nodes string `json:"nodes,omitempty"`
	CPUs  string `json:"cpus,omitempty"`
	// MoveBytes is the memory on other nodes.
	MoveBytes int64 `json:"move_bytes"`
	// LocalPercent is the share of local memory before the move, LocalAfterPercent after it; null
	// if not read.
	LocalPercent      *float64 `json:"local_percent"`
	LocalAfterPercent *float64 `json:"local_after_percent"`
	// Result is moved, "moved in part", undone, or failed. Transaction is the number of its
	// transaction in the journal.
	Result      string `json:"result,omitempty"`
	Transaction int    `json:"transaction,omitempty"`

	id     host.TaskID
	spread cpu.Spread // the memory by node after the move
}

// decider decides about the processes of a workload.
type decider struct {
	Options
	// ours reports whether an earlier pass has set the CPUs that a task has.
	ours func(id host.TaskID, cpus unit.CPUSet) bool
	// threads returns why the threads of a process forbid a move, or "".
	threads func(host.TaskID) string
}

// decide decides about the processes that the options select, in numad's order: processes that may
// run on all nodes first, by memory times CPU time. Each decision assumes that the moves before it
// are made.
func (o *decider) decide(w *placement.Workload) []Decision {
	if o.OnlyFree {
		for i := range w.Rooms {
			for _, n := range w.View.Nodes {
				if free, ok := n.FreeBytes.Get(); ok && n.Number == w.Rooms[i].Node {
					w.Rooms[i].FreeMB = int(free >> 20)
				}
			}
		}
	}
	all := slices.Clone(w.Processes)
	slices.SortStableFunc(all, func(a, b placement.WorkloadProcess) int {
		bound := func(p placement.WorkloadProcess) int {
			if o.placed(&p) {
				return 1
			}
			return 0
		}
		weight := func(p placement.WorkloadProcess) int64 { return p.ResidentBytes * int64(p.CPU) }
		return cmp.Or(bound(a)-bound(b), cmp.Compare(weight(b), weight(a)))
	})
	var movable []*placement.WorkloadProcess
	for i := range all {
		if p := &all[i]; o.selects(p) && o.stays(p) == "" {
			movable = append(movable, p)
		}
	}
	w.Lift(movable)
	out := []Decision{}
	for i := range all {
		p := &all[i]
		if o.selects(p) {
			out = append(out, o.decideOne(w, p))
		}
	}
	return out
}

// selects reports whether the options name the process. Small ones are listed only if named.
func (o *Options) selects(p *placement.WorkloadProcess) bool {
	if o.Processes == nil {
		return p.Candidate
	}
	return slices.ContainsFunc(o.Processes, func(word string) bool { return names(word, p) })
}

// names reports whether a word names the process.
func names(word string, p *placement.WorkloadProcess) bool {
	return word == strconv.Itoa(p.PID) || p.Matches(word)
}

// placed reports whether an earlier pass has set the CPUs of a process.
func (o *decider) placed(p *placement.WorkloadProcess) bool {
	cpus, err := unit.ParseCPUList(p.CPUs)
	return err == nil && o.ours(p.ID, cpus)
}

func (o *decider) decideOne(w *placement.Workload, p *placement.WorkloadProcess) Decision {
	d := Decision{PID: p.PID, Name: p.Name, Start: p.ID.Start, MemoryBytes: p.ResidentBytes, id: p.ID}
	if p.Memory != nil {
		d.LocalPercent = &p.Memory.LocalPercent
	}
	if d.Why = o.stays(p); d.Why != "" {
		return d
	}
	nodes := w.Target(p, o.Utilization)
	cpus := w.CPUsOf(nodes)
	away := p.Elsewhere(nodes)
	switch may, err := unit.ParseCPUList(p.CPUs); {
	case nodes.IsEmpty() || cpus.IsEmpty():
		d.Why = "no node with CPUs has room for it"
	case nodes.Len() == len(w.Rooms):
		d.Why = "it needs all nodes"
	case err == nil && may.Minus(cpus).IsEmpty() && away*100 <= p.Memory.Bytes*int64(100-o.Local):
		d.Why = "it is on " + nodeWords(nodes) + " already"
	case p.Memory.LocalPercent >= 100/float64(nodes.Len()): // what memory and threads spread over the nodes would have
		d.Why = fmt.Sprintf("%s %% of its memory is local; on %s that would not increase", unit.Digits(p.Memory.LocalPercent), nodeWords(nodes))
	default:
		// Last, as it reads more files; before the room is taken.
		if d.Why = o.threads(p.ID); d.Why == "" {
			d.Move, d.Nodes, d.CPUs, d.MoveBytes = true, nodes.String(), cpus.String(), away
			d.spread = w.Place(p, nodes)
			return d
		}
	}
	w.Keep(p)
	return d
}

// stays returns why a process is left alone whatever the nodes have free, or "".
func (o *decider) stays(p *placement.WorkloadProcess) string {
	limits := placement.NumadOptions(0)
	switch {
	case slices.ContainsFunc(o.Exclude, func(word string) bool { return names(word, p) }):
		return "excluded"
	case !p.Candidate:
		return fmt.Sprintf("uses %s and %s CPUs; only processes above %s and %s CPUs are moved", unit.Size(p.ResidentBytes).Human(),
			unit.Digits(float64(p.CPU)/100), unit.Size(limits.AboveBytes).Human(), unit.Digits(float64(limits.AboveCPU)/100))
	case p.Memory == nil:
		return "memory not read: " + cmp.Or(p.Unread, "unknown")
	case p.Owner.Kind == placement.OwnedByAdmin && o.placed(p):
	case p.Owner.Kind != "":
		return p.Owner.Kind + ": " + p.Owner.Why
	}
	if o.Leave != nil {
		if why := o.Leave(p.ID); why != "" {
			return why
		}
	}
	if p.Memory.LocalPercent >= float64(o.Local) {
		return unit.Digits(p.Memory.LocalPercent) + " % local"
	}
	return ""
}
