package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/resident"
	"fettle.dev/fettle/internal/setting"
)

// Machine is the machine that the daemon tunes. It is opened for each operation, so configuration,
// keep.d and the administrator's files are up to date. Only the setting kinds are kept, because
// they hold descriptors.
type Machine struct {
	Engine *tune.Engine
	Loader profile.Loader
	Kinds  setting.Kinds
}

// Config is the configuration of a daemon.
type Config struct {
	// Open opens the machine; the daemon owns the result.
	Open func(context.Context) (*Machine, error)
	// TuneD makes the daemon replace TuneD's. Without a selection of its own it uses TuneD's
	// preset or recommended profile, and it keeps TuneD's state files up to date. Serve should own
	// TuneD's bus name.
	TuneD bool
	// Serve, if not nil, starts to serve clients with a Control and returns; the service ends with
	// ctx. Serve is called once the selection is in force, when TuneD claims its name. Its error
	// is only logged.
	Serve func(context.Context, Control, *profile.MainConfig) error
	// Schedule is the path of the schedule; empty for none.
	Schedule string
	// Enforce is the interval at which values changed by other programs are restored; 0: never.
	Enforce time.Duration
	// Log receives one line per message. If it is the journal's stream, each line begins with the
	// kernel's level (sd-daemon(3)).
	Log io.Writer
}

// Daemon keeps the selection of one machine in force. It implements Control.
type Daemon struct {
	Config
	log *messages

	mu    sync.Mutex // one operation at a time; guards the fields below
	kinds setting.Kinds
	// held are the values that an open descriptor of this process keeps. They end with the
	// process, so they are not in the journal: after a crash there is nothing to undo.
	held  map[setting.Setting]setting.Value
	tasks map[string]following // by unit
	// alive is open while this process is the machine's daemon; without it no setting follows the
	// load.
	alive  *os.File
	loops  map[string]*looping // load-dependent units, by unit and device
	engine *tune.Engine        // the engine that loops write with
	seen   int64               // the journal generation of the fields below
	// selection is in force, or only selected while parked is true.
	selection *tune.Selection
	parked    bool
	overlay   overlay
	fought    map[setting.Setting]int // number of restores by enforce
	retry     []Uevent                // devices that appeared during a trial
	late      bool                    // startup is still pending

	subscribers subscribers
	writers     writers
	wake        func(next time.Time)      // arms the clock
	pulse       func(after time.Duration) // schedules the next load sample; 0: none
	next        func(after time.Duration) // schedules the next pass of numa_balance; 0: none
	balancer    balancer
	deadline    *time.Timer // of the current trial
	// experiment returns the experiment or quiet state in progress, or nil.
	experiment func() *tune.Leaseholder
}

// New returns a daemon; Run starts it.
func New(c Config) *Daemon {
	if c.Log == nil {
		c.Log = os.Stderr
	}
	return &Daemon{
		Config: c, log: newMessages(c.Log), held: map[setting.Setting]setting.Value{}, tasks: map[string]following{},
		loops: map[string]*looping{}, fought: map[setting.Setting]int{}, writers: newWriters(), wake: func(time.Time) {}, pulse: func(time.Duration) {}, next: func(time.Duration) {}, experiment: func() *tune.Leaseholder { return nil }, seen: -1,
	}
}

