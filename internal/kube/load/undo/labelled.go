package undo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/kube/api"
	"fettle.dev/fettle/internal/kube/load/drive"
	"fettle.dev/fettle/internal/kube/load/plan"
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
func Look(ctx context.Context, s *api.Server, p *plan.Plan) (*Labelled, error) {
	l := &Labelled{plan: p, seen: make([]sight, p.Len()), unseen: map[query]string{}}
	quiet := &Undo{AtOnce: atOnce, Plan: p, Server: s}
	numbers := make([]int, len(p.Kinds))
	for i := range numbers {
		numbers[i] = i
	}
	return l, quiet.each(ctx, numbers, func(ctx context.Context, _, i int) error {
		k := p.Kinds[i]
		err := l.list(ctx, s, query{k, ""})
		if !api.IsStatus(err, http.StatusForbidden) || !k.Namespaced {
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
	case err == nil, api.IsStatus(err, http.StatusNotFound): // a kind that is gone has no objects
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

func (l *Labelled) list(ctx context.Context, s *api.Server, q query) error {
	return pages(ctx, s.GetMetadata, q.Path(q.namespace), plan.RunLabel+"="+l.plan.Run, func(m item) {
		// A copy that somebody has made has the label too, and another name or place.
		i, err := strconv.Atoi(m.Annotations[plan.ObjectNote])
		if err != nil || i < 0 || i >= l.plan.Len() || l.plan.Kind(i) != q.Kind || l.plan.Namespace(i) != m.Namespace || !drive.Ours(l.plan, i, m.Metadata) {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.seen[i] = there; m.DeletionTimestamp != "" {
			l.seen[i] = going
		}
	})
}

// gone says that an object is known not to be there.
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
func (l *Labelled) Beyond(covered int, s *api.Server, out map[string]bool) *Unknown {
	x := &Unknown{Run: l.plan.Run, Server: s.Base()}
	for i := covered; i < l.plan.Len(); i++ {
		k := l.plan.Kind(i)
		if l.seen[i] != there || out[l.plan.Namespace(i)] {
			continue
		}
		x.Objects++
		name := k.Resource
		if group, _, named := strings.Cut(k.APIVersion, "/"); named {
			name += "." + group
		}
		if !slices.Contains(x.Resources, name) {
			x.Resources = append(x.Resources, name)
		}
	}
	if x.Objects == 0 {
		return nil
	}
	slices.Sort(x.Resources)
	return x
}

// Unknown is the error of objects that stand in a cluster, are a run's by its label, and
// are not in its journal. They are not deleted: what says that the run has made them can be
// written by anybody.
type Unknown struct {
	Run, Server string
	Objects     int
	// Resources are of which kinds they are, as kubectl has them.
	Resources []string
	// Journal is why the journal cannot be read; nil where it can.
	Journal error
}

func (x *Unknown) Error() string {
	text := fmt.Sprintf("%d objects with the label %s stand in the cluster %s and are not in the journal: fettle does not delete what its journal does not hold", x.Objects, x.Label(), x.Server)
	if x.Objects == 1 {
		text = fmt.Sprintf("1 object with the label %s stands in the cluster %s and is not in the journal: fettle does not delete what its journal does not hold", x.Label(), x.Server)
	}
	if x.Journal != nil {
		return fmt.Sprintf("%v; %s", x.Journal, text)
	}
	return text
}

// Unwrap says that the undo is not complete, and what is wrong with the journal.
func (x *Unknown) Unwrap() []error {
	if x.Journal == nil {
		return []error{ErrIncomplete}
	}
	return []error{ErrIncomplete, x.Journal}
}

// Label is the one by which they are found.
func (x *Unknown) Label() string { return plan.RunLabel + "=" + x.Run }

// Command is kubectl's that deletes all that has the label.
func (x *Unknown) Command() string {
	return fmt.Sprintf("kubectl delete %s --all-namespaces -l %s", strings.Join(x.Resources, ","), x.Label())
}

// incomplete is what an undo ends with that left something.
func (o *Outcome) incomplete() error {
	switch {
	case o.Unknown != nil:
		return o.Unknown
	case len(o.Kept) > 0 || len(o.Waiting) > 0:
		return ErrIncomplete
	}
	return nil
}
