package balance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Results of a move.
const (
	Moved       = "moved"
	MovedInPart = "moved in part"
	Undone      = "undone"
	// UndoneInPart is a move that left the process worse off, and could not be undone completely.
	UndoneInPart = "undone in part"
	Failed       = "failed"
)

// balancing is the kernel's own NUMA balancing. It is off while fettle moves pages, because it
// would move them too.
var balancing = setting.Setting{Kind: "sysctl", Name: "kernel.numa_balancing"}

// whyOff is the reason recorded in the journal. A later pass recognizes by it the changes that a
// killed pass left.
const whyOff = "off while fettle numa balance moves pages"

// Writes returns the settings that a pass writes and that other tuners may write too. numad writes
// them even if the value is already correct.
func Writes() []setting.Setting { return []setting.Setting{balancing} }

// planOff plans to switch off the kernel's NUMA balancing. The plan is empty if it is off already,
// or if the kernel lacks it.
func planOff(ctx context.Context, e *tune.Engine, state *journal.State) (*tune.Plan, error) {
	now, err := e.Kinds.Read(ctx, balancing)
	if err != nil || now.Absent || setting.Zero(now) {
		return &tune.Plan{}, nil //nolint:nilerr // a kernel without it
	}
	return e.PlanChanges(ctx, []setting.Change{{Setting: balancing, Want: setting.Text("0"), Reason: setting.Reason{Text: whyOff}}}, state)
}

// toNodes is part of the reason of each move. A later pass recognizes moves by it.
const toNodes = " to nodes "

