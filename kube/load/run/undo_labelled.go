package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// Unknown is the error of objects that stand in a cluster, are a run's by its label, and
// are not in its journal. They are not deleted: any client can write such a label.
type Unknown struct {
	Run, Server string
	Objects     int
	// Resources are of which kinds they are, as kubectl has them.
	Resources []string
	// Journal is why the journal cannot be read; nil where it can. Load is why it is not known
	// what the run was to make; nil where it is.
	Journal, Load error
}

func (x *Unknown) Error() string {
	if why := errors.Join(x.Journal, x.Load); why != nil {
		return fmt.Sprintf("%v; %s", why, x.Standing())
	}
	return x.Standing()
}

// Standing says how many there are, without why that is not known otherwise.
func (x *Unknown) Standing() string {
	what, journal := fmt.Sprintf("%d objects with the label %s stand in the cluster %s", x.Objects, x.Label(), x.Server), "are not in the journal"
	if x.Objects == 1 {
		what, journal = fmt.Sprintf("1 object with the label %s stands in the cluster %s", x.Label(), x.Server), "is not in the journal"
	}
	if x.Load != nil {
		return what + ": fettle does not delete them by a label, which any client can write"
	}
	return what + " and " + journal + ": fettle does not delete what its journal does not hold"
}

// Unwrap says that the undo is not complete, and what is wrong with what is kept of the run.
func (x *Unknown) Unwrap() []error {
	all := []error{ErrIncomplete}
	for _, err := range []error{x.Journal, x.Load} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

func (x *Unknown) add(k plan.Kind) {
	x.Objects++
	name := k.Resource
	if group := plan.GroupOf(k.APIVersion); group != "" {
		name += "." + group
	}
	if !slices.Contains(x.Resources, name) {
		x.Resources = append(x.Resources, name)
	}
}

// orNone is nil where there are none.
func (x *Unknown) orNone() *Unknown {
	if x.Objects == 0 {
		return nil
	}
	slices.Sort(x.Resources)
	return x
}

// Label is the one by which they are found.
func (x *Unknown) Label() string { return plan.RunLabel + "=" + x.Run }

// Command is kubectl's that deletes all that has the label.
func (x *Unknown) Command() string {
	return fmt.Sprintf("kubectl delete %s --all-namespaces -l %s", strings.Join(x.Resources, ","), x.Label())
}

// Unnoted is how many objects stand in the cluster that the journal covers without saying
// what became of them: an undo removes them, too.
func (l *Labelled) Unnoted(s *State) int {
	n := 0
	for i := range s.Reserved {
		if s.Unsure(i) && l.seen[i] == there {
			n++
		}
	}
	return n
}

// Everywhere looks for objects of a run by its label in the lists of all kinds that the
// server has: where its plan is not known. It is nil for none; unseen is why some cannot be
// seen, the first by its text.
func Everywhere(ctx context.Context, s *cluster.Server, run string) (x *Unknown, unseen string, err error) {
	kinds, blind, err := listable(ctx, s, true)
	if err != nil {
		return nil, "", err
	}
	x = &Unknown{Run: run, Server: s.Base()}
	note := func(what, why string) {
		if text := what + ": " + why; unseen == "" || text < unseen {
			unseen = text
		}
	}
	for version, why := range blind {
		if !isDerived(plan.Kind{APIVersion: version}) {
			note("objects of "+version, why)
		}
	}
	kinds = slices.DeleteFunc(kinds, isDerived)
	var mu sync.Mutex
	err = inParallel(ctx, atOnce, len(kinds), nil, func(ctx context.Context, _, i int) error {
		err := pages(ctx, s.GetMetadata, kinds[i].Path(""), ofRun(run), func(m item) {
			// What controllers make of the run's objects has the label at most.
			if m.Annotations[plan.ObjectNote] != "" && len(m.OwnerReferences) == 0 && m.DeletionTimestamp == "" {
				mu.Lock()
				defer mu.Unlock()
				x.add(kinds[i])
			}
		})
		switch {
		case err == nil, cluster.IsStatus(err, http.StatusNotFound), cluster.IsStatus(err, http.StatusMethodNotAllowed):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		note(kinds[i].Resource, err.Error())
		return nil
	})
	return x.orNone(), unseen, err
}

// item is what of an object says whose it is.
type item struct {
	cluster.Metadata
	OwnerReferences []struct{ APIVersion, Kind, UID string }
	// secrets are those that an account lists as its own.
	secrets []string
}

// ofRun is the query of a list of the objects with a run's label.
func ofRun(run string) string {
	return "labelSelector=" + url.QueryEscape(plan.RunLabel+"="+run)
}

// pages calls see for each object of a list, and keeps only a page of them in memory. selector
// is the part of the query that selects objects; "" selects all.
func pages(ctx context.Context, get func(ctx context.Context, path string, into any) error, path, selector string, see func(item)) error {
	next := ""
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []struct {
				Metadata item
				// These are of accounts, where they were asked for whole.
				Secrets, ImagePullSecrets []struct{ Name string }
			}
		}
		query := "?limit=500"
		if selector != "" {
			query += "&" + selector
		}
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		if err := get(ctx, path+query, &page); err != nil {
			return err
		}
		for _, i := range page.Items {
			for _, s := range append(i.Secrets, i.ImagePullSecrets...) {
				i.Metadata.secrets = append(i.Metadata.secrets, s.Name)
			}
			see(i.Metadata)
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}
