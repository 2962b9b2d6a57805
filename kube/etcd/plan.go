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
)

// Limits are the thresholds for a defragmentation: the free space in a member's database has to
// exceed both.
type Limits struct {
	Share float64 `json:"free_share"` // of the database, 0 to 1
	Bytes uint64  `json:"free_bytes"`
}

// Default are the limits at which OpenShift's operator defragments by itself (openshift-docs,
// 4.9, "Defragmenting etcd data"): 45 % and 100 MB.
var Default = Limits{Share: 0.45, Bytes: 100e6}

// worth reports whether a defragmentation of the database is worth it; false if the size in
// use is unknown.
func (l Limits) worth(size, inUse uint64) bool {
	return inUse > 0 && size > inUse && size-inUse > l.Bytes && float64(size-inUse) > l.Share*float64(size)
}

// Refused lists the reasons not to defragment: a member that pauses while another one is
// unhealthy can cost the cluster its quorum.
type Refused struct{ Why []string }

func (r *Refused) Error() string { return strings.Join(r.Why, "\n") }

// Step is one member of a plan.
type Step struct {
	Endpoint string `json:"endpoint"`
	MemberID string `json:"member_id"` // as etcdctl prints it
	Leader   bool   `json:"leader"`
	Version  string `json:"version"`
	// DatabaseBytes is the size of the file, InUseBytes the part in use.
	DatabaseBytes uint64 `json:"database_bytes"`
	InUseBytes    uint64 `json:"in_use_bytes"`
	// Worth reports whether it exceeds the limits now; a compaction may raise it above them.
	Worth bool `json:"above_limits"`
}

// Plan is what a defragmentation would do.
type Plan struct {
	Limits Limits `json:"limits"`
	// CompactTo is the revision before which history is removed first; 0 for none.
	CompactTo uint64 `json:"compact_to_revision,omitempty"`
	// Steps are in the order of the work, the leader last.
	Steps []Step `json:"members"`
	// NoSpace reports whether the cluster rejects writes because its quota is full.
	NoSpace bool `json:"no_space_alarm"`
}

// state is a snapshot of a cluster whose members are all healthy.
type state struct {
	status  map[string]*Status // by URL
	noSpace bool
}

// Make reads the state of the cluster and plans. It returns a *Refused if the cluster must not
// be changed.
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
	// Followers keep the order in which they were named.
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

// observe queries all members, and refuses a cluster that is unhealthy, or with members that
// are not named.
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
		// While an alarm is active, no member reports itself healthy.
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

// disagree returns the differences between the members' views of the cluster.
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

// missing returns the members of the cluster that were not named: their health is unknown.
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

// caughtUp returns an error unless all members are healthy and have applied entry index.
func caughtUp(ctx context.Context, members []*Member, index uint64) error {
	s, err := observe(ctx, members)
	if err != nil {
		return err
	}
	for _, m := range members {
		if x := s.status[m.URL]; x.Applied < index {
			return fmt.Errorf("%s has applied %d entries of %d", m.URL, x.Applied, index)
		}
	}
	return nil
}

var errNobody = errors.New("no member address given")

// Look is a snapshot of one member.
type Look struct {
	URL string
	// Silent is the reason that it cannot be queried; nil if it can.
	Silent error
	Page   prometheus.Metrics
	// Healthy and Reason are its reported health; Unwell is the reason that it reports none.
	Healthy bool
	Reason  string
	Unwell  error
	// Peers are the members of the cluster; nil if it does not report them, as at an address for
	// metrics only.
	Peers []Peer
	// ID is its own ID, 0 if unknown.
	ID uint64
	// Version is its reported version; "" if it reports none.
	Version string
}

// Looks queries all members at once.
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
	// An address for metrics may not serve the API.
	if peers, err := m.Peers(ctx); err == nil {
		l.Peers = peers
	}
	if s, err := m.Status(ctx); err == nil {
		l.ID, l.Version = s.Member, s.Version
	}
	l.Version = cmp.Or(l.Version, l.Page.Labels["etcd_server_version"]["server_version"])
	return l
}
