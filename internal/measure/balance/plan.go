package balance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Report is the JSON output of fettle numa balance: the plan, and the results if it was carried
// out.
type Report struct {
	Schema    string      `json:"schema"` // fettle/numa-balance/v1
	Headline  ui.Headline `json:"headline"`
	Processes []Decision  `json:"processes"`
	// Nodes is the number of NUMA nodes.
	Nodes int `json:"nodes"`
	// Notes lists the assumptions about values that the machine does not report.
	Notes []string `json:"notes"`
	// Usage has the counters of this pass, for Options.Since of the next one; nil with one node.
	Usage *placement.Usage `json:"-"`

	self int
	last int // number of the last transaction before the plan
}

// Plan reads the machine, and decides for each process whether to move it. state is the state of
// the journal, which shows the processes that earlier passes have placed; these may be moved again.
func Plan(ctx context.Context, h *host.Host, state *journal.State, o Options) (*Report, error) {
	r := &Report{Schema: "fettle/numa-balance/v1", Processes: []Decision{}, Notes: []string{}, self: o.Self, last: lastOf(state)}
	read := workload(o.Self)
	// A process that is named is listed with its CPU time even if it is small.
	read.LargeOnly = o.Processes == nil || o.Daemon
	if read.Since = o.Since; o.Since != nil {
		var err error
		var may bool
		if read.Until, may, err = Look(h, o.Self, o.Since); err != nil {
			return nil, err
		}
		if r.Usage = read.Until; !may {
			return r, nil
		}
	}
	view := placement.ReadNodes(h)
	if r.Nodes = len(view.Nodes); r.Nodes == 0 && len(view.Unknown) > 0 {
		return nil, fmt.Errorf("nothing could be determined: %s", view.Unknown[0])
	}
	w := &placement.Workload{}
	if r.Nodes > 1 {
		var err error
		if w, err = placement.ReadWorkload(ctx, h, read); err != nil {
			return nil, err
		}
		r.Usage, r.Notes = w.Usage, append(append(r.Notes, w.Notes...), notesOf(h)...)
		ours := placedBy(state)
		d := decider{o, ours, func(id host.TaskID) string { return ownThreads(h, id, ours) }}
		r.Processes = d.decide(w)
	}
	if !o.Daemon {
		if err := r.addSmall(h, w, o); err != nil {
			return nil, err
		}
	}
	r.Headline = r.summarize()
	return r, nil
}

// readFor limits the time of reading the memory of candidates. It is longer than for a report,
// because moving the pages takes longer anyway.
const readFor = 30 * time.Second

// workload returns the options for reading a workload of large processes.
func workload(self int) placement.WorkloadOptions {
	o := placement.NumadOptions(self)
	o.ReadFor, o.LargeOnly = readFor, true
	return o
}

// Look reads a machine's counters, for Options.Since. may reports whether any process has used
// enough CPU time since an earlier Look to be moved. since is nil for the first Look, which returns
// false.
func Look(h *host.Host, self int, since *placement.Usage) (now *placement.Usage, may bool, err error) {
	o := workload(self)
	if now, err = placement.ReadUsage(h, o); err != nil || since == nil {
		return now, false, err
	}
	return now, now.MayMove(since, o), nil
}

// placedBy returns a function that reports whether a task has the CPUs that an earlier pass has
// set. CPUs that a profile has set are as binding as an administrator's: a profile may isolate
// CPUs.
func placedBy(state *journal.State) func(host.TaskID, unit.CPUSet) bool {
	chains := state.Chains()
	same := func(a, b setting.Value) bool {
		x, err := unit.ParseCPUList(a.Text)
		y, err2 := unit.ParseCPUList(b.Text)
		return err == nil && err2 == nil && x.Equal(y)
	}
	return func(id host.TaskID, cpus unit.CPUSet) bool {
		list := chains[cpu.TaskAffinity(id)]
		if len(list) == 0 {
			return false
		}
		last := list[len(list)-1]
		return strings.Contains(last.Reason.Text, toNodes) && last.LeftBy(setting.Text(cpus.String()), same)
	}
}

