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

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Labelled holds the objects of a run that a cluster contains according to the run's label, without
// its journal.
type Labelled struct {
	plan *plan.Plan
	mu   sync.Mutex
	// seen is the state of each object of the plan.
	seen []sight
	// unseen maps each list that could not be read to the reason.
	unseen map[query]string
}

// sight is the state of an object in a list.
type sight uint8

const (
	absent sight = iota
	going        // its deletion has begun
	there
)

// Look returns the objects of a run by its label, from lists of the plan's kinds. Kinds that the
// user may not list cluster-wide are listed in the plan's namespaces. Invisible parts are not an
// error, see Unseen.
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

// note records why a list could not be read. It returns an error only if ctx has ended.
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

// spaces returns the namespaces in which the plan has objects of a kind.
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
		// A copied object also has the label, but another name or namespace.
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

// gone reports whether an object is known not to exist.
func (l *Labelled) gone(i int) bool {
	k, space := l.plan.Kind(i), l.plan.Namespace(i)
	return l.seen[i] == absent && l.unseen[query{k, ""}] == "" && l.unseen[query{k, space}] == ""
}

// Unseen returns why a list could not be read, or "" if all were read. Of several reasons it
// returns the alphabetically first one.
func (l *Labelled) Unseen() string {
	first := ""
	for q, why := range l.unseen {
		if text := q.Resource + ": " + why; first == "" || text < first {
			first = text
		}
	}
	return first
}

// Beyond returns the existing objects with numbers from covered on, which the journal does not
// cover, or nil. It ignores objects in namespaces being deleted.
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

// incomplete returns the error of an undo that left something.
func (o *UndoOutcome) incomplete() error {
	switch {
	case o.Unknown != nil:
		return o.Unknown
	case len(o.Kept) > 0 || len(o.Waiting) > 0:
		return ErrIncomplete
	}
	return nil
}

// Unknown is an error that lists objects with a run's label that are not in its journal. They are
// not deleted, because any client can set the label.
type Unknown struct {
	Run, Server string
	Objects     int
	// Resources are the kinds of the objects, as kubectl names them.
	Resources []string
	// Journal is why the journal is unreadable, or nil. Load is why the run's load is unknown, or
	// nil.
	Journal, Load error
}

func (x *Unknown) Error() string {
	if why := errors.Join(x.Journal, x.Load); why != nil {
		return fmt.Sprintf("%v; %s", why, x.Standing())
	}
	return x.Standing()
}

// Standing describes the number of objects, without reasons.
func (x *Unknown) Standing() string {
	what := text.Sprintf("%d objects with the label %s exist in cluster %s", x.Objects, x.Label(), x.Server)
	if x.Objects == 1 {
		what = fmt.Sprintf("1 object with the label %s exists in cluster %s", x.Label(), x.Server)
	}
	if x.Load != nil {
		return what + "; not deleted, because any client can set this label"
	}
	return what + "; not deleted, because not in the journal"
}

// Unwrap returns ErrIncomplete and the errors of the run's files.
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

// orNone returns x, or nil if x has no objects.
func (x *Unknown) orNone() *Unknown {
	if x.Objects == 0 {
		return nil
	}
	slices.Sort(x.Resources)
	return x
}

// Label returns the label selector that finds the objects.
func (x *Unknown) Label() string { return plan.RunLabel + "=" + x.Run }

// Command returns the kubectl command that deletes all objects with the label.
func (x *Unknown) Command() string {
	return fmt.Sprintf("kubectl delete %s --all-namespaces -l %s", strings.Join(x.Resources, ","), x.Label())
}

// Unnoted returns the number of existing objects that the journal covers without a result; an undo
// removes them.
func (l *Labelled) Unnoted(s *State) int {
	n := 0
	for i := range s.Reserved {
		if s.Unsure(i) && l.seen[i] == there {
			n++
		}
	}
	return n
}

// Everywhere searches all lists of the server for objects with a run's label, for a run without a
// known plan. x is nil if there are none. unseen is the alphabetically first reason that parts are
// invisible, or "".
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
			// Controllers' objects may have the label, but not the annotation.
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

// item has the metadata that identifies an object's owner.
type item struct {
	cluster.Metadata
	OwnerReferences []struct{ APIVersion, Kind, UID string }
	// secrets are the secrets that a service account lists.
	secrets []string
}

// ofRun returns the query for objects with a run's label.
func ofRun(run string) string {
	return "labelSelector=" + url.QueryEscape(plan.RunLabel+"="+run)
}

// pages calls see for each object of a list. selector is the query for objects; "" means all.
func pages(ctx context.Context, get cluster.Getter, path, selector string, see func(item)) error {
	type listed struct {
		Metadata item
		// Fields of service accounts, which are read completely.
		Secrets, ImagePullSecrets []struct{ Name string }
	}
	_, err := cluster.Pages(ctx, get, path+"?"+selector, pageSize, func(i *listed) error {
		for _, s := range append(i.Secrets, i.ImagePullSecrets...) {
			i.Metadata.secrets = append(i.Metadata.secrets, s.Name)
		}
		see(i.Metadata)
		return nil
	})
	return err
}

// pageSize is the number of objects per list request.
const pageSize = 500
