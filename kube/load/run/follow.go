package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Key identifies an object by name.
type Key struct{ Kind, Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// Pod is the known state of a pod.
type Pod struct {
	Phase  string
	Labels map[string]string
	// Scheduled and Ready are when fettle first saw that state; zero before.
	Scheduled, Ready time.Time
	Why              string // why the pod is not scheduled
}

// FollowOptions of a follower.
type FollowOptions struct {
	// Labels keeps the labels of pods, which Phase needs.
	Labels bool
	// On receives the first occurrence of each pod state.
	On func(Seen)
}

// Seen is the first observation of a pod as scheduled or ready.
type Seen struct {
	Key
	What string // "scheduled" or "ready"
	At   time.Time
	// Owned reports whether a controller has created the pod. For such a pod, Took is the time
	// since its creation, by the API's timestamps of whole seconds; negative if unknown.
	Owned bool
	Took  time.Duration
}

// Follower watches a run's objects: the state of pods, and the readiness of other objects.
type Follower struct {
	server *cluster.Server
	run    string
	opts   FollowOptions

	mu      sync.Mutex
	ready   map[Key]int64 // last ready generation plus one
	need    map[Key]int64 // required generation plus one
	pods    map[Key]*Pod
	waiters map[*waiter]bool
	changed chan struct{} // closed and replaced when a pod changes
	lost    error         // why the last watch ended
	work    sync.WaitGroup
}

type waiter struct {
	left map[Key]bool
	done chan struct{}
}

// New returns a follower for the objects with a run's label.
func New(server *cluster.Server, run string, o FollowOptions) *Follower {
	return &Follower{server: server, run: run, opts: o, ready: map[Key]int64{}, need: map[Key]int64{}, pods: map[Key]*Pod{}, waiters: map[*waiter]bool{}, changed: make(chan struct{})}
}

// Start lists the objects of the given kinds and then watches them until ctx ends. Wait waits
// for the watches to end.
func (f *Follower) Start(ctx context.Context, kinds []plan.Kind) error {
	for _, k := range kinds {
		version, err := f.list(ctx, k)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		f.work.Go(func() { f.watch(ctx, k, version) })
	}
	return nil
}

// Wait returns when all watches have ended.
func (f *Follower) Wait() { f.work.Wait() }

// list records the state of the run's objects of a kind, and returns the version of the list.
func (f *Follower) list(ctx context.Context, k plan.Kind) (version string, err error) {
	return cluster.Pages(ctx, f.server.Get, k.Path("")+"?"+ofRun(f.run), pageSize, func(o *object) error {
		f.see(k.Kind, o, false)
		return nil
	})
}

// watch watches one kind, and restarts when the server ends the watch.
func (f *Follower) watch(ctx context.Context, k plan.Kind, version string) {
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		last, err := f.stream(ctx, k, version)
		version = last
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		f.lost = err
		f.mu.Unlock()
		if cluster.IsStatus(err, http.StatusGone) { // version too old: list again
			if now, err := f.list(ctx, k); err == nil {
				version = now
			}
		}
		if time.Since(began) > 10*time.Second {
			pause = 100 * time.Millisecond
		}
		_ = host.Sleep(ctx, pause) // the loop ends with ctx
		pause = min(2*pause, 5*time.Second)
	}
}

// stream reads one watch to its end, and returns the last version seen.
func (f *Follower) stream(ctx context.Context, k plan.Kind, version string) (string, error) {
	path := k.Path("") + "?" + ofRun(f.run) + "&watch=1&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion=" + url.QueryEscape(version)
	body, err := f.server.Stream(ctx, path)
	if err != nil {
		return version, err
	}
	defer body.Close()
	for dec := json.NewDecoder(body); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := dec.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return version, err
		}
		if event.Type == "ERROR" {
			a := cluster.Answer{Body: event.Object}
			var status struct{ Code int }
			_ = json.Unmarshal(event.Object, &status)
			a.Status = status.Code
			return version, a.Err()
		}
		var o object
		if err := json.Unmarshal(event.Object, &o); err != nil {
			return version, err
		}
		version = o.Metadata.ResourceVersion
		if event.Type != "BOOKMARK" {
			f.see(k.Kind, &o, event.Type == "DELETED")
		}
	}
}

