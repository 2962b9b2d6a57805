package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

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
