package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Plan is the JSON output of fettle numa advise without CPUS[:MB]: the processes to move, and the
// processes to keep in place.
type Plan struct {
	Schema   string      `json:"schema"` // fettle/numa-plan/v1
	Headline ui.Headline `json:"headline"`
	Moves    []Move      `json:"moves"`
	Stay     []Stay      `json:"stay"`
	// Small counts the processes below numad's thresholds of 300 MiB and 0.5 CPUs that Stay does
	// not list.
	Small int `json:"small"`
	// BytesPerS is the rate at which the kernel moves pages. RateSource names its source.
	BytesPerS  float64 `json:"bytes_per_s"`
	RateSource string  `json:"rate_source"`
	// Notes lists the assumptions about values that the machine does not report.
	Notes []string `json:"notes"`
}

// Move is a process that fits better on some nodes.
type Move struct {
	Identity
	LocalPercent float64 `json:"local_percent"`
	MemoryBytes  int64   `json:"memory_bytes"`
	CPUsUsed     float64 `json:"cpus_used"`
	// From are the nodes with its memory, Nodes the nodes to use, and TargetCPUs their CPUs.
	From       string `json:"from"`
	Nodes      string `json:"nodes"`
	TargetCPUs string `json:"target_cpus"`
	// MoveBytes is its memory on other nodes. Seconds is an estimate.
	MoveBytes int64   `json:"move_bytes"`
	Seconds   float64 `json:"move_s"`
	Text      Text    `json:"text"`
}

// Stay is a process to keep in place, with the reason.
type Stay struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // one of the reasons to keep a process in place
	Detail string `json:"detail"`
}

// Reasons to keep a process in place.
const (
	stayAligned = "at least 90 % local already"
	stayBest    = "on the best nodes already"
	stayLarge   = "larger than a node; spreading is right"
	stayPolicy  = "with a memory policy of its own"
	staySelf    = "a database that places itself"
	stayPinned  = "placed by an administrator"
	stayManaged = "placed by the kubelet or libvirt"
	stayUnit    = "in a unit with a process that stays"
	staySmall   = "too small or idle"
	stayNoRoom  = "without a node that has room"
	stayUnread  = "not read"
)

// ErrRecorded is returned for a recorded machine, because a recording has no CPU time of processes
// over an interval.
var ErrRecorded = errors.New("cannot plan moves: a recording has no CPU time of processes over an interval")

// PlanAll reads the workload of a live machine, and plans the placement of its processes. readFor
// limits the time of reading the memory of processes. For a recorded machine with more than one
// node it returns ErrRecorded.
func PlanAll(ctx context.Context, h *host.Host, self int, readFor time.Duration) (*Plan, error) {
	if nodes := ReadNodes(h).Nodes; len(nodes) < 2 {
		p := newPlan()
		p.Headline.Line("leave it: %s, so all memory is at the same distance from all CPUs", p.Headline.Count("nodes", max(len(nodes), 1), "NUMA node"))
		return p, nil
	}
	if !h.Live {
		return nil, ErrRecorded
	}
	o := NumadOptions(self)
	o.ReadFor = readFor
	w, err := ReadWorkload(ctx, h, o)
	if err != nil {
		return nil, err
	}
	p := w.plan(func(cgroup string) int64 { return cgroupMemory(h, cgroup) })
	if len(p.Moves) > 0 {
		p.estimate(h.Clock, w.Rooms)
		p.write(readDirectives(ctx, h, w.View))
	}
	p.Headline = p.summarize()
	return p, nil
}

func newPlan() *Plan {
	return &Plan{Schema: "fettle/numa-plan/v1", Moves: []Move{}, Stay: []Stay{}, Notes: []string{}}
}

// plan decides about each process: those with the largest product of memory and CPU time first,
// as numad does. A planned move changes the free memory and CPU time for the next one. unitMemory
// returns the memory of a unit's cgroup, or 0 if it is unknown.
func (w *Workload) plan(unitMemory func(cgroup string) int64) *Plan {
	plan := newPlan()
	plan.Small, plan.Notes = w.Small, append(plan.Notes, w.Notes...)
	var order, movable []*WorkloadProcess
	staying := map[string]string{} // by unit: a process that stays; a drop-in holds for all of them
	for i := range w.Processes {
		p := &w.Processes[i]
		order = append(order, p)
		switch reason, _ := w.stays(p); {
		case reason == "":
			movable = append(movable, p)
		case p.Candidate && p.serviceUnit() != "":
			staying[p.Unit] = fmt.Sprintf("%s: %s (%d) is %s", p.Unit, p.Name, p.PID, reason)
		}
	}
	w.Lift(movable)
	slices.SortStableFunc(order, func(a, b *WorkloadProcess) int {
		return cmp.Compare(b.ResidentBytes*int64(b.CPU), a.ResidentBytes*int64(a.CPU))
	})
	units := map[string]unit.CPUSet{} // the nodes of units with a planned move
	for _, p := range order {
		reason, detail := w.stays(p)
		if why := staying[p.serviceUnit()]; reason == "" && why != "" {
			reason, detail = stayUnit, why
		}
		nodes := units[p.serviceUnit()]
		if reason == "" && nodes.IsEmpty() {
			nodes, reason, detail = w.destination(p, unitMemory)
		}
		if reason != "" {
			if slices.Contains(movable, p) {
				w.Keep(p)
			}
			plan.Stay = append(plan.Stay, Stay{p.PID, p.Name, reason, detail})
			continue
		}
		if p.serviceUnit() != "" {
			units[p.Unit] = nodes
		}
		plan.Moves = append(plan.Moves, w.newMove(p, nodes))
		w.Place(p, nodes)
	}
	return plan
}