// Run undoes interrupted transactions and applies the selection. It keeps the selection in force
// until ctx ends or SIGTERM or SIGINT arrives. Values stay when it ends, except those held by an
// open descriptor.
func Run(ctx context.Context, c Config) error {
	d := New(c)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	m, err := d.open(ctx)
	if err != nil {
		return err
	}
	// A second daemon on the same state directory would fight the first; begin reports other
	// errors.
	if d.alive, err = tune.Alive(m.Engine.StateDir); errors.Is(err, tune.ErrAlive) {
		return err
	}
	ev, err := watch(ctx, d, m)
	if err != nil {
		return err
	}
	defer ev.close()
	d.wake, d.pulse, d.next = ev.arm, ev.pulse, ev.next
	d.experiment = func() *tune.Leaseholder { return tune.Holder(m.Engine.StateDir) }
	ev.hangup = hangup
	w, err := m.Engine.Host.WatchWrites()
	if err == nil && w.Limited != nil {
		d.log.say(LevelInfo, "short-lived programs that write values may not be identified: %v", w.Limited)
	}
	d.beginWatch(m, w, err)
	if q := d.writers.queue; q != nil {
		ev.writes = q.ready
	}

	d.mu.Lock()
	err = d.begin(ctx, m)
	d.restartBalance()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.Serve != nil {
		if err := d.Serve(ctx, d, m.Engine.Main); err != nil {
			d.log.say(LevelWarning, "cannot serve TuneD's interfaces: %v", err)
		}
	}
	if err := notify("READY=1\nSTATUS=" + d.summary()); err != nil {
		d.log.say(LevelWarning, "%v", err)
	}
	rest()
	d.loop(ctx, ev)
	_ = notify("STOPPING=1")
	d.end()
	return nil
}

// underWay is the message during an experiment.
func underWay(x *tune.Leaseholder) string {
	return x.Doing() + "; nothing is written until it ends"
}

// loop sleeps until an event arrives, and handles it. Events during an experiment wait until it
// has ended, because only the experiment may write meanwhile.
func (d *Daemon) loop(ctx context.Context, ev *events) {
	var later postponed
	if x := d.experiment(); x != nil {
		later.add("journal", func() error { return d.follow(ctx) })
		later.wait()
		d.log.say(LevelInfo, "%s", underWay(x))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ev.hangup:
			later.add("hangup", func() error {
				d.log.say(LevelInfo, "reloading")
				if !d.Reload(ctx) {
					return errors.New("reload failed")
				}
				return nil
			})
		case <-ev.journal:
			later.add("journal", func() error { return d.follow(ctx) })
		case <-ev.config:
			later.add("config", func() error { return d.keepSchedule(ctx) })
		case c := <-ev.clock:
			later.add(fmt.Sprint("clock", c), func() error { return d.clock(ctx, c) })
		case batch := <-ev.devices:
			later.add(fmt.Sprint("devices", batch), func() error { return d.plugged(ctx, batch) })
		case <-ev.writes:
			d.wrote(ctx)
		case <-ev.enforce:
			later.add("enforce", func() error { return d.enforce(ctx) })
		case <-ev.load:
			later.add("load", func() error {
				if !d.tick(ctx) {
					return errIdle // too little memory used to be worth releasing
				}
				return nil
			})
		case <-ev.balance:
			// Most looks find nothing to move, and end here. During an experiment there are no looks.
			if later.again == nil && !d.mayMove() {
				continue
			}
			later.add("balance", func() error { return d.balance(ctx) })
		case <-later.again:
		}
		if x := d.experiment(); x != nil {
			if later.wait() {
				d.log.say(LevelInfo, "%s", underWay(x))
			}
			continue
		}
		err := later.run()
		if errors.Is(err, errIdle) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			d.log.say(LevelError, "%v", err)
		}
		rest()
	}
}

// rest frees memory before the daemon sleeps, possibly for days.
func rest() {
	debug.SetGCPercent(25)
	resident.Rest()
}

// open opens the machine with the daemon's setting kinds, which hold descriptors.
func (d *Daemon) open(ctx context.Context) (*Machine, error) {
	m, err := d.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	if d.kinds == nil {
		d.kinds = m.Kinds
	}
	m.Kinds, m.Engine.Kinds = d.kinds, d.kinds
	m.Engine.Tell = func(text string) { d.log.say(LevelWarning, "%s", text) }
	return m, nil
}

