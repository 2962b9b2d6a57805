package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/balance"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/ui"
)

// byDaemon is the prefix of the reason in the daemon's transactions, and byBalance the reason of those
// that move processes.
const (
	byDaemon  = "fettle daemon: "
	byBalance = byDaemon + "numa_balance"
)

// balancer makes the passes of numa_balance in the daemon's loop. Other goroutines only pause and
// restart it.
type balancer struct {
	pass sync.Mutex // held during a pass

	mu      sync.Mutex // guards the fields below
	paused  bool
	restart bool               // the next pass is the first
	cancel  context.CancelFunc // ends the present pass

	// since has the counters of the last pass: CPU time counts from then on. It is nil while there are
	// no passes.
	since *placement.Usage
	host  *host.Host    // the machine of since
	every time.Duration // to the next pass, at most the longest
	most  time.Duration
	said  string // the last message about why there was no move
}

// restartBalance makes the loop read the configuration of numa_balance. It is called with the lock of
// the daemon.
func (d *Daemon) restartBalance() {
	b := &d.balancer
	b.mu.Lock()
	was := b.paused
	b.paused, b.restart = false, true
	b.mu.Unlock()
	if was {
		d.notePaused(false)
	}
	d.next(time.Millisecond)
}

// resumeBalance ends a pause. It is called with the lock of the daemon.
func (d *Daemon) resumeBalance() {
	b := &d.balancer
	b.mu.Lock()
	was := b.paused
	b.mu.Unlock()
	if was {
		d.restartBalance()
	}
}

// balanceLater arms the timer of the first pass, but only if the machine has several NUMA nodes.
func (d *Daemon) balanceLater(e *tune.Engine) error {
	b, n := &d.balancer, e.Main.NumaBalance
	b.since, b.host, b.every, b.most = nil, e.Host, n.Min, n.Max
	if nodes := len(placement.ReadNodes(e.Host).Nodes); nodes < 2 {
		d.sayBalance(LevelInfo, "nothing to do: this machine has 1 NUMA node")
		return nil
	}
	var err error
	if b.since, _, err = balance.Look(b.host, os.Getpid(), nil); err != nil {
		return err
	}
	d.sayBalance(LevelInfo, sentence("on: %s, every %s to %s", n.Words(), n.Min, n.Max))
	d.next(b.every)
	return nil
}

// sayBalance logs a message, unless it is the same as the last one.
func (d *Daemon) sayBalance(l Level, text string) {
	if text != "" && text != d.balancer.said {
		d.log.say(l, "numa_balance: %s", text)
	}
	d.balancer.said = text
}

// mayMove reports whether a pass may have something to do. If not, it arms the timer of the next one.
// Most passes end here, without opening the machine, and without enough garbage to release.
func (d *Daemon) mayMove() bool {
	b := &d.balancer
	b.mu.Lock()
	may := b.paused || b.restart || b.since == nil
	b.mu.Unlock()
	if may {
		return true
	}
	now, may, err := balance.Look(b.host, os.Getpid(), b.since)
	if err != nil || may {
		return true // the pass looks again
	}
	d.sayBalance(LevelInfo, "")
	b.since, b.every = now, min(2*b.every, b.most)
	d.next(b.every)
	return false
}

// balance makes a pass and arms the timer of the next one: soon if a process has moved, otherwise after
// twice the time, as long as the configuration allows.
func (d *Daemon) balance(ctx context.Context) error {
	b := &d.balancer
	ctx, restart, ok := b.begin(ctx)
	if !ok {
		return errIdle // paused
	}
	defer b.end()
	// Setting kinds of its own: other goroutines use the daemon's.
	m, err := d.Config.Open(ctx)
	if err != nil {
		return fmt.Errorf("numa_balance: stopped until the daemon is reloaded: %w", err)
	}
	e, n := *m.Engine, m.Engine.Main.NumaBalance
	e.Kinds, e.Reason, e.Wait = m.Kinds, byBalance, time.Second
	e.Tell = func(text string) { d.log.say(LevelWarning, "numa_balance: %s", text) }
	if restart {
		// A killed pass may have left it off.
		if err := balance.RestoreKernel(ctx, &e); err != nil {
			d.log.say(LevelWarning, "numa_balance: %v", err)
		}
	}
	switch {
	case !n.On():
		if b.every, b.since = 0, nil; !restart {
			d.sayBalance(LevelInfo, "off")
		}
		return errIdle
	case restart:
		return d.balanceLater(&e)
	}
	moved, why, err := d.balanceOnce(ctx, &e)
	d.sayBalance(LevelInfo, why)
	if b.every = min(2*b.every, n.Max); moved {
		b.every = n.Min
	}
	d.next(b.every)
	if ctx.Err() != nil && ui.Code(err) != ui.Incomplete {
		return nil // paused, or the end of the daemon
	}
	// The loop then releases memory: with 180 processes the daemon had 7 MiB resident, without the
	// release 16 MiB, and 11 MiB without numa_balance.
	return err
}