// Run carries out a plan, with one transaction per process, while the kernel's NUMA balancing is
// off. It then measures again, and undoes the moves after which a process is worse off. It writes
// the results into the report. If another pass is running, or has moved processes since the plan
// was made, Run changes nothing and returns tune.ErrPass.
func Run(ctx context.Context, e *tune.Engine, r *Report) (err error) {
	lock, err := tune.Pass(e.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := r.current(e); err != nil {
		return err
	}
	restore, err := switchOff(ctx, e)
	if err != nil {
		return err
	}
	defer func() {
		if failed := restore(); failed != nil {
			err = ui.Exit(ui.Incomplete, errors.Join(err, failed))
		}
		r.Headline = r.summarizeResults()
	}()
	if err := closeEnded(ctx, e); err != nil {
		return err
	}
	before, err := waits(ctx, e.Host, r)
	if err != nil {
		return err
	}
	for i := range r.Processes {
		d := &r.Processes[i]
		if !d.Move {
			continue
		}
		if nodes, err := unit.ParseCPUList(d.Nodes); err == nil {
			if d.Why = brake(e.Host, nodes); d.Why != "" {
				d.Result = Failed
				continue
			}
		}
		if err := move(ctx, e, d); err != nil {
			return err
		}
	}
	return lookAgain(ctx, e, r, before)
}

// current returns an error if another pass has moved processes since the plan was made.
func (r *Report) current(e *tune.Engine) error {
	state, err := e.State()
	if err != nil {
		return err
	}
	for _, t := range state.Txs {
		for _, en := range t.Entries {
			if t.ID > r.last && strings.Contains(en.Reason.Text, toNodes) {
				return fmt.Errorf("%w: transaction %d has moved a process since this plan was made; nothing changed", tune.ErrPass, t.ID)
			}
		}
	}
	return nil
}

// RestoreKernel switches the kernel's NUMA balancing back on if a pass was killed while it was off.
// It does nothing while a pass runs.
func RestoreKernel(ctx context.Context, e *tune.Engine) error {
	state, err := e.State()
	if err != nil || len(leftOff(state)) == 0 {
		return err
	}
	lock, err := tune.Pass(e.StateDir)
	if err != nil {
		if errors.Is(err, tune.ErrPass) {
			return nil
		}
		return err
	}
	defer lock.Close()
	return restoreKernel(ctx, e)
}

// leftOff returns the transactions that have switched off the kernel's NUMA balancing.
func leftOff(state *journal.State) (ids []int) {
	for _, en := range state.Chains()[balancing] {
		if en.Reason.Text == whyOff {
			ids = append(ids, en.Tx.ID)
		}
	}
	return ids
}

func restoreKernel(ctx context.Context, e *tune.Engine) error {
	if _, err := e.Recover(ctx); err != nil {
		return err
	}
	state, err := e.State()
	if err != nil {
		return err
	}
	for _, id := range leftOff(state) {
		if _, err := e.Undo(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// switchOff switches off the kernel's NUMA balancing in its own transaction, and returns the
// function that undoes this. It first undoes the transaction of a pass that was killed.
func switchOff(ctx context.Context, e *tune.Engine) (restore func() error, err error) {
	if err := restoreKernel(ctx, e); err != nil {
		return nil, err
	}
	a, err := e.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return planOff(ctx, e, s)
	}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if err != nil {
		return nil, err
	}
	for _, s := range a.Plan.Steps {
		if s.Verdict != plugin.OK && e.Tell != nil {
			e.Tell(fmt.Sprintf("%s stays on, so the kernel may move pages too: %s", balancing, s.Why))
		}
	}
	return func() error {
		if a.Tx == 0 || a.Result != journal.ResultDone {
			return nil
		}
		_, err := e.Undo(context.WithoutCancel(ctx), a.Tx)
		if errors.Is(err, tune.ErrTakenBack) {
			return nil // by fettle undo meanwhile
		}
		return err
	}, nil
}

// move moves one process. An error ends the pass; a failure of this process alone becomes its
// result.
func move(ctx context.Context, e *tune.Engine, d *Decision) error {
	nodes, err := unit.ParseCPUList(d.Nodes)
	if err != nil {
		return err
	}
	// A thread that starts meanwhile may have the old CPUs, so the list is read until it is complete.
	placed := map[host.TaskID]bool{}
	for range 3 {
		fresh := slices.DeleteFunc(threadsOf(e.Host, d.id), func(id host.TaskID) bool { return placed[id] })
		if len(fresh) == 0 {
			break
		}
		for _, id := range fresh {
			placed[id] = true
		}
		stopped := ""
		braked := cpu.WithBrake(ctx, func() string { stopped = brake(e.Host, nodes); return stopped })
		a, err := e.Apply(braked, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			return e.PlanChanges(ctx, d.changes(fresh, d.Transaction == 0), s)
		}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true, Supersedes: d.supersedes()})
		switch {
		case err != nil:
			return err
		case a.Tx == 0 || a.Result == journal.ResultRolledBack:
			if d.Transaction == 0 {
				d.Result, d.Why = Failed, "the kernel refused; nothing changed"
			}
			return nil
		}
		d.Transaction = a.Tx
		d.judge(a.Plan, stopped)
	}
	if d.Transaction == 0 {
		d.Result, d.Why = Failed, "it has ended"
	}
	return nil
}

// supersedes returns the transactions that an undo of the next one also undoes.
func (d *Decision) supersedes() []int {
	if d.Transaction == 0 {
		return nil
	}
	return []int{d.Transaction}
}

// changes returns the changes of one transaction, in order: the CPUs of the threads, those of
// threads and children that start later, and the memory.
func (d *Decision) changes(threads []host.TaskID, whole bool) (all []setting.Change) {
	reason := setting.Reason{Text: fmt.Sprintf("%s (%d)%s%s", d.Name, d.PID, toNodes, d.Nodes)}
	want := func(s setting.Setting, value string) {
		all = append(all, setting.Change{Setting: s, Want: setting.Text(value), Reason: reason})
	}
	for _, id := range threads {
		want(cpu.TaskAffinity(id), d.CPUs)
	}
	if whole {
		want(cpu.TaskHeirs(d.id), d.CPUs)
		want(cpu.TaskSpread(d.id), d.spread.String())
	}
	return all
}

// judge sets the result from the verdicts of a transaction. stopped is why the brake stopped it, or
// "".
func (d *Decision) judge(p *tune.Plan, stopped string) {
	if d.Result == "" {
		d.Result = Moved
	}
	for _, s := range p.Steps {
		switch memory := s.Setting == cpu.TaskSpread(d.id); {
		case s.Verdict != plugin.Rejected:
		case memory:
			d.Result, d.Why = MovedInPart, cmp.Or(stopped, "memory: "+s.Why)
		default:
			d.Result, d.Why = MovedInPart, s.Setting.String()+": "+s.Why
		}
	}
}

// Limits beyond which a process counts as worse off after its move.
const (
	waitSample = time.Second
	// worseLocal is the maximum loss of local share, in percentage points.
	worseLocal = 1
	// worseWait is how much more of its runnable time a process waits for a CPU, in percentage points.
	worseWait = 25
)

// waits returns, for each process to move, how much of its runnable time it waits for a CPU, in
// percent.
func waits(ctx context.Context, h *host.Host, r *Report) (map[int]float64, error) {
	first := map[host.TaskID]map[host.TaskID]runnable{}
	for _, d := range r.Processes {
		if d.Move {
			first[d.id] = runnableTimes(h, d.id)
		}
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(waitSample):
	}
	share := map[int]float64{}
	for id, before := range first {
		share[id.TID] = waitPercent(before, runnableTimes(h, id))
	}
	return share, nil
}

// lookAgain reads where the moved processes are now, and undoes the moves after which a process is
// worse off. before is the share of its runnable time in which each process waited for a CPU, in
// percent.
func lookAgain(ctx context.Context, e *tune.Engine, r *Report, before map[int]float64) error {
	after, err := leastWaits(ctx, e.Host, r, before)
	if err != nil {
		return err
	}
	o := workload(r.self)
	o.AboveBytes, o.AboveCPU = o.AboveBytes/2, -1 // also those that have become a little smaller
	w, err := placement.ReadWorkload(ctx, e.Host, o)
	if err != nil {
		return err
	}
	var failed []error
	for i := range r.Processes {
		d := &r.Processes[i]
		if d.Transaction == 0 {
			continue
		}
		for _, p := range w.Processes {
			if p.ID == d.id && p.Memory != nil {
				d.LocalAfterPercent = &p.Memory.LocalPercent
			}
		}
		if why := d.worse(before[d.PID], after[d.PID]); why != "" {
			failed = append(failed, d.undo(ctx, e, why))
		}
	}
	return errors.Join(failed...)
}

// undo undoes a move after which the process is worse off, for the reason why.
func (d *Decision) undo(ctx context.Context, e *tune.Engine, why string) error {
	u, err := e.Undo(context.WithoutCancel(ctx), d.Transaction)
	if errors.Is(err, tune.ErrTakenBack) { // by fettle undo meanwhile
		u, err = nil, nil
	}
	d.Result, d.Why = Undone, why
	if u != nil {
		for _, v := range u.Values {
			if left := v.State == journal.KeptNow || v.State == journal.Failed; left && !v.SideEffect {
				d.Result, d.Why = UndoneInPart, fmt.Sprintf("%s; %s: %s", why, v.Setting, v.Why)
			}
		}
	}
	if err != nil {
		d.Result, d.Why = UndoneInPart, why+"; "+err.Error()
		return ui.Exit(ui.Incomplete, err)
	}
	return nil
}

// leastWaits samples the waits after a move, and returns the least wait of each process. It takes
// up to three samples while a process waits too long, because other programs that run for a moment
// lengthen the waits in a short sample.
func leastWaits(ctx context.Context, h *host.Host, r *Report, before map[int]float64) (map[int]float64, error) {
	least := map[int]float64{}
	for sample := range 3 {
		now, err := waits(ctx, h, r)
		if err != nil {
			return nil, err
		}
		long := false
		for pid, percent := range now {
			if sample == 0 || percent < least[pid] {
				least[pid] = percent
			}
			long = long || least[pid]-before[pid] > worseWait
		}
		if !long {
			break
		}
	}
	return least, nil
}

// worse returns why the process is worse off after its move, or "". before and after are the shares
// of its runnable time in which it waits for a CPU, in percent.
func (d *Decision) worse(before, after float64) string {
	switch {
	case d.LocalPercent != nil && d.LocalAfterPercent != nil && *d.LocalAfterPercent < *d.LocalPercent-worseLocal:
		return fmt.Sprintf("%s local after the move, %s before", percent(d.LocalAfterPercent), percent(d.LocalPercent))
	case after-before > worseWait:
		return fmt.Sprintf("it waits for a CPU %s of its runnable time, %s before", percent(&after), percent(&before))
	}
	return ""
}
