package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Undo removes the objects that a run created, identified by UID, and nothing else.
type Undo struct {
	Plan    *plan.Plan
	Server  *cluster.Server
	Journal *Journal
	// State is the content of the journal.
	State *State
	// AtOnce limits concurrent requests; 0 means DefaultInFlight.
	AtOnce int
	// Within limits the wait for deleted namespaces; 0 means ten minutes.
	Within time.Duration
	// On receives the progress; it may be nil.
	On func(done, all int)

	labelled *Labelled
}

// UndoOutcome is the result of Undo.Do.
type UndoOutcome struct {
	// Removed counts removed objects, Absent those that were gone before.
	Removed, Absent int
	// Kept are the objects that the undo left, with the reasons.
	Kept []Left
	// Waiting are namespaces that the server has not finished removing.
	Waiting []string
	// Unknown are objects with the run's label that its journal lacks, or nil. Unseen is why it is
	// unknown whether such objects exist.
	Unknown *Unknown
	Unseen  string
}

// Left is an object that the undo left, and the reason.
type Left struct{ Object, Why string }

// ErrIncomplete means that objects of the run remain.
var ErrIncomplete = errors.New("some objects of the run could not be removed")

// Do removes the run's objects. After a crash, another call continues.
func (u *Undo) Do(ctx context.Context) (*UndoOutcome, error) {
	if u.AtOnce <= 0 {
		u.AtOnce = DefaultInFlight
	}
	if u.Within <= 0 {
		u.Within = 10 * time.Minute
	}
	out := &UndoOutcome{}
	if err := u.Journal.Begin(Undoing); err != nil {
		return out, err
	}
	if err := u.lookUp(ctx, out); err != nil {
		return out, err
	}
	labelled, err := Look(ctx, u.Server, u.Plan)
	if err != nil {
		return out, fmt.Errorf("cannot list the run's objects in the cluster: %w", err)
	}
	u.labelled = labelled
	spaces, err := u.spaces(ctx, out)
	if err != nil {
		return out, err
	}
	// Objects that are not deleted with a namespace.
	if err := u.remove(ctx, u.objects(func(in string) bool { return spaces[in] == 0 }), out); err != nil {
		return out, err
	}
	if err := u.removeSpaces(ctx, spaces, out); err != nil {
		return out, err
	}
	if err := u.Journal.Sync(); err != nil {
		return out, err
	}
	if u.State.Reserved < u.Plan.Len() {
		out.Unknown, out.Unseen = labelled.Beyond(u.State.Reserved, u.Server, u.ended(out)), labelled.Unseen()
	}
	if err := out.incomplete(); err != nil {
		return out, err
	}
	return out, u.Journal.Begin(Undone)
}

// ended returns the run's namespaces that are gone or being deleted.
func (u *Undo) ended(out *UndoOutcome) map[string]bool {
	all := map[string]bool{}
	for i := range u.Plan.Len() {
		if u.space(i) && u.State.Objects[i].Was == Gone {
			all[u.Plan.Name(i)] = true
		}
	}
	for _, name := range out.Waiting {
		all[name] = true
	}
	return all
}

// objects returns the run's objects in the selected namespaces, latest first; namespace "" means
// cluster-wide objects.
func (u *Undo) objects(in func(namespace string) bool) (all []int) {
	for i := u.Plan.Len() - 1; i >= 0; i-- {
		was := u.State.Objects[i].Was
		if (was == Created || was == JournalKept) && !u.space(i) && in(u.Plan.Namespace(i)) {
			all = append(all, i)
		}
	}
	return all
}

// each calls do for objects, at most AtOnce at a time. It stops at the first error and returns it.
func (u *Undo) each(ctx context.Context, objects []int, do func(ctx context.Context, lane, i int) error) error {
	return inParallel(ctx, u.AtOnce, len(objects), u.On, func(ctx context.Context, lane, n int) error { return do(ctx, lane, objects[n]) })
}

