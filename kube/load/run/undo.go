// undo takes back what a run of a cluster load has made: that, by its uid, and
// nothing else.

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Undo is one.
type Undo struct {
	Plan    *plan.Plan
	Server  *cluster.Server
	Journal *Journal
	// State is what the journal says.
	State *State
	// AtOnce is how many requests are under way at most.
	AtOnce int
	// Within is how long namespaces may take to go; 0 for ten minutes.
	Within time.Duration
	// On is called with how much is done and how much there is.
	On func(done, all int)

	labelled *Labelled
}

// UndoOutcome is what came of it.
type UndoOutcome struct {
	// Removed are objects that are gone now, Absent those that were gone already.
	Removed, Absent int
	// Kept are those that were left, with why.
	Kept []Left
	// Waiting are namespaces that the server has not finished removing.
	Waiting []string
	// Unknown are objects of the run that its journal does not hold, and that stand in the
	// cluster; nil for none. Unseen is why it cannot be told whether there are such; "" where
	// it can.
	Unknown *Unknown
	Unseen  string
}

// Left is an object that was left.
type Left struct{ Object, Why string }

// ErrIncomplete says that something is left.
var ErrIncomplete = errors.New("not all that the run made could be removed")

// Do takes the run back. It may be called again after a crash, and goes on.
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
		return out, fmt.Errorf("what of the run is in the cluster: %w", err)
	}
	u.labelled = labelled
	spaces, err := u.spaces(ctx, out)
	if err != nil {
		return out, err
	}
	// Those that no namespace takes along.
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

// ended are the namespaces of the run that are gone, or are about to go.
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

// objects are those that the run made in some namespaces, the last ones first; "" is where
// objects of the whole cluster are.
func (u *Undo) objects(in func(namespace string) bool) (all []int) {
	for i := u.Plan.Len() - 1; i >= 0; i-- {
		was := u.State.Objects[i].Was
		if (was == Created || was == JournalKept) && !u.space(i) && in(u.Plan.Namespace(i)) {
			all = append(all, i)
		}
	}
	return all
}

// each does something with objects, some at a time, and ends with the first error.
func (u *Undo) each(ctx context.Context, objects []int, do func(ctx context.Context, lane, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for lane := range min(u.AtOnce, len(objects)) {
		all.Go(func() {
			for i := range next {
				if err := do(ctx, lane/cluster.PerLane, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n, i := range objects {
		select {
		case next <- i:
		case <-ctx.Done():
		}
		if u.On != nil && n%100 == 0 {
			u.On(n, len(objects))
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// lookUp finds out about objects that may have been made without a line in the journal:
// those that were asked for when the run was killed, or to which no answer came. Of one that
// this user may not see it is said; it is looked for again with the next undo.
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
			out.Kept = append(out.Kept, Left{u.Plan.Describe(i), "whether the run made it cannot be seen: " + err.Error()})
			mu.Unlock()
			return nil
		case err != nil:
			return fmt.Errorf("whether %s was made: %w", u.Plan.Describe(i), err)
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

// space says that an object is a namespace, of a stage or of a template.
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

// delete deletes the object that has the uid of the journal. gone says that it was not
// there any more, why that it is kept.
func (u *Undo) delete(ctx context.Context, lane, i int) (gone bool, why string, err error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
		"preconditions": map[string]any{"uid": u.State.Objects[i].UID},
	})
	if err != nil {
		return false, "", err
	}
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
			// Either another object has the name now, or a namespace is on its way out.
			m, err := u.Server.Metadata(ctx, lane, u.path(i))
			switch {
			case cluster.IsStatus(err, http.StatusNotFound):
				return true, "", nil
			case err == nil && m.UID != u.State.Objects[i].UID:
				return true, "", nil // somebody has deleted ours, and made one of the name
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
		select {
		case <-time.After(max(pause, a.After)):
		case <-ctx.Done():
			return false, "", context.Cause(ctx)
		}
		pause = min(2*pause, 2*time.Second)
	}
}