// begin recovers interrupted transactions, then chooses and applies the selection.
func (d *Daemon) begin(ctx context.Context, m *Machine) error {
	again := d.late
	d.late = false
	if d.alive == nil {
		alive, err := tune.Alive(m.Engine.StateDir)
		if err != nil && m.Engine.Main.DynamicInterval() > 0 {
			d.log.say(LevelWarning, "dynamic tuning unavailable: %v", err)
		}
		d.alive = alive
	}
	if d.experiment() != nil {
		d.late = true // wait for the end of the experiment
		return nil
	}
	ids, err := recoverSoon(ctx, m)
	if errors.Is(err, journal.ErrBusy) {
		// The lock may belong to the transaction that starts this unit and waits for it. follow
		// calls begin when the lock is free.
		if !again {
			d.log.say(LevelInfo, "applying later: %v", err)
		}
		d.late = true
		return nil
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		d.log.say(LevelNotice, "transaction %d was interrupted or not confirmed; undone", id)
	}
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	for _, damage := range s.Damage {
		d.log.say(LevelWarning, "the journal is damaged: %s", damage)
	}
	if err := d.chooseAndApply(ctx, m, s); err != nil {
		// A profile that cannot be loaded must not stop the daemon from starting; it waits for a
		// valid one.
		d.log.say(LevelError, "%v", err)
	}
	return ctx.Err()
}

// end releases held values. Everything else stays as it is.
func (d *Daemon) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release(context.Background())
	d.endWatch()
	if d.alive != nil {
		d.alive.Close()
	}
	if d.deadline != nil {
		d.deadline.Stop()
	}
	d.log.say(LevelInfo, "daemon ended; values stay in force, fettle undo restores the old ones")
}

// recoverSoon undoes interrupted transactions. The close event of the lock arrives shortly before
// the lock is free, so a busy lock is retried a few times.
func recoverSoon(ctx context.Context, m *Machine) (ids []int, err error) {
	for wait := 10 * time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		if ids, err = m.Engine.Recover(ctx); !errors.Is(err, journal.ErrBusy) {
			break
		}
		time.Sleep(wait)
	}
	return ids, err
}

// patience is the maximum time that the daemon waits for another transaction to end.
const patience = 10 * time.Second

// busy calls do, which needs the journal's lock. While another transaction has the lock, it
// retries until patience has passed.
func busy[T any](ctx context.Context, do func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		v, err := do()
		if !errors.Is(err, journal.ErrBusy) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(wait):
		}
	}
}

// summary describes the selection in force in one line.
func (d *Daemon) summary() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.selection == nil:
		return "no profile active"
	case d.parked:
		return "stopped: " + strings.Join(d.selection.Names(), " ")
	}
	return "in force: " + strings.Join(d.selection.Names(), " ")
}

// onTrial reports whether the selection in force is an unconfirmed trial.
func onTrial(t *journal.Tx) bool { return t != nil && t.Try != nil && !t.Confirmed }

// byStop is the reason of the undo that Stop makes.
const byStop = "fettle daemon: stop"

// decided returns the time and transaction of the last decision about the selection in force: a
// selection or its undo. Applying it again at boot is not a decision.
func decided(txs []*journal.Tx) (at time.Time, by *journal.Tx) {
	for _, t := range slices.Backward(txs) {
		if t.Commit == nil || t.RolledBack() {
			continue
		}
		switch t.Kind {
		case journal.Tune:
			if t.Selection != nil {
				return t.Time, t
			}
		case journal.Undo:
			if t.Reason == byStop {
				continue // still selected
			}
			for _, id := range t.Undoes {
				i := slices.IndexFunc(txs, func(o *journal.Tx) bool { return o.ID == id })
				if i >= 0 && txs[i].Selection != nil {
					return t.Commit.Time, t // the undo has restored TuneD's state files
				}
			}
		}
	}
	return time.Time{}, nil
}

func sentence(format string, args ...any) string { return fmt.Sprintf(format, args...) }