// see records an object's state.
func (f *Follower) see(kind string, o *object, deleted bool) {
	now := time.Now()
	key := Key{kind, o.Metadata.Namespace, o.Metadata.Name}
	f.mu.Lock()
	var news []string
	if kind == "Pod" {
		news = f.pod(key, o, deleted, now)
		close(f.changed)
		f.changed = make(chan struct{})
	}
	switch ready := readiness[kind]; {
	case deleted:
		delete(f.ready, key)
	case ready != nil && ready(o):
		if f.ready[key] = o.Metadata.Generation + 1; f.ready[key] < f.need[key] {
			break // the status does not reflect the patch yet
		}
		for w := range f.waiters {
			if delete(w.left, key); len(w.left) == 0 {
				close(w.done)
				delete(f.waiters, w)
			}
		}
	}
	f.mu.Unlock()
	for _, what := range news {
		if f.opts.On != nil {
			f.opts.On(Seen{Key: key, What: what, At: now, Owned: o.owned(), Took: o.took(conditions[what])})
		}
	}
}

// conditions maps Seen.What to pod conditions.
var conditions = map[string]string{"scheduled": "PodScheduled", "ready": "Ready"}

// CatchUp lists the run's pods once more, to include changes that the watch has not delivered.
func (f *Follower) CatchUp(ctx context.Context) error {
	_, err := f.list(ctx, plan.Kind{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true})
	return err
}

func (f *Follower) pod(key Key, o *object, deleted bool, now time.Time) (news []string) {
	if deleted {
		delete(f.pods, key)
		return nil
	}
	p := f.pods[key]
	if p == nil {
		p = &Pod{}
		f.pods[key] = p
	}
	p.Phase = o.Status.Phase
	if f.opts.Labels {
		p.Labels = o.Metadata.Labels
	}
	if p.Scheduled.IsZero() && o.Spec.NodeName != "" {
		p.Scheduled, p.Why = now, ""
		news = append(news, "scheduled")
	} else if status, why := o.condition("PodScheduled"); status == "False" {
		p.Why = why
	}
	if status, _ := o.condition("Ready"); p.Ready.IsZero() && status == "True" {
		p.Ready = now
		news = append(news, "ready")
	}
	return news
}

// Expect records a patch: from now on the object is ready only with this generation.
func (f *Follower) Expect(k Key, generation int64) {
	f.mu.Lock()
	f.need[k] = max(f.need[k], generation+1)
	f.mu.Unlock()
}

// Until waits until the objects of kinds that take time are ready. It returns those that are not
// ready after within, or when ctx ends.
func (f *Follower) Until(ctx context.Context, keys []Key, within time.Duration) []Key {
	w := &waiter{left: make(map[Key]bool, len(keys)), done: make(chan struct{})}
	f.mu.Lock()
	for _, k := range keys {
		if f.ready[k] == 0 || f.ready[k] < f.need[k] {
			w.left[k] = true
		}
	}
	if len(w.left) == 0 {
		f.mu.Unlock()
		return nil
	}
	f.waiters[w] = true
	f.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, w)
	var left []Key
	for _, k := range keys { // in their order
		if w.left[k] {
			left = append(left, k)
		}
	}
	return left
}

// Why returns why a pod is not scheduled, or else its phase.
func (f *Follower) Why(k Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[k]
	switch {
	case p == nil && k.Kind != "Pod":
		return ""
	case p == nil && f.lost != nil:
		return "not seen: the watch ended: " + f.lost.Error()
	case p == nil:
		return "not seen"
	case p.Why != "":
		return strings.TrimPrefix(p.Why, ": ")
	}
	return "phase " + p.Phase
}

// Phase waits until the namespaces have at least atLeast pods, and all pods with the labels (at
// least one) are in one of the phases.
func (f *Follower) Phase(ctx context.Context, namespaces map[string]bool, atLeast int, labels map[string]string, within time.Duration, phases ...string) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		f.mu.Lock()
		changed := f.changed
		seen, match, done := 0, 0, 0
		for k, p := range f.pods {
			if !namespaces[k.Namespace] {
				continue
			}
			seen++
			if !plan.HasLabels(p.Labels, labels) {
				continue
			}
			match++
			if slices.Contains(phases, p.Phase) {
				done++
			}
		}
		f.mu.Unlock()
		if seen >= atLeast && match > 0 && done == match {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return text.Errorf("after %s only %d of %d pods with the selectors' labels are %s; %d of %d requested pods exist", within, done, match, strings.Join(phases, " or "), seen, atLeast)
		}
	}
}