func lastOf(state *journal.State) int {
	if len(state.Txs) == 0 {
		return 0
	}
	return state.Txs[len(state.Txs)-1].ID
}

// addSmall adds the named processes that are not in the workload, because they are small and idle. A
// word that names no process is an error.
func (r *Report) addSmall(h *host.Host, w *placement.Workload, o Options) error {
	for _, word := range o.Processes {
		found := false
		for i := range w.Processes {
			found = found || names(word, &w.Processes[i])
		}
		if found {
			continue
		}
		small, err := placement.ReadProcesses(h, word, o.Self, time.Second)
		if err != nil {
			return ui.Exit(ui.Usage, err)
		}
		if r.Nodes < 2 {
			continue
		}
		limits := placement.NumadOptions(0)
		why := fmt.Sprintf("uses at most %s and %s CPUs; only processes above both are moved", unit.Size(limits.AboveBytes).Human(), unit.Digits(float64(limits.AboveCPU)/100))
		for _, p := range small.Processes {
			r.Processes = append(r.Processes, Decision{PID: p.PID, Name: p.Name, MemoryBytes: p.Bytes, LocalPercent: &p.LocalPercent, Why: why})
		}
		for _, p := range small.Unread {
			r.Processes = append(r.Processes, Decision{PID: p.PID, Name: p.Name, Why: why})
		}
	}
	return nil
}

// ownThreads returns a sentence if a thread of the process has other CPUs than the main thread, or
// else "". Only the CPUs of the main thread are used to find the owner of a process, so they do not
// show this.
func ownThreads(h *host.Host, process host.TaskID, ours func(host.TaskID, unit.CPUSet) bool) string {
	main, err := h.Sched.Affinity(process)
	for _, id := range threadsOf(h, process) {
		cpus, err2 := h.Sched.Affinity(id)
		if err == nil && err2 == nil && !cpus.Equal(main) && !ours(id, cpus) {
			return fmt.Sprintf("places its threads itself: thread %d may use CPUs %s", id.TID, cpus)
		}
	}
	return ""
}

// Moves returns the number of processes to move.
func (r *Report) Moves() (n int) {
	for _, d := range r.Processes {
		if d.Move {
			n++
		}
	}
	return n
}

func nodeWords(nodes unit.CPUSet) string {
	if nodes.Len() == 1 {
		return "node " + nodes.String()
	}
	return "nodes " + nodes.String()
}

func (r *Report) summarize() (h ui.Headline) {
	moves, bytes := r.Moves(), int64(0)
	for _, d := range r.Processes {
		if d.Move {
			bytes += d.MoveBytes
		}
	}
	left := len(r.Processes) - moves
	switch {
	case r.Nodes < 2:
		h.Line("nothing to do: this machine has %s", h.Count("nodes", r.Nodes, "NUMA node"))
	case moves == 0 && left == 0:
		h.Line("nothing to do: no process uses more than %s and %s CPUs", unit.Size(300<<20).Human(), "0.5")
	case moves == 0:
		h.Line("nothing to do: %s left where they are", h.Count("left", left, "process"))
	default:
		h.Line("%s to move, with %s on other nodes; %s left where they are", h.Count("moves", moves, "process"),
			h.Value("move_bytes", float64(bytes), unit.Size(bytes).Human()), h.Count("left", left, ""))
	}
	return h
}

// Print prints the plan: the processes to move, then those that stay with the reason.
func (r *Report) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &r.Headline)
	move := &ui.Grid{Columns: []ui.Column{{Head: "PID", Right: true}, {Head: "name"}, {Head: "memory", Right: true}, {Head: "local", Right: true}, {Head: "to nodes"}, {Head: "CPUs"}, {Head: "to move", Right: true}}}
	stay := &ui.Grid{Columns: []ui.Column{{Head: "PID", Right: true}, {Head: "name"}, {Head: "memory", Right: true}, {Head: "why", Below: true}}}
	for _, d := range r.Processes {
		first := []string{strconv.Itoa(d.PID), d.Name, unit.Size(d.MemoryBytes).Human()}
		if d.Move {
			move.Rows = append(move.Rows, append(first, percent(d.LocalPercent), d.Nodes, d.CPUs, unit.Size(d.MoveBytes).Human()))
		} else {
			stay.Rows = append(stay.Rows, append(first, d.Why))
		}
	}
	if len(move.Rows) > 0 {
		ui.Heading(s, "to move")
		move.Write(s)
	}
	if len(stay.Rows) > 0 {
		ui.Heading(s, "left where they are")
		stay.Write(s)
	}
	for _, note := range r.Notes {
		ui.PrintLine(s, "? %s", note)
	}
}