// inParallel calls do for the numbers below count, at most atOnce at a time. It stops at the first
// error and returns it. on receives the progress; it may be nil.
func inParallel(ctx context.Context, atOnce, count int, on func(done, all int), do func(ctx context.Context, lane, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for lane := range min(atOnce, count) {
		all.Go(func() {
			for i := range next {
				if err := do(ctx, lane/cluster.PerLane, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := range count {
		select {
		case next <- n:
		case <-ctx.Done():
		}
		if on != nil && n%100 == 0 {
			on(n, count)
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// lookUp searches for objects that may exist without a journal line: their request was pending when
// the run was killed, or its answer was lost. Objects that the user may not see are reported, and
// searched again by the next undo.
func (u *Undo) lookUp(ctx context.Context, out *UndoOutcome) error {
	var unknown []int
	for i := range u.State.Reserved {
		if u.State.Unsure(i) {
			unknown = append(unknown, i)
		}
	}
	var mu sync.Mutex
	err := u.each(ctx, unknown, func(ctx context.Context, lane, i int) error {
		m, err := u.Server.Metadata(ctx, lane, u.path(i))
		switch {
		case cluster.IsStatus(err, http.StatusNotFound):
			return nil
		case cluster.IsStatus(err, http.StatusForbidden):
			mu.Lock()
			out.Kept = append(out.Kept, Left{u.Plan.Describe(i), "unknown whether the run created it: " + err.Error()})
			mu.Unlock()
			return nil
		case err != nil:
			return fmt.Errorf("cannot check whether %s was created: %w", u.Plan.Describe(i), err)
		case Ours(u.Plan, i, m):
			u.Journal.Created(i, m.UID)
			mu.Lock()
			u.State.Objects[i] = Object{Was: Created, UID: m.UID}
			mu.Unlock()
		}
		return nil
	})
	return errors.Join(err, u.Journal.Sync())
}

func (u *Undo) path(i int) string {
	return u.Plan.Kind(i).Path(u.Plan.Namespace(i)) + "/" + u.Plan.Name(i)
}

// space reports whether an object is a namespace, of a stage or of a template.
func (u *Undo) space(i int) bool {
	k := u.Plan.Kind(i)
	return k.Kind == "Namespace" && k.APIVersion == "v1"
}

// remove deletes objects one by one.
func (u *Undo) remove(ctx context.Context, objects []int, out *UndoOutcome) error {
	var mu sync.Mutex
	return u.each(ctx, objects, func(ctx context.Context, lane, i int) error {
		gone, why, err := u.delete(ctx, lane, i)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case why != "":
			out.Kept = append(out.Kept, Left{u.Plan.Describe(i), why})
			u.Journal.Kept(i, why)
			return nil
		case gone:
			out.Absent++
		default:
			out.Removed++
		}
		u.State.Objects[i].Was = Gone
		u.Journal.Gone(i)
		return nil
	})
}

// deleteOptions returns the body of a request that deletes an object only if it has this UID.
func deleteOptions(uid string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","preconditions":{"uid":%q}}`, uid)
}

// delete deletes an object if it has the journal's UID. gone means that it did not exist any more;
// a nonempty why says why it is kept.
func (u *Undo) delete(ctx context.Context, lane, i int) (gone bool, why string, err error) {
	body := deleteOptions(u.State.Objects[i].UID)
	began, pause := time.Now(), 50*time.Millisecond
	for {
		a, err := u.Server.Do(ctx, lane, http.MethodDelete, u.path(i), body)
		switch {
		case err != nil:
		case a.Status == http.StatusOK || a.Status == http.StatusAccepted:
			return false, "", nil
		case a.Status == http.StatusNotFound:
			return true, "", nil
		case a.Status == http.StatusConflict:
			// Either another object has the name now, or the namespace is being deleted.
			m, err := u.Server.Metadata(ctx, lane, u.path(i))
			switch {
			case cluster.IsStatus(err, http.StatusNotFound):
				return true, "", nil
			case err == nil && m.UID != u.State.Objects[i].UID:
				return true, "", nil // the run's object is gone; another one has its name
			case err == nil && m.DeletionTimestamp != "":
				return false, "", nil
			}
		case a.Status < 500 && a.Status != http.StatusTooManyRequests:
			return false, a.Err().Error(), nil
		}
		if err == nil {
			err = a.Err()
		}
		if time.Since(began) > time.Minute || ctx.Err() != nil {
			return false, "", fmt.Errorf("%s: %w", u.Plan.Describe(i), err)
		}
		if err := host.Sleep(ctx, max(pause, a.After)); err != nil {
			return false, "", err
		}
		pause = min(2*pause, 2*time.Second)
	}
}
