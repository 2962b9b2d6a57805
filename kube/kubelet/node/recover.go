package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// Recover finishes or takes back what a former process has begun; nil where there is
// nothing. An agent calls it when it starts.
//
// Where everything had been written, the kubelet is started with it and held to it as
// usual. Else the files go back.
func (n *Node) Recover(ctx context.Context) (*Report, error) {
	if cut, err := n.CutOff(); err != nil || !cut {
		return nil, err
	}
	j, err := n.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return n.recover(ctx, j)
}

// CutOff says whether a former process has begun what it has not ended.
func (n *Node) CutOff() (bool, error) {
	boot, err := n.Host.BootID()
	if err != nil {
		return false, err
	}
	s, err := journal.Read(n.StateDir, boot)
	if err != nil {
		return false, err
	}
	return len(s.Interrupted()) > 0, nil
}

func (n *Node) recover(ctx context.Context, j *journal.Journal) (*Report, error) {
	cut := j.State.Interrupted()
	if len(cut) == 0 {
		return nil, nil
	}
	if len(cut) > 1 {
		return nil, refuse("%d transactions of the journal in %s were cut off, and only one can have been: see that the kubelet runs as it should, and remove the directory", len(cut), n.StateDir)
	}
	c := &change{Node: n, journal: j, tx: cut[0]}
	if err := json.Unmarshal(c.tx.Selection, &c.intent); err != nil {
		return nil, fmt.Errorf("transaction %d of the journal: %w", c.tx.ID, err)
	}
	c.report = Report{Digest: c.intent.Digest, Recovered: true}
	var err error
	if c.report.Has, err = has(j.State); err != nil {
		return nil, err
	}
	if len(c.tx.Entries) == 0 { // cut off before its files were in the journal: nothing was done
		c.report.Result, c.report.Error = RolledBack, "cut off before anything was written"
		return &c.report, j.Commit(journal.Commit{ID: c.tx.ID, Time: n.Host.Clock.Now().UTC(), Result: journal.ResultRolledBack})
	}
	written, err := c.written(ctx)
	if err != nil {
		return nil, err
	}
	if !written {
		return c.end(ctx, errors.New("cut off before all was written"))
	}
	if err = c.restart(ctx); err == nil {
		err = c.verify(ctx, c.intent.Expect)
	}
	return c.end(ctx, err)
}

// restart makes sure that the kubelet has read the files as they are.
func (c *change) restart(ctx context.Context) error {
	if c.compare(ctx, c.intent.Expect) == nil && c.Kubelet.Healthy(ctx) == nil {
		c.started = c.tx.Time // it was started before the process was cut off, and after it began
		return nil
	}
	c.stopped = c.Host.Clock.Now()
	if err := failed(Stopping, c.Kubelet.Stop(ctx)); err != nil {
		return err
	}
	return c.start(ctx)
}

// written says whether the last of the files is as wanted, which is written when all
// others are. A kubelet that was started since may have written those anew.
func (c *change) written(ctx context.Context) (bool, error) {
	e := c.tx.Entries[len(c.tx.Entries)-1]
	now, err := c.kinds().Read(ctx, e.Setting)
	if err != nil {
		return false, err
	}
	same := func(v setting.Value) bool { return c.kinds().Equal(e.Setting, now, v) }
	return same(e.Want) && !same(e.Orig), nil
}