func percent(share *float64) string {
	if share == nil {
		return "?"
	}
	return unit.Digits(*share) + " %"
}

func transaction(id int) string {
	if id == 0 {
		return "-"
	}
	return strconv.Itoa(id)
}

// PrintResults prints the results of the moves.
func (r *Report) PrintResults(s *ui.Screen) {
	ui.PrintHeadline(s, &r.Headline)
	g := &ui.Grid{Columns: []ui.Column{{Head: "PID", Right: true}, {Head: "name"}, {Head: "nodes"}, {Head: "local"}, {Head: "transaction", Right: true}, {Head: "result"}, {Head: "why", Below: true}}}
	for _, d := range r.Processes {
		if d.Result != "" {
			g.Rows = append(g.Rows, []string{strconv.Itoa(d.PID), d.Name, d.Nodes, percent(d.LocalPercent) + " -> " + percent(d.LocalAfterPercent), transaction(d.Transaction), d.Result, d.Why})
		}
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
}

// Lines returns the results for a log, one line per process.
func (r *Report) Lines() (lines []string) {
	for _, d := range r.Processes {
		if d.Result == "" || d.Transaction == 0 {
			continue
		}
		line := fmt.Sprintf("%s (%d) to %s: %s, %s local before, %s now, transaction %d", d.Name, d.PID, "nodes "+d.Nodes, d.Result, percent(d.LocalPercent), percent(d.LocalAfterPercent), d.Transaction)
		if d.Why != "" {
			line += ": " + d.Why
		}
		lines = append(lines, line)
	}
	return lines
}

// summarizeResults is the headline after the moves.
func (r *Report) summarizeResults() (h ui.Headline) {
	count := map[string]int{}
	var txs []string
	before, after, read := 0.0, 0.0, 0.0
	for _, d := range r.Processes {
		count[d.Result]++
		if d.Result == Moved || d.Result == MovedInPart {
			txs = append(txs, strconv.Itoa(d.Transaction))
			if d.LocalPercent != nil && d.LocalAfterPercent != nil {
				before, after, read = before+*d.LocalPercent, after+*d.LocalAfterPercent, read+1
			}
		}
	}
	line := h.Count("moved", count[Moved]+count[MovedInPart], "") + " of " + h.Count("moves", r.Moves(), "process") + " moved"
	if read > 0 {
		line += ": " + h.Figure("local_before_percent", before/read, "%") + " local before, " + h.Figure("local_after_percent", after/read, "%") + " now"
	}
	sign := "; "
	for _, bad := range []struct{ result, figure, words string }{{MovedInPart, "in_part", " in part"}, {Undone, "undone", " undone"}, {UndoneInPart, "undone_in_part", " undone in part"}, {Failed, "failed", " failed"}} {
		if n := count[bad.result]; n > 0 {
			line += sign + h.Count(bad.figure, n, "") + bad.words
			sign = ", "
		}
	}
	h.Line("%s", line)
	if len(txs) > 0 {
		h.Line("to restore: %s", text.CommandLine(append([]string{"fettle", "undo"}, txs...)))
	}
	return h
}

// Err returns an error if not all processes could be moved.
func (r *Report) Err() error {
	bad := 0
	for _, d := range r.Processes {
		if d.Result == MovedInPart || d.Result == UndoneInPart || d.Result == Failed {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return ui.Exit(ui.Partial, fmt.Errorf("%d of %s moved in part or not at all", bad, text.Count(r.Moves(), "process")))
}
