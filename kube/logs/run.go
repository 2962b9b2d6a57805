package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"

	requests "fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/logs/shares"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/job"
)

const (
	// poll is the time between two lists of the pods.
	poll = 500 * time.Millisecond
	// patience is the time without a message after which a pod counts as lost.
	patience = 30 * time.Second
)

// run is the state of an analysis.
type run struct {
	*Analysis
	request shares.Request

	saying  sync.Mutex // held for Say
	looking sync.Mutex // held while a pod makes the plan
	plan    *shares.Plan
	shares  []shares.Share

	mu      sync.Mutex
	pods    []core.Pod
	failed  error // the pods cannot be listed, or one cannot start
	waiting string
	active  time.Time         // of the last message of any pod
	done    []int64           // bytes read, by index
	ended   []map[string]bool // pods that ended without a result, by index
	why     []error           // why the last of them did
	final   []bool            // no other pod follows, by index
	reader  []string          // the pod to which the caller is or was attached, by index
	changed chan struct{}     // closed at the next change
}

// Run reads the logs by the pods of the Job, which exists, and returns the joined result. If a share
// cannot be read, the error names it, and the result is nil.
func (a *Analysis) Run(ctx context.Context, q shares.Request) (*requests.Result, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &run{Analysis: a, request: q, active: time.Now(), done: make([]int64, a.Count), why: make([]error, a.Count), final: make([]bool, a.Count), reader: make([]string, a.Count), changed: make(chan struct{})}
	for range a.Count {
		r.ended = append(r.ended, map[string]bool{})
	}
	results := make([]*requests.Result, a.Count)
	var readers, watcher sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	watcher.Go(func() { r.watch(watching) })
	for i := range a.Count {
		readers.Go(func() {
			var err error
			if results[i], err = r.index(ctx, i); err != nil {
				end(err) // the first one counts
			}
		})
	}
	readers.Wait()
	stop()
	watcher.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return r.plan.Sum(results)
}

// watch lists the pods until ctx ends.
func (r *run) watch(ctx context.Context) {
	for {
		pods, err := r.Pods(ctx)
		var ended []string
		r.mu.Lock()
		if err == nil {
			pods = slices.DeleteFunc(pods, func(p core.Pod) bool { return job.Index(&p) >= r.Count }) // not the Job's
			r.pods, r.failed, r.waiting = pods, nil, "; see "+r.Describe()
			for i := range pods {
				if said := r.look(&pods[i]); said != "" {
					ended = append(ended, said)
				}
			}
		} else if time.Since(r.active) > r.StartWithin { // the streams may still work
			r.failed = err
		}
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		for _, said := range ended {
			r.say("%s", said)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(poll):
		}
	}
}

// look records the state of a pod. It returns a message about a pod that ended before the caller
// attached to it; read has the others.
func (r *run) look(p *core.Pod) string {
	i := job.Index(p)
	if why := job.Unscheduled(p); why != "" {
		r.waiting = "; " + why
	}
	if err := job.Stuck(p); err != nil {
		r.failed = err
	}
	over := p.DeletionTimestamp != nil || p.Status.Phase == core.PodFailed || p.Status.Phase == core.PodSucceeded
	if !over || r.ended[i][p.Name] {
		return ""
	}
	r.ended[i][p.Name] = true
	r.why[i], r.final[i] = fmt.Errorf("pod %s: %s", p.Name, job.Ended(p)), p.Status.Phase == core.PodSucceeded
	if r.reader[i] == p.Name || r.final[i] {
		return ""
	}
	return replaced(r.why[i], len(r.ended[i]))
}

// replaced returns the message about the n-th lost pod of an index.
func replaced(why error, n int) string {
	if n > retries {
		return why.Error()
	}
	return fmt.Sprintf("%v; Kubernetes starts another one for its share (retry %d of %d)", why, n, retries)
}

