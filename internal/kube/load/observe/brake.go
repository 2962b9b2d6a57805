package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/kube/load/api"
)

// ErrBrake says that the cluster suffers, and that the run was ended for it.
var ErrBrake = errors.New("the brake")

// When the brake acts.
const (
	brakeEvery = 5 * time.Second
	// throttledShare of the answers of a look are 429, of throttledLeast at least.
	throttledShare = 0.2
	throttledLeast = 50
	// etcdLimitS is the 99th percentile of the API server's calls to etcd, over two looks.
	etcdLimitS = 1.0
	etcdLeast  = 100
	// quotaShare of etcd's quota is full.
	quotaShare = 0.8
	// nodesShare of the nodes that were Ready are not any more; one at least.
	nodesShare = 0.01
)

// Brake watches a cluster during a run.
type Brake struct {
	Server *api.Server
	// QuotaBytes is etcd's quota; its own default is 2 GiB (--quota-backend-bytes).
	QuotaBytes int64
	// Throttled and Answered count what the run itself was told.
	Throttled, Answered atomic.Int64

	mu   sync.Mutex
	trip error
	// Blind says what could not be looked at.
	blind string
}

// Check is the error that ends the run; nil while all is well.
func (b *Brake) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trip
}

// Blind is what could not be looked at, and why; "" where all could.
func (b *Brake) Blind() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blind
}

func (b *Brake) act(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trip == nil {
		b.trip = fmt.Errorf("%w: %s", ErrBrake, fmt.Sprintf(format, args...))
	}
}

func (b *Brake) cannot(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blind == "" {
		b.blind = what + ": " + err.Error()
	}
}

// Watch looks until ctx ends. before is the sample of the beginning; nil where the metrics
// cannot be read.
func (b *Brake) Watch(ctx context.Context, before *Sample) {
	tick := time.NewTicker(brakeEvery)
	defer tick.Stop()
	look := looking{last: before}
	look.ready, look.err = b.ready(ctx)
	if look.err != nil {
		b.cannot("the nodes", look.err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.look(ctx, &look)
	}
}

// looking is what a look knows of those before it.
type looking struct {
	last                *Sample
	ready               map[string]bool
	err                 error
	throttled, answered int64
	slow                int // looks in which etcd was slow
}

func (b *Brake) look(ctx context.Context, l *looking) {
	throttled, answered := b.Throttled.Load(), b.Answered.Load()
	if t, all := throttled-l.throttled, throttled-l.throttled+answered-l.answered; t >= throttledLeast && float64(t) > throttledShare*float64(all) {
		b.act("the API server turned away %d of %d requests in %s (429)", t, all, brakeEvery)
	}
	l.throttled, l.answered = throttled, answered
	if l.last != nil {
		b.lookAtMetrics(ctx, l)
	}
	if l.err == nil {
		b.lookAtNodes(ctx, l)
	}
}

func (b *Brake) lookAtMetrics(ctx context.Context, l *looking) {
	now, err := Scrape(ctx, b.Server)
	if err != nil {
		if ctx.Err() == nil {
			b.cannot("the metrics", err)
		}
		return
	}
	p99, n, _ := quantile(minus(now.Etcd, l.last.Etcd), 0.99)
	if l.slow++; n < etcdLeast || p99 <= etcdLimitS {
		l.slow = 0
	}
	if l.slow >= 2 {
		b.act("calls of the API server to etcd take %.2g s at the 99th percentile, more than %g s, for %s", p99, etcdLimitS, 2*brakeEvery)
	}
	if b.QuotaBytes > 0 && now.DatabaseBytes > quotaShare*float64(b.QuotaBytes) {
		b.act("etcd's database has %.0f MiB, more than %.0f %% of its quota of %d MiB (--etcd-quota)", now.DatabaseBytes/(1<<20), 100*quotaShare, b.QuotaBytes>>20)
	}
	l.last = now
}

func (b *Brake) lookAtNodes(ctx context.Context, l *looking) {
	now, err := b.ready(ctx)
	if err != nil {
		return // asked again with the next look
	}
	lost, example := 0, ""
	for name := range l.ready {
		if !now[name] {
			if lost++; example == "" || name < example {
				example = name
			}
		}
	}
	if lost > 0 && float64(lost) >= nodesShare*float64(len(l.ready)) {
		b.act("%d of %d nodes are not Ready any more, %s among them", lost, len(l.ready), example)
	}
}

// ready are the nodes that are Ready.
func (b *Brake) ready(ctx context.Context) (map[string]bool, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := b.Server.Get(ctx, "/api/v1/nodes?resourceVersion=0", &list); err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				all[n.Metadata.Name] = true
			}
		}
	}
	return all, nil
}
