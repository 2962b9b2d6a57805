package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/cluster"
)

// ErrBrake means that the run was ended because the cluster is overloaded.
var ErrBrake = errors.New("the brake has ended the run")

// QuotaShare is the used part of etcd's quota, from 0 to 1, at which the brake ends a run.
const QuotaShare = 0.8

// Conditions under which the brake acts.
const (
	brakeEvery = 5 * time.Second
	// throttledShare is the part of the answers between two looks that are 429; at least
	// throttledLeast of them trigger the brake.
	throttledShare = 0.2
	throttledLeast = 50
	// etcdLimitS is the 99th percentile of the API server's calls to etcd, over two looks.
	etcdLimitS = 1.0
	etcdLeast  = 100
	// fsyncLimitS limits the 99th percentile of writes to etcd's log over two looks: half of the
	// default election timeout (--election-timeout, 1 s).
	fsyncLimitS = 0.5
	// nodesShare is the part of the nodes, at least one, that may lose Ready during the run.
	nodesShare = 0.01
)

// Brake watches a cluster during a run, and ends the run if the cluster is overloaded.
type Brake struct {
	Server *cluster.Server
	// QuotaBytes is etcd's quota if members do not report it; 0 means unknown, below 0 means no
	// quota.
	QuotaBytes int64
	// Members are the etcd members whose own metrics are read.
	Members []*Member
	// Throttled and Answered count the run's own throttled and answered requests.
	Throttled, Answered atomic.Int64

	mu   sync.Mutex
	trip error
	etcd []Etcd // the members' reports on the run so far
	// blind describes what could not be read.
	blind string
}

// Check returns the error that ends the run, or nil.
func (b *Brake) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trip
}

// Blind describes the data that could not be read, with the reason, or returns "".
func (b *Brake) Blind() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blind
}

// Etcd returns the members' reports from the start of Watch until the last look.
func (b *Brake) Etcd() []Etcd {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.etcd
}

func (b *Brake) act(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trip == nil {
		b.trip = fmt.Errorf("%w: %s", ErrBrake, text.Sprintf(format, args...))
	}
}

func (b *Brake) cannot(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blind == "" {
		b.blind = what + ": " + err.Error()
	}
}

// Watch checks the cluster at intervals until ctx ends. before is the first sample; nil if the
// metrics are unreadable.
func (b *Brake) Watch(ctx context.Context, before *Sample) {
	tick := time.NewTicker(brakeEvery)
	defer tick.Stop()
	look := looking{last: before, members: make([]observeSeen, len(b.Members))}
	for i, m := range b.Members {
		p, err := m.look(ctx)
		if err != nil {
			b.cannot("etcd", err)
			continue
		}
		look.members[i] = observeSeen{first: p, last: p}
	}
	look.ready, look.err = b.ready(ctx)
	if look.err != nil {
		b.cannot("the nodes", look.err)
	}
	for {
		select {
		case <-ctx.Done():
			b.lookAtEtcd(context.WithoutCancel(ctx), &look) // of the whole run
			return
		case <-tick.C:
		}
		b.look(ctx, &look)
	}
}

// looking is the state carried from one look to the next.
type looking struct {
	last                *Sample
	ready               map[string]bool
	err                 error
	throttled, answered int64
	slow                int // successive looks in which etcd was slow
	members             []observeSeen
}

// observeSeen is the state of one etcd member; zero if it could not be queried.
type observeSeen struct {
	first, last *page
	slow        int // successive looks in which the member's disk was slow
}

func (b *Brake) look(ctx context.Context, l *looking) {
	throttled, answered := b.Throttled.Load(), b.Answered.Load()
	if t, all := throttled-l.throttled, throttled-l.throttled+answered-l.answered; t >= throttledLeast && float64(t) > throttledShare*float64(all) {
		b.act("the API server rejected %d of %d requests in %s (429)", t, all, brakeEvery)
	}
	l.throttled, l.answered = throttled, answered
	if l.last != nil {
		b.lookAtMetrics(ctx, l)
	}
	b.lookAtEtcd(ctx, l)
	if l.err == nil {
		b.lookAtNodes(ctx, l)
	}
}

func (b *Brake) lookAtEtcd(ctx context.Context, l *looking) {
	var all []Etcd
	for i, m := range b.Members {
		x := &l.members[i]
		if x.first == nil {
			continue
		}
		now, err := m.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.cannot("etcd", err)
			}
			all = append(all, m.etcdBetween(x.first, x.last))
			continue
		}
		since := m.etcdBetween(x.last, now)
		if x.slow++; since.FsyncN < etcdLeast || since.FsyncP99S <= fsyncLimitS {
			x.slow = 0
		}
		switch {
		case x.slow >= 2:
			b.act("etcd (%s): p99 of writing etcd's log to the disk is %s s > %s s, for %s", m.Name, unit.Digits(since.FsyncP99S), unit.Digits(fsyncLimitS), 2*brakeEvery)
		case !now.leader:
			b.act("etcd (%s) has no leader", m.Name)
		case since.LeaderChanges > 0:
			b.act("etcd (%s) has chosen another leader", m.Name)
		case now.quota > 0 && now.bytes > QuotaShare*now.quota:
			b.act("etcd's database (%s) has %.0f MiB, more than %.0f %% of its quota of %.0f MiB", m.Name, now.bytes/(1<<20), 100*QuotaShare, now.quota/(1<<20))
		}
		x.last = now
		all = append(all, m.etcdBetween(x.first, now))
	}
	b.mu.Lock()
	b.etcd = all
	b.mu.Unlock()
}

// quotaKnown reports whether a member reports its quota, or that it has none (-1).
func (l *looking) quotaKnown() bool {
	for _, x := range l.members {
		if x.last != nil && x.last.quota != 0 {
			return true
		}
	}
	return false
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
		b.act("API server calls to etcd: p99 is %s s > %s s, for %s", unit.Digits(p99), unit.Digits(etcdLimitS), 2*brakeEvery)
	}
	if b.QuotaBytes > 0 && !l.quotaKnown() && now.DatabaseBytes > QuotaShare*float64(b.QuotaBytes) {
		b.act("etcd's database has %.0f MiB, more than %.0f %% of its quota of %d MiB (--etcd-quota)", now.DatabaseBytes/(1<<20), 100*QuotaShare, b.QuotaBytes>>20)
	}
	l.last = now
}

func (b *Brake) lookAtNodes(ctx context.Context, l *looking) {
	now, err := b.ready(ctx)
	if err != nil {
		return // the next look tries again
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
		b.act("%d of %d nodes are no longer Ready, such as %s", lost, len(l.ready), example)
	}
}

// ready returns the nodes that are Ready.
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