// stays returns why a process should stay, independent of the room on other nodes, or "".
func (w *Workload) stays(p *WorkloadProcess) (reason, detail string) {
	if !p.Candidate {
		return staySmall, fmt.Sprintf("%s, %s CPUs", unit.Size(p.ResidentBytes).Human(), unit.Digits(float64(p.CPU)/100))
	}
	if p.Memory == nil {
		return stayUnread, p.Unread
	}
	largest := 0
	for _, r := range w.Rooms {
		largest = max(largest, r.TotalMB)
	}
	policies := strings.Join(p.ownPolicies(), ", ")
	switch pinned := w.pinned(p); {
	case policies != "":
		return stayPolicy, policies
	case p.Owner.Kind == OwnedByDatabase:
		return staySelf, p.Owner.Why
	case p.Memory.LocalPercent >= leastAligned:
		return stayAligned, unit.Digits(p.Memory.LocalPercent) + " % local"
	case toMB(p.Memory.Bytes) > largest:
		return stayLarge, fmt.Sprintf("%s > %s", unit.Size(p.Memory.Bytes).Human(), size(largest))
	case p.Owner.Kind == OwnedByAdmin:
		return stayPinned, p.Owner.Why
	case pinned != "":
		return stayManaged, p.Owner.Kind + ": " + pinned
	}
	return "", ""
}

// destination returns the nodes for a process, or why it should stay. A unit moves as a whole.
func (w *Workload) destination(p *WorkloadProcess, unitMemory func(string) int64) (nodes unit.CPUSet, reason, detail string) {
	nodes = w.Target(p, Utilization)
	needs := p.Memory.Bytes
	if p.serviceUnit() != "" {
		needs = max(needs, unitMemory(p.Cgroup))
	}
	free := 0
	for _, r := range w.without(p) {
		if nodes.Has(r.Node) {
			free += r.FreeMB
		}
	}
	away := 0.0 // of the CPU time, in percent
	for _, s := range p.Memory.Nodes {
		if !nodes.Has(s.Node) {
			away += s.CPUPercent
		}
	}
	switch {
	case nodes.Len() >= len(w.View.Nodes) || w.CPUsOf(nodes).IsEmpty():
		return nodes, stayNoRoom, "it needs " + unit.Size(needs).Human() + " on fewer nodes"
	case away <= 100-leastAligned && p.Elsewhere(nodes)*100 <= (100-leastAligned)*p.Memory.Bytes:
		return nodes, stayBest, "nodes " + nodes.String()
	case free < toMB(needs):
		return nodes, stayNoRoom, fmt.Sprintf("nodes %s have %s for %s", nodes, size(free), unit.Size(needs).Human())
	}
	return nodes, "", ""
}

// CPUsOf returns the CPUs of nodes, without isolated ones.
func (w *Workload) CPUsOf(nodes unit.CPUSet) (cpus unit.CPUSet) {
	for _, n := range w.View.Nodes {
		if own, err := unit.ParseCPUList(n.CPUs.Or("")); err == nil && nodes.Has(n.Number) {
			cpus = cpus.Union(own)
		}
	}
	return cpus.Minus(w.isolated)
}

// serviceUnit returns the unit for which a drop-in can be written, or "".
func (p *Identity) serviceUnit() string {
	if strings.HasSuffix(p.Unit, ".service") && p.Container == "" && p.ContainerName == "" && !strings.Contains(p.Cgroup, "/user.slice/") {
		return p.Unit
	}
	return ""
}

func (w *Workload) newMove(p *WorkloadProcess, nodes unit.CPUSet) Move {
	var from []int
	for _, s := range p.Memory.Nodes {
		if s.Bytes > 0 {
			from = append(from, s.Node)
		}
	}
	return Move{
		Identity: p.Identity, LocalPercent: p.Memory.LocalPercent, MemoryBytes: p.Memory.Bytes, CPUsUsed: float64(p.CPU) / 100,
		From: unit.CPUs(from...).String(), Nodes: nodes.String(), TargetCPUs: w.CPUsOf(nodes).String(), MoveBytes: p.Elsewhere(nodes),
	}
}