// index reads the share of an index, by as many pods as it takes.
func (r *run) index(ctx context.Context, i int) (*requests.Result, error) {
	for {
		pod, err := r.await(ctx, i)
		if err != nil {
			return nil, err
		}
		result, err := r.read(ctx, i, pod)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, new(*shares.RefusedError)):
			return nil, err
		}
		err = fmt.Errorf("pod %s: %w", pod.Name, err)
		if strings.Contains(err.Error(), job.OutOfMemory) { // so would be the next one
			return nil, r.lost(i, err)
		}
		r.mu.Lock()
		r.ended[i][pod.Name], r.why[i], r.done[i] = true, err, 0
		n := len(r.ended[i])
		r.mu.Unlock()
		if n <= retries {
			r.say("%s", replaced(err, n))
		}
	}
}

// say reports an event.
func (r *run) say(format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.Say(format, args...)
}

// await waits for a running pod of an index.
func (r *run) await(ctx context.Context, i int) (job.Pod, error) {
	for {
		r.mu.Lock()
		changed, failed, waiting, silent := r.changed, r.failed, r.waiting, time.Since(r.active)
		n, why, final := len(r.ended[i]), r.why[i], r.final[i]
		var pod *core.Pod
		running := 0
		for k := range r.pods {
			if p := &r.pods[k]; job.Running(p) {
				if running++; job.Index(p) == i && !r.ended[i][p.Name] {
					pod = p
				}
			}
		}
		r.mu.Unlock()
		switch {
		case pod != nil:
			r.mu.Lock()
			r.reader[i] = pod.Name
			r.mu.Unlock()
			return job.Pod{Name: pod.Name, Node: pod.Spec.NodeName}, nil
		case failed != nil:
			return job.Pod{}, failed
		case n > retries || final:
			return job.Pod{}, r.lost(i, why)
		case silent > r.StartWithin:
			return job.Pod{}, fmt.Errorf("after %v without a report %d of %s run%s", r.StartWithin, running, text.Count(r.Count, "pod"), waiting)
		}
		select {
		case <-ctx.Done():
			return job.Pod{}, context.Cause(ctx)
		case <-changed:
		}
	}
}

// lost returns the error for a share that could not be read.
func (r *run) lost(i int, why error) error {
	share := fmt.Sprintf("share %d of %d", i+1, r.Count)
	r.looking.Lock()
	defer r.looking.Unlock()
	if r.plan != nil {
		share += " (" + r.plan.String(r.shares[i]) + ")"
	}
	return ui.Exit(ui.Failed, fmt.Errorf("%s could not be read, so the answer would not be exact: %w", share, why))
}

// read reads the share of an index by a pod.
func (r *run) read(ctx context.Context, i int, pod job.Pod) (*requests.Result, error) {
	session, err := r.Attach(ctx, pod, shares.MaxLine)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	defer context.AfterFunc(ctx, session.Kill)()
	silent := time.AfterFunc(patience, session.Kill)
	defer silent.Stop()
	c := &shares.Caller{Session: session, Alive: func(done int64) {
		silent.Reset(patience)
		r.alive(i, done)
	}}
	if err := c.Greet(); err != nil {
		return nil, err
	}
	share, err := r.share(c, i, silent)
	if err != nil {
		return nil, err
	}
	var result *requests.Result
	if !share.Empty() {
		if result, err = c.Read(shares.Task{Request: r.request, Plan: *r.plan, Share: share}); err != nil {
			return nil, err
		}
	}
	_ = c.Taken() // if it does not arrive, the pod is replaced, and the Job is deleted first
	return result, nil
}

// share returns the share of an index. The first pod that asks makes the plan.
func (r *run) share(c *shares.Caller, i int, silent *time.Timer) (shares.Share, error) {
	silent.Stop() // while another pod makes the plan, no message is read
	r.looking.Lock()
	defer r.looking.Unlock()
	silent.Reset(patience)
	if r.plan == nil {
		plan, err := c.Look(r.request)
		if err != nil {
			return nil, err
		}
		for _, s := range plan.Said {
			r.say("%s", s)
		}
		r.mu.Lock()
		r.plan, r.shares = plan, plan.Divide(r.Count)
		r.mu.Unlock()
	}
	return r.shares[i], nil
}

// alive records a message of a pod.
func (r *run) alive(i int, done int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active, r.done[i] = time.Now(), max(done, r.done[i])
	if r.plan == nil || r.Progress == nil {
		return
	}
	all := int64(0)
	for _, n := range r.done {
		all += n
	}
	r.Progress(min(all, r.plan.Size()), r.plan.Size())
}