// balanceOnce makes one pass as fettle numa balance does. It reports whether a process has moved, or
// why none could.
func (d *Daemon) balanceOnce(ctx context.Context, e *tune.Engine) (moved bool, why string, err error) {
	b := &d.balancer
	if why := balance.Pressure(e.Host); why != "" {
		return false, why, nil
	}
	state, err := e.State()
	if err != nil {
		return false, "", err
	}
	n := e.Main.NumaBalance
	o := balance.Options{
		Processes: n.Processes, Exclude: n.Exclude, Utilization: placement.Utilization, Local: balance.Local, Self: os.Getpid(), Daemon: true, Since: b.since,
		Leave: balance.Rest(state, e.Host.Clock.Now(), func(undo *journal.Tx) bool {
			return strings.HasPrefix(undo.Reason, byDaemon) && undo.Reason != byBalance // stop and off
		}),
	}
	if n.All() {
		o.Processes = nil
	}
	r, err := balance.Plan(ctx, e.Host, state, o)
	if err != nil {
		return false, "", err
	}
	if b.since = r.Usage; r.Moves() == 0 {
		return false, "", nil
	}
	if x := d.experiment(); x != nil {
		return false, underWay(x), nil
	}
	if why, err := rival(ctx, e); why != "" || err != nil {
		return false, why, err
	}
	err = balance.Run(ctx, e, r)
	if errors.Is(err, tune.ErrPass) || errors.Is(err, journal.ErrBusy) {
		return false, err.Error(), nil
	}
	for _, l := range r.Lines() {
		moved = true
		d.log.say(LevelNotice, "numa_balance: %s", l)
	}
	return moved, "", err
}

// rival returns which other tuner writes what a pass writes, or "".
func rival(ctx context.Context, e *tune.Engine) (string, error) {
	silent := *e
	silent.Tell = nil
	others, err := (&tune.Machine{Engine: &silent}).OtherTuners(ctx, balance.Writes)
	if err != nil || len(others) == 0 {
		return "", err
	}
	return "nothing moved: " + others[0].Name + " sets " + others[0].Sets, nil
}

// begin starts a pass that end ends. restart reports whether it is the first. ok is false while passes
// are paused.
func (b *balancer) begin(ctx context.Context) (_ context.Context, restart, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused {
		return ctx, false, false
	}
	b.pass.Lock()
	restart, b.restart = b.restart, false
	ctx, b.cancel = context.WithCancel(ctx)
	return ctx, restart, true
}

func (b *balancer) end() {
	b.cancel()
	b.pass.Unlock()
}

// pauseBalance ends the present pass, and makes no more until restartBalance.
func (d *Daemon) pauseBalance() {
	b := &d.balancer
	b.mu.Lock()
	b.paused = true
	if b.cancel != nil {
		b.cancel()
	}
	b.mu.Unlock()
	b.pass.Lock()
	b.pass.Unlock() //nolint:staticcheck // the pass has ended
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notePaused(true)
}

// notePaused records for fettle status whether passes are paused.
func (d *Daemon) notePaused(on bool) {
	if d.alive == nil {
		return
	}
	if err := tune.PauseBalance(d.alive, on); err != nil {
		d.log.say(LevelWarning, "%v", err)
	}
}

// undoMoves undoes the moves of numa_balance. Those of fettle numa balance stay, as other changes of
// the command line do.
func (d *Daemon) undoMoves(ctx context.Context, m *Machine, reason string) error {
	e := *m.Engine
	e.Reason = byDaemon + reason
	_, err := busy(ctx, func() (*tune.Undone, error) {
		s, err := e.State()
		if err != nil {
			return nil, err
		}
		var ids []int
		for _, t := range balance.Live(s) {
			if t.Reason == byBalance {
				ids = append(ids, t.ID)
			}
		}
		if len(ids) == 0 {
			return nil, nil
		}
		return e.Undo(ctx, ids...)
	})
	if errors.Is(err, tune.ErrNothing) || errors.Is(err, tune.ErrTakenBack) {
		return nil // by fettle undo meanwhile
	}
	return err
}
