package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/text"
)

// Limits are the thresholds for a defragmentation: a database's free space must exceed both.
type Limits struct {
	Share float64 `json:"free_share"` // of the database, from 0 to 1
	Bytes uint64  `json:"free_bytes"`
}

// Default are the limits at which OpenShift's operator defragments automatically, 45 % and 100 MB
// (openshift-docs, 4.9, "Defragmenting etcd data").
var Default = Limits{Share: 0.45, Bytes: 100e6}

// worth reports whether a database exceeds the limits; false if the size in use is unknown.
func (l Limits) worth(size, inUse uint64) bool {
	return inUse > 0 && size > inUse && size-inUse > l.Bytes && float64(size-inUse) > l.Share*float64(size)
}

// Refused lists the reasons not to defragment. A member pauses during a defragmentation, which can
// cost the cluster its quorum if another member is unhealthy.
type Refused struct{ Why []string }

func (r *Refused) Error() string { return strings.Join(r.Why, "\n") }

// Step is one member in a plan.
type Step struct {
	Endpoint string `json:"endpoint"`
	MemberID string `json:"member_id"` // hexadecimal, like etcdctl
	Leader   bool   `json:"leader"`
	Version  string `json:"version"`
	// DatabaseBytes is the file's size, InUseBytes its used part.
	DatabaseBytes uint64 `json:"database_bytes"`
	InUseBytes    uint64 `json:"in_use_bytes"`
	// Worth reports whether the member exceeds the limits now; after a compaction more members may.
	Worth bool `json:"above_limits"`
}

// Plan lists the steps of a defragmentation.
type Plan struct {
	Limits Limits `json:"limits"`
	// CompactTo is the revision before which history is removed first; 0 means no compaction.
	CompactTo uint64 `json:"compact_to_revision,omitempty"`
	// Steps are in processing order, the leader last.
	Steps []Step `json:"members"`
	// NoSpace reports whether etcd rejects writes because its quota is full.
	NoSpace bool `json:"no_space_alarm"`
}

// state is a snapshot of a cluster whose members are all healthy.
type state struct {
	status  map[string]*Status // status by URL
	noSpace bool
}

// Make reads the cluster's state and returns a plan. The error is a *Refused if the cluster must
// not be changed.
func Make(ctx context.Context, members []*Member, l Limits, compact bool) (*Plan, error) {
	if len(members) == 0 {
		return nil, errNobody
	}
	s, err := observe(ctx, members)
	if err != nil {
		return nil, err
	}
	p := &Plan{Limits: l, NoSpace: s.noSpace}
	for _, m := range members {
		x := s.status[m.URL]
		p.Steps = append(p.Steps, Step{
			Endpoint: m.URL, MemberID: fmt.Sprintf("%x", x.Member), Leader: x.Leader == x.Member, Version: x.Version,
			DatabaseBytes: x.DatabaseBytes, InUseBytes: x.InUseBytes, Worth: l.worth(x.DatabaseBytes, x.InUseBytes),
		})
		if compact {
			p.CompactTo = max(p.CompactTo, x.Revision)
		}
	}
	// Followers keep the order in which the user named them.
	slices.SortStableFunc(p.Steps, func(a, b Step) int {
		switch {
		case a.Leader == b.Leader:
			return 0
		case a.Leader:
			return 1
		}
		return -1
	})
	return p, nil
}

