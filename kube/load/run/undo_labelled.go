package run

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Labelled is what of a run's plan stands in a cluster by the run's label, whatever its
// journal says.
type Labelled struct {
	plan *plan.Plan
	mu   sync.Mutex
	// seen is how each object of the plan was met.
	seen []sight
	// unseen is why lists could not be looked at.
	unseen map[query]string
}

// sight is how an object was met in a list.
type sight uint8

const (
	absent sight = iota
	going        // its deletion has begun
	there
)

// Look looks for the objects of a run by its label, in the lists of the plan's kinds. What
// may not be listed in the whole cluster is looked for in the plan's namespaces. What cannot
// be seen is no error: Unseen says it.
func Look(ctx context.Context, s *cluster.Server, p *plan.Plan) (*Labelled, error) {
	l := &Labelled{plan: p, seen: make([]sight, p.Len()), unseen: map[query]string{}}
	return l, inParallel(ctx, atOnce, len(p.Kinds), nil, func(ctx context.Context, _, i int) error {
		k := p.Kinds[i]
		err := l.list(ctx, s, query{k, ""})
		if !cluster.IsStatus(err, http.StatusForbidden) || !k.Namespaced {
			return l.note(ctx, query{k, ""}, err)
		}
		for _, name := range l.spaces(k) {
			q := query{k, name}
			if err := l.note(ctx, q, l.list(ctx, s, q)); err != nil {
				return err
			}
		}
		return nil
	})
}

// note notes why a list could not be looked at; its error is that of a context that ended.
func (l *Labelled) note(ctx context.Context, q query, err error) error {
	switch {
	case err == nil, cluster.IsStatus(err, http.StatusNotFound): // a kind that is gone has no objects
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unseen[q] = err.Error()
	return nil
}

// spaces are the namespaces in which the plan has objects of a kind.
func (l *Labelled) spaces(k plan.Kind) []string {
	in := map[string]bool{}
	for i := range l.plan.Len() {
		if l.plan.Kind(i) == k {
			in[l.plan.Namespace(i)] = true
		}
	}
	all := make([]string, 0, len(in))
	for name := range in {
		all = append(all, name)
	}
	return all
}

func (l *Labelled) list(ctx context.Context, s *cluster.Server, q query) error {
	return pages(ctx, s.GetMetadata, q.Path(q.namespace), ofRun(l.plan.Run), func(m item) {
		// A copy has the label too, and another name or namespace.
		i, err := strconv.Atoi(m.Annotations[plan.ObjectNote])
		if err != nil || i < 0 || i >= l.plan.Len() || l.plan.Kind(i) != q.Kind || l.plan.Namespace(i) != m.Namespace || !Ours(l.plan, i, m.Metadata) {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.seen[i] = there; m.DeletionTimestamp != "" {
			l.seen[i] = going
		}
	})
}

// gone reports whether an object is known not to be there.
func (l *Labelled) gone(i int) bool {
	k, space := l.plan.Kind(i), l.plan.Namespace(i)
	return l.seen[i] == absent && l.unseen[query{k, ""}] == "" && l.unseen[query{k, space}] == ""
}

// Unseen is why some of it could not be looked at, the first by its text; "" where all was.
func (l *Labelled) Unseen() string {
	first := ""
	for q, why := range l.unseen {
		if text := q.Resource + ": " + why; first == "" || text < first {
			first = text
		}
	}
	return first
}

// Beyond are the objects that stand in the cluster though the journal covers none from
// this number on; nil for none. Those in namespaces that are on their way out are none.
func (l *Labelled) Beyond(covered int, s *cluster.Server, out map[string]bool) *Unknown {
	x := &Unknown{Run: l.plan.Run, Server: s.Base()}
	for i := covered; i < l.plan.Len(); i++ {
		k := l.plan.Kind(i)
		if l.seen[i] != there || out[l.plan.Namespace(i)] {
			continue
		}
		x.add(k)
	}
	return x.orNone()
}

// incomplete is what an undo ends with that left something.
func (o *UndoOutcome) incomplete() error {
	switch {
	case o.Unknown != nil:
		return o.Unknown
	case len(o.Kept) > 0 || len(o.Waiting) > 0:
		return ErrIncomplete
	}
	return nil
}
