package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/kube/kubelet"
)

// interval is the time between two looks at a kubelet that has been started.
const interval = 250 * time.Millisecond

// verify waits until the kubelet is healthy, the API server has heard of the node since
// it was started, and it runs with the values that are expected.
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
		// A kubelet answers before its managers have started, and ends when one of them
		// does not: what it says counts only while it is still healthy.
		if err := failed(Health, c.Kubelet.Healthy(ctx)); err != nil {
			return err
		}
		if err := failed(Hearing, c.fresh(ctx, c.started)); err != nil {
			return err
		}
		return failed(Comparing, c.compare(ctx, expect))
	})
}

// until asks again and again until there is no error, the time is over, or the kubelet
// has ended.
func (c *change) until(ctx context.Context, s Step, ask func(context.Context) error) error {
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // what ended the waiting has no reason of its own
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

// errFinal is wrapped by what will not become better by waiting.
var errFinal = errors.New("final")

// fresh says whether the API server has heard of the node since a time: its lease is
// renewed, and it is Ready by a status that is as young, which a kubelet only sends once
// its managers run.
func (c *change) fresh(ctx context.Context, since time.Time) error {
	h, err := c.Kubelet.Heartbeat(ctx)
	switch {
	case err != nil:
		return err
	case !h.Lease.After(since):
		return fmt.Errorf("the lease of the node was last renewed %s before", since.Sub(h.Lease).Round(time.Millisecond))
	case h.Status.Before(since.Truncate(time.Second)):
		return fmt.Errorf("the node's status is %s old", since.Sub(h.Status).Round(time.Second))
	case !h.Ready:
		return fmt.Errorf("the node is not Ready: %s", h.Why)
	}
	return nil
}

// compare holds /configz against what is expected.
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