// observe queries all members. It returns an error if the cluster is unhealthy, or has members that
// the user did not name.
func observe(ctx context.Context, members []*Member) (*state, error) {
	s := &state{status: map[string]*Status{}}
	var why []string
	refuse := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	for _, m := range members {
		x, err := m.Status(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			refuse("%v", err)
			continue
		}
		s.status[m.URL] = x
	}
	if len(why) > 0 {
		return nil, &Refused{why}
	}
	alarms, err := members[0].Alarms(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range alarms {
		if a != "NOSPACE" {
			refuse("the cluster has the alarm %s; fix its cause first (etcdctl alarm list)", a)
		}
		s.noSpace = true
	}
	for _, m := range members {
		// With an active alarm, no member is healthy.
		well, reason, err := m.Health(ctx)
		switch {
		case err != nil:
			refuse("%v", err)
		case !well && !s.noSpace:
			refuse("%s reports that it is unhealthy%s", m.URL, colon(reason))
		}
	}
	why = append(why, s.disagree(members)...)
	if len(why) == 0 {
		missing, err := s.missing(ctx, members)
		if err != nil {
			return nil, err
		}
		why = missing
	}
	if len(why) > 0 {
		return nil, &Refused{why}
	}
	return s, nil
}

func colon(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// disagree returns how the members' views of the cluster differ.
func (s *state) disagree(members []*Member) (why []string) {
	first := s.status[members[0].URL]
	ids := map[uint64]string{}
	for _, m := range members {
		x := s.status[m.URL]
		switch {
		case x.Cluster != first.Cluster:
			why = append(why, fmt.Sprintf("%s and %s belong to different clusters", members[0].URL, m.URL))
		case ids[x.Member] != "":
			why = append(why, fmt.Sprintf("%s and %s are the same member; name each once", ids[x.Member], m.URL))
		case x.Leader == 0:
			why = append(why, m.URL+" has no leader")
		case x.Leader != first.Leader:
			why = append(why, fmt.Sprintf("%s and %s follow different leaders; an election is in progress", members[0].URL, m.URL))
		}
		for _, e := range x.Errors {
			if !strings.Contains(e, "NOSPACE") {
				why = append(why, fmt.Sprintf("%s says: %s", m.URL, e))
			}
		}
		ids[x.Member] = m.URL
	}
	return why
}

// missing returns the cluster's members that the user did not name, and whose health is therefore
// unknown.
func (s *state) missing(ctx context.Context, members []*Member) (why []string, err error) {
	peers, err := members[0].Peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if !slices.ContainsFunc(members, func(m *Member) bool { return s.status[m.URL].Member == p.ID }) {
			at := strings.Join(p.URLs, ", ")
			why = append(why, fmt.Sprintf("member %s (%s) is not named; give --etcd-endpoints with all members, because all must be healthy while one is defragmented", cmp.Or(p.Name, fmt.Sprintf("%x", p.ID)), cmp.Or(at, "not joined yet")))
		}
	}
	return why, nil
}

// caughtUp returns an error unless all members are healthy and have applied the log entry index.
func caughtUp(ctx context.Context, members []*Member, index uint64) error {
	s, err := observe(ctx, members)
	if err != nil {
		return err
	}
	for _, m := range members {
		if x := s.status[m.URL]; x.Applied < index {
			return text.Errorf("%s has applied only %d of %d log entries", m.URL, x.Applied, index)
		}
	}
	return nil
}

var errNobody = errors.New("no member address given")

// Look is a snapshot of one member, for audits.
type Look struct {
	URL string
	// Silent is why the member cannot be queried, or nil.
	Silent error
	Page   prometheus.Metrics
	// Healthy and Reason are the member's reported health. Unwell is why it reports none.
	Healthy bool
	Reason  string
	Unwell  error
	// Peers are the cluster's members; nil if the member does not report them, for example at a
	// metrics-only address.
	Peers []Peer
	// ID is the member's ID; 0 if unknown.
	ID uint64
	// Version is the member's reported version, or "".
	Version string
}

// Looks queries all members concurrently.
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
			err = errors.New(m.URL + "/metrics has no histograms; check that this is the address of etcd")
		}
	}
	if l.Silent = err; err != nil {
		return l
	}
	l.Healthy, l.Reason, l.Unwell = m.Health(ctx)
	// A metrics address may not serve the API.
	if peers, err := m.Peers(ctx); err == nil {
		l.Peers = peers
	}
	if s, err := m.Status(ctx); err == nil {
		l.ID, l.Version = s.Member, s.Version
	}
	l.Version = cmp.Or(l.Version, l.Page.Labels["etcd_server_version"]["server_version"])
	return l
}
