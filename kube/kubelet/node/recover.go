package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/kubelet"
)

// Recover finishes or rolls back an earlier process's change; it returns nil if none exists.
// Agents call this at start.
//
// If the earlier process wrote all files, Recover restarts and verifies the kubelet. Otherwise it
// restores the files.
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

// CutOff reports whether an earlier process left an unfinished change.
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
		return nil, refuse("%d interrupted transactions in the journal in %s, but only one is possible; check that the kubelet runs correctly, then remove the directory", len(cut), n.StateDir)
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
	if len(c.tx.Entries) == 0 { // interrupted before the journal had the files: nothing was done
		c.report.Result, c.report.Error = RolledBack, "interrupted before anything was written"
		return &c.report, j.Commit(journal.Commit{ID: c.tx.ID, Time: n.Host.Clock.Now().UTC(), Result: journal.ResultRolledBack})
	}
	written, err := c.written(ctx)
	if err != nil {
		return nil, err
	}
	if !written {
		return c.end(ctx, errors.New("interrupted before all was written"))
	}
	if err = c.restart(ctx); err == nil {
		err = c.verify(ctx, c.intent.Expect)
	}
	return c.end(ctx, err)
}

// restart ensures that the kubelet has read the present files.
func (c *change) restart(ctx context.Context) error {
	if c.compare(ctx, c.intent.Expect) == nil && c.Kubelet.Healthy(ctx) == nil {
		c.started = c.tx.Time // the kubelet started after the change began, before the interruption
		return nil
	}
	c.stopped = c.Host.Clock.Now()
	if err := failed(Stopping, c.Kubelet.Stop(ctx)); err != nil {
		return err
	}
	return c.start(ctx)
}

// written reports whether the drop-in, which is written last, has its new content. A kubelet
// started since then may have rewritten the other files.
func (c *change) written(ctx context.Context) (bool, error) {
	e := c.tx.Entries[len(c.tx.Entries)-1]
	now, err := c.kinds().Read(ctx, e.Setting)
	if err != nil {
		return false, err
	}
	same := func(v setting.Value) bool { return c.kinds().Equal(e.Setting, now, v) }
	return same(e.Want) && !same(e.Orig), nil
}

// interval is the time between two checks of a started kubelet.
const interval = 250 * time.Millisecond

// verify waits until the kubelet is healthy, the API server has a heartbeat from after the start,
// and the kubelet runs with the expected values.
func (c *change) verify(ctx context.Context, expect kubelet.Fields) error {
	c.Node.at("verify:before")
	defer c.Node.at("verify:after")
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, DefaultPatience))
	defer cancel()
	if err := c.until(ctx, Health, c.Kubelet.Healthy); err != nil {
		return err
	}
	if !c.stopped.IsZero() && c.report.DownSeconds == 0 {
		c.report.DownSeconds = c.Host.Clock.Now().Sub(c.stopped).Seconds()
	}
	return c.until(ctx, "", func(ctx context.Context) error {
		// A kubelet answers before its managers start, and ends if one fails: the answer counts
		// only while the kubelet is healthy.
		if err := failed(Health, c.Kubelet.Healthy(ctx)); err != nil {
			return err
		}
		if err := failed(Hearing, c.fresh(ctx, c.started)); err != nil {
			return err
		}
		return failed(Comparing, c.compare(ctx, expect))
	})
}

// until repeats ask until it returns nil, the time is over, or the kubelet has ended.
func (c *change) until(ctx context.Context, s Step, ask func(context.Context) error) error {
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // the end of the wait adds no reason
		}
		if ctx.Err() == nil && !errors.Is(err, ErrEnded) && !errors.Is(err, errFinal) {
			select {
			case <-ctx.Done():
			case <-time.After(interval):
				continue
			}
		}
		var at *stepError
		if errors.As(last, &at) {
			return last
		}
		return failed(s, last)
	}
}

// errFinal is wrapped by errors that no wait resolves.
var errFinal = errors.New("final")

// fresh returns an error unless the API server has a heartbeat from after since: a renewed lease,
// and a Ready status as recent, which kubelets only send once their managers run.
func (c *change) fresh(ctx context.Context, since time.Time) error {
	h, err := c.Kubelet.Heartbeat(ctx)
	switch {
	case err != nil:
		return err
	case !h.Lease.After(since):
		return fmt.Errorf("the kubelet has not renewed the node's lease since its start; the last renewal was %s before the start", since.Sub(h.Lease).Round(time.Millisecond))
	case h.Status.Before(since.Truncate(time.Second)):
		return fmt.Errorf("the node's status is %s old", since.Sub(h.Status).Round(time.Second))
	case !h.Ready:
		return fmt.Errorf("the node is not Ready: %s", h.Why)
	}
	return nil
}

// compare compares /configz with the expected values.
func (c *change) compare(ctx context.Context, expect kubelet.Fields) error {
	now, err := c.Kubelet.Configz(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for _, d := range kubelet.Differences(expect, now) {
		wrong = append(wrong, d.String())
	}
	if len(wrong) > 0 {
		return &final{"the kubelet runs with other values: " + strings.Join(wrong, "; ")}
	}
	return nil
}

type final struct{ text string }

func (f *final) Error() string { return f.text }
func (f *final) Unwrap() error { return errFinal }
