package load

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// Kind is the kind of a load's evidence record.
const Kind = "cluster-load"

// Shape describes a load independent of its file. Runs of equal shapes send the same requests to a
// cluster.
type Shape struct {
	Kinds    []Count `json:"kinds"`
	InFlight int     `json:"in_flight"`
	RatePerS float64 `json:"rate_per_s,omitempty"`
	// Waits is how often the load waits for objects or pauses.
	Waits int `json:"waits"`
	// Actions is the number of patches, deletions and reads.
	Actions int `json:"actions,omitempty"`
}

// Count is the number of objects of one kind, and the total size of their JSON.
type Count struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
	Bytes      int64  `json:"json_bytes"`
}

// ShapeOf returns the shape of a plan with its concurrency and rate.
func ShapeOf(p *plan.Plan, inFlight int, rate float64) Shape {
	s := Shape{Kinds: []Count{}, InFlight: inFlight, RatePerS: rate, Actions: p.Actions()}
	at := map[plan.Kind]int{}
	for i := range p.Len() {
		k := p.Kind(i)
		n, known := at[k]
		if !known {
			n = len(s.Kinds)
			at[k] = n
			s.Kinds = append(s.Kinds, Count{APIVersion: k.APIVersion, Kind: k.Kind})
		}
		s.Kinds[n].Count++
		s.Kinds[n].Bytes += int64(len(p.Body(i)))
	}
	slices.SortFunc(s.Kinds, func(a, b Count) int { return strings.Compare(a.Kind+a.APIVersion, b.Kind+b.APIVersion) })
	for _, op := range p.Ops {
		if op.Do == plan.Settle || op.Do == plan.Pause || op.Do == plan.Sync || op.Do == plan.Gone {
			s.Waits++
		}
	}
	return s
}

func (s Shape) String() string {
	var words []string
	for _, k := range s.Kinds {
		words = append(words, text.Sprintf("%d %s of %s (%s)", k.Count, k.Kind, k.APIVersion, text.Count(k.Bytes, "byte")))
	}
	words = append(words, "at most "+text.Count(s.InFlight, "request")+" in progress")
	if s.RatePerS > 0 {
		words = append(words, unit.Digits(s.RatePerS)+"/s")
	}
	if s.Actions > 0 {
		words = append(words, text.Sprintf("%d patches, deletions and reads", s.Actions))
	}
	return strings.Join(append(words, text.Count(s.Waits, "wait")), ", ")
}

// Body is the content of a load's evidence record.
type Body struct {
	Cluster string `json:"cluster"` // uid of its namespace kube-system
	Run     string `json:"run"`
	Shape   Shape  `json:"shape"`
	// Cut records that the run is incomplete, or that several processes carried it out.
	Cut    *evidence.Interruption `json:"cut,omitempty"`
	Series []evidence.Series      `json:"series"`
	// Result is the printed result of the run.
	Result json.RawMessage `json:"result"`
}

// Facts describe a cluster beyond its name.
type Facts struct {
	Server, Cluster, Version string
	Settings                 map[string]string
}

// Run is the input of Keep: a run and its measurements.
type Run struct {
	Command, Version string // fettle's command line and version
	Began, Ended     time.Time
	Verdict          string
	Facts            Facts
	Body             Body
}

// Servers adds the API server's metrics, as series of one sample each.
func (b *Body) Servers(s *run.Servers) {
	if s == nil {
		return
	}
	add := func(name string, value float64) {
		b.Series = append(b.Series, evidence.Series{Name: name, Unit: "s", Samples: []float64{value}})
	}
	for _, c := range s.Calls {
		if c.Verb == "POST" {
			add(fmt.Sprintf("server: POST %s (%s) p99", c.Resource, c.Scope), c.P99S)
		}
	}
	if s.EtcdN > 0 {
		add("server: calls to etcd p99", s.EtcdP99S)
	}
}

// Keep stores a run.
func Keep(in evidence.Store, r *Run) (*evidence.Run, error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(r.Facts.Cluster))
	e := &evidence.Run{
		Kind: Kind, Command: r.Command, Version: r.Version, Began: r.Began.UTC(), Ended: r.Ended.UTC(), Verdict: r.Verdict, Body: body,
		Machine: evidence.Machine{Name: r.Facts.Server, OS: r.Facts.Version, Hardware: hex.EncodeToString(sum[:8]), Settings: r.Facts.Settings},
	}
	return e, in.Put(e)
}

// RecordRefused means that two runs cannot be compared.
type RecordRefused struct{ Err error }

func (r *RecordRefused) Error() string { return r.Err.Error() }
func (r *RecordRefused) Unwrap() error { return r.Err }

// Compare compares run b with run a. It returns an error for runs of different shapes or clusters,
// unless force is set.
func Compare(a, b *evidence.Run, margin float64, force bool) (*prove.Comparison, error) {
	var of [2]Body
	for i, r := range []*evidence.Run{a, b} {
		if r.Kind != Kind {
			return nil, fmt.Errorf("run %s is a %s, not a cluster load; use fettle runs compare", r.ID, r.Kind)
		}
		if err := json.Unmarshal(r.Body, &of[i]); err != nil {
			return nil, fmt.Errorf("run %s: %w", r.ID, err)
		}
	}
	first, second := of[0], of[1]
	shapes := first.Shape.String() != second.Shape.String()
	switch {
	case force:
	case first.Cluster == "" || first.Cluster != second.Cluster:
		return nil, &RecordRefused{fmt.Errorf("the runs were made on different clusters: %s (%s) and %s (%s)", a.Machine.Name, first.Cluster, b.Machine.Name, second.Cluster)}
	case shapes:
		return nil, &RecordRefused{fmt.Errorf("the loads have different shapes: %s; and %s", first.Shape, second.Shape)}
	}
	c, err := prove.Runs(a, b, margin, true)
	if err != nil {
		return nil, err
	}
	for i := range c.Differing {
		if d := &c.Differing[i]; d.Name == "hardware" { // the UID identifies a cluster
			*d = prove.Difference{Name: "cluster", A: first.Cluster, B: second.Cluster}
		}
	}
	if shapes {
		c.Differing = slices.Insert(c.Differing, 0, prove.Difference{Name: "load", A: first.Shape.String(), B: second.Shape.String()})
	}
	apart := "at the same time"
	if d := b.Began.Sub(a.Began).Abs().Round(time.Second); d > 0 {
		apart = d.String() + " apart"
	}
	c.Caution = fmt.Sprintf("exploratory, not a proof: the runs started %s, and other changes of the cluster in between affect the result. The intervals cover only the variation within each run, so they are too narrow. For a proof use fettle prove with kubectl fettle load run --for-prove, which alternates both sides", apart)
	c.Summarize()
	return c, nil
}

// ErrNone means that a run has no evidence record.
var ErrNone = errors.New("no record: the run has not ended, or was made by an older version")

// Last returns the latest record of a run.
func Last(in evidence.Store) (*evidence.Run, error) {
	all, err := in.All()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	return all[len(all)-1], nil
}
