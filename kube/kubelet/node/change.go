package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/kubelet"
)

// stepError is the error of one step of a change.
type stepError struct {
	step Step
	err  error
}

func (e *stepError) Error() string { return string(e.step) + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func failed(s Step, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{s, err}
}

// carryOut makes the kubelet run with the planned settings. pods is the number of the node's pods
// that have not ended; drained reports whether pods were evicted, which some changes require. A
// started change always returns a Report.
func (n *Node) carryOut(ctx context.Context, j *journal.Journal, p *Plan, pods int, drained bool) (*Report, error) {
	if err := n.allow(p, pods, drained); err != nil {
		return nil, err
	}
	c, err := n.begin(ctx, j, p)
	if err != nil {
		return nil, err
	}
	return c.run(ctx)
}

// change is a change in progress.
type change struct {
	*Node
	journal *journal.Journal
	tx      *journal.Tx
	intent  intent
	report  Report
	stopped time.Time // when the kubelet stopped; zero if it did not
	started time.Time // older reports of the kubelet do not count
}

// begin records the files' present and requested content in the journal.
func (n *Node) begin(ctx context.Context, j *journal.Journal, p *Plan) (*change, error) {
	kinds := n.kinds()
	wants := map[string]setting.Value{p.File: setting.Absent}
	if p.Text != "" {
		wants[p.File] = setting.Text(p.Text)
	}
	var entries []journal.Before
	room := int64(0)
	// The drop-in comes last: if it exists, all files are written.
	for _, name := range append(slices.Clone(p.states), p.File) {
		id, err := kinds.Resolve(setting.Setting{Kind: "file", Name: name})
		if err != nil {
			return nil, err
		}
		before, err := kinds.Read(ctx, id)
		if err != nil {
			return nil, refuse("%s cannot be read, so it could not be restored: %w", name, err)
		}
		want, ok := wants[name]
		if !ok {
			want = setting.Absent
		}
		entries = append(entries, journal.Before{
			Setting: id, Before: before, Want: want, Lifetime: setting.Restart,
			Activation: setting.Activation{Program: "kubelet", Restart: true},
		})
		room += journal.Room(before, want)
	}
	c := &change{Node: n, journal: j, intent: intent{p.Want.Digest, p.expect, p.had}}
	c.report = Report{Digest: p.Want.Digest, Has: p.Has, Settings: p.Change.Settings}
	selection, err := json.Marshal(c.intent)
	if err != nil {
		return nil, err
	}
	boot, err := n.Host.BootID()
	if err != nil {
		return nil, err
	}
	c.tx, err = j.Begin(journal.Begin{
		Kind: journal.Apply, Time: n.Host.Clock.Now().UTC(), BootID: boot, PID: os.Getpid(),
		User: n.User, Reason: reason(p.Want), Selection: selection, Room: room,
	})
	if err == nil {
		err = j.Stage(c.tx, entries)
	}
	return c, err
}

// reason returns a change's reason for the journal: the settings and their objects.
func reason(w kubelet.Want) string {
	text := "kubelet settings " + w.Digest
	if len(w.Configs) > 0 {
		text += ": KubeletConfig " + strings.Join(w.Configs, ", ")
	}
	return text
}

// run carries out the change, and rolls it back on failure.
func (c *change) run(ctx context.Context) (*Report, error) {
	err := c.write(ctx)
	if err == nil {
		err = c.start(ctx)
	}
	if err == nil {
		err = c.verify(ctx, c.intent.Expect)
	}
	return c.end(ctx, err)
}

// end commits the change, or rolls it back if failure is not nil. It ignores the end of ctx.
func (c *change) end(ctx context.Context, failure error) (*Report, error) {
	if failure == nil {
		return c.commit()
	}
	ctx = context.WithoutCancel(ctx)
	c.tell(ctx, failure)
	return c.rollBack(ctx)
}

// tell records the failed step and the end of the kubelet's log in the report.
func (c *change) tell(ctx context.Context, failure error) {
	var s *stepError
	if errors.As(failure, &s) {
		c.report.Step = s.step
	}
	c.report.Error, c.report.LastWords = failure.Error(), c.Kubelet.LastWords(ctx)
}

// write stops the kubelet and writes its files. A running kubelet would overwrite its managers'
// files.
func (c *change) write(ctx context.Context) error {
	c.Node.at("stop:before")
	c.stopped = c.Host.Clock.Now()
	if err := failed(Stopping, c.Kubelet.Stop(ctx)); err != nil {
		return err
	}
	c.Node.at("stop:after")
	for _, e := range c.tx.Entries {
		if err := c.put(ctx, e, e.Want); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// put writes the content v of one file.
func (c *change) put(ctx context.Context, e *journal.Entry, v setting.Value) error {
	c.Node.at("write:" + e.Setting.Name + ":before")
	if err := c.kinds().Write(ctx, e.Setting, v); err != nil {
		return failed(Writing, err)
	}
	c.Node.at("write:" + e.Setting.Name + ":after")
	return nil
}

// start starts the kubelet with the new files.
func (c *change) start(ctx context.Context) error {
	c.Node.at("start:before")
	c.started = c.Host.Clock.Now()
	err := failed(Starting, c.Kubelet.Start(ctx))
	c.Node.at("start:after")
	return err
}

// commit keeps the change. Its transaction now also undoes earlier transactions' changes of the
// same files.
func (c *change) commit() (*Report, error) {
	c.report.Result, c.report.Has = Done, c.intent.Digest
	m := journal.Commit{ID: c.tx.ID, Time: c.Host.Clock.Now().UTC(), Result: journal.ResultDone}
	for _, e := range c.tx.Entries {
		after, err := c.kinds().Read(context.Background(), e.Setting)
		if err != nil {
			return nil, fmt.Errorf("cannot read back the written configuration: %w", err)
		}
		m.Outcomes = append(m.Outcomes, journal.Outcome{N: e.N, After: after})
	}
	for _, chain := range c.journal.State.Chains() {
		for _, e := range chain {
			if e.Tx != c.tx {
				m.Undone = append(m.Undone, journal.Undone{Ref: e.Ref(), State: journal.Relinked})
			}
		}
	}
	slices.SortFunc(m.Undone, func(a, b journal.Undone) int { return b.Tx - a.Tx }) // latest first
	if err := c.journal.Commit(m); err != nil {
		return nil, err
	}
	return &c.report, nil
}

// restore restores the files. A guard timer or a reboot may start the kubelet in between, and it
// must find files with which it starts. The drop-in therefore changes only while no state files of
// other settings exist.
func (c *change) restore(ctx context.Context) error {
	last := len(c.tx.Entries) - 1
	for _, e := range c.tx.Entries[:last] {
		if err := c.put(ctx, e, setting.Absent); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(c.tx.Entries) {
		if err := c.put(ctx, e, e.Orig); err != nil {
			return err
		}
	}
	return nil
}

// rollBack restores the kubelet's former files and starts the kubelet with them.
func (c *change) rollBack(ctx context.Context) (*Report, error) {
	c.Node.at("stop-back:before")
	err := c.Kubelet.Stop(ctx)
	c.Node.at("stop-back:after")
	if err == nil {
		err = c.restore(ctx)
	}
	if err == nil {
		err = c.start(ctx)
	} else {
		_ = c.Kubelet.Start(ctx) // any running kubelet is better than none
	}
	if err == nil {
		err = c.verify(ctx, c.intent.Had)
	}
	if err != nil {
		// The transaction stays open, so the next start retries.
		c.report.Result = Incomplete
		c.report.Error += fmt.Sprintf("; and restoring failed: %v", err)
		return &c.report, nil
	}
	c.report.Result = RolledBack
	return &c.report, c.journal.Commit(journal.Commit{ID: c.tx.ID, Time: c.Host.Clock.Now().UTC(), Result: journal.ResultRolledBack})
}
