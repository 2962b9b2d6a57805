package etcd

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"fettle.dev/fettle/internal/prometheus"
)

// Look is what one member says at a moment.
type Look struct {
	URL string
	// Silent is why it cannot be asked; nil if it can.
	Silent error
	Page   prometheus.Metrics
	// Healthy and Reason are what it says of its health; Unwell is why it says nothing.
	Healthy bool
	Reason  string
	Unwell  error
	// Peers are the members of the cluster; none where it does not say, as at an address
	// for metrics only.
	Peers []Peer
	// ID is its own, 0 where it is not known.
	ID uint64
	// Version is what it reports; "" where it does not.
	Version string
}

// Looks asks all of them at once.
func Looks(ctx context.Context, members []*Member) []Look {
	out := make([]Look, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { out[i] = m.look(ctx) })
	}
	all.Wait()
	return out
}

func (m *Member) look(ctx context.Context) Look {
	l := Look{URL: m.URL}
	text, err := m.Get(ctx, "/metrics", m.patience)
	if err == nil {
		if l.Page = prometheus.ParseMetrics(string(text)); len(l.Page.Histograms) == 0 {
			err = errors.New(m.URL + "/metrics has no histograms: is it etcd?")
		}
	}
	if l.Silent = err; err != nil {
		return l
	}
	l.Healthy, l.Reason, l.Unwell = m.Health(ctx)
	// An address of metrics need not serve the API too.
	if peers, err := m.Peers(ctx); err == nil {
		l.Peers = peers
	}
	if s, err := m.Status(ctx); err == nil {
		l.ID, l.Version = s.Member, s.Version
	}
	l.Version = cmp.Or(l.Version, l.Page.Labels["etcd_server_version"]["server_version"])
	return l
}
