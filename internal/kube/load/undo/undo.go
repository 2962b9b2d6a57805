// Package undo takes back what a run of a cluster load has made: that, by its uid, and
// nothing else.
package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fettle.dev/fettle/internal/kube/api"
	"fettle.dev/fettle/internal/kube/load/drive"
	"fettle.dev/fettle/internal/kube/load/journal"
	"fettle.dev/fettle/internal/kube/load/plan"
)

// Undo is one.
type Undo struct {
	Plan    *plan.Plan
	Server  *api.Server
	Journal *journal.Journal
	// State is what the journal says.
	State *journal.State
	// AtOnce is how many requests are under way at most.
	AtOnce int
	// Within is how long namespaces may take to go; 0 for ten minutes.
	Within time.Duration
	// On is called with how much is done and how much there is.
	On func(done, all int)
}

// Outcome is what came of it.
type Outcome struct {
	// Removed are objects that are gone now, Absent those that were gone already.
	Removed, Absent int
	// Kept are those that were left, with why.
	Kept []Left
	// Waiting are namespaces that the server has not finished removing.
	Waiting []string
}

// Left is an object that was left.
type Left struct{ Object, Why string }

// ErrIncomplete says that something is left.
var ErrIncomplete = errors.New("not all that the run made could be removed")

// Do takes the run back. It may be called again after a crash, and goes on.
func (u *Undo) Do(ctx context.Context) (*Outcome, error) {
	if u.AtOnce <= 0 {
		u.AtOnce = drive.DefaultInFlight
	}
	if u.Within <= 0 {
		u.Within = 10 * time.Minute
	}
	out := &Outcome{}
	if err := u.Journal.Begin(journal.Undoing); err != nil {
		return out, err
	}
	if err := u.lookUp(ctx, out); err != nil {
		return out, err
	}
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
	if len(out.Kept) > 0 || len(out.Waiting) > 0 {
		return out, ErrIncomplete
	}
	return out, u.Journal.Begin(journal.Undone)
}

// objects are those that the run made in some namespaces, the last ones first; "" is where
// objects of the whole cluster are.
func (u *Undo) objects(in func(namespace string) bool) (all []int) {
	for i := u.Plan.Len() - 1; i >= 0; i-- {
		was := u.State.Objects[i].Was
		if (was == journal.Created || was == journal.Kept) && !u.space(i) && in(u.Plan.Namespace(i)) {
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
				if err := do(ctx, lane/api.PerLane, i); err != nil {
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
func (u *Undo) lookUp(ctx context.Context, out *Outcome) error {
	var unknown []int
	for i := range u.State.Reserved {
		if was := u.State.Objects[i].Was; was == journal.Nothing || was == journal.Failed {
			unknown = append(unknown, i)
		}
	}
	var mu sync.Mutex
	err := u.each(ctx, unknown, func(ctx context.Context, lane, i int) error {
		m, err := u.Server.Metadata(ctx, lane, u.path(i))
		switch {
		case api.IsStatus(err, http.StatusNotFound):
			return nil
		case api.IsStatus(err, http.StatusForbidden):
			mu.Lock()
			out.Kept = append(out.Kept, Left{u.Plan.Describe(i), "whether the run made it cannot be seen: " + err.Error()})
			mu.Unlock()
			return nil
		case err != nil:
			return fmt.Errorf("whether %s was made: %w", u.Plan.Describe(i), err)
		case drive.Ours(u.Plan, i, m):
			u.Journal.Created(i, m.UID)
			mu.Lock()
			u.State.Objects[i] = journal.Object{Was: journal.Created, UID: m.UID}
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

// spaces are the namespaces that the run made and that hold nothing of somebody else's,
// each with the number of its object, plus one. One that holds something is kept.
func (u *Undo) spaces(ctx context.Context, out *Outcome) (map[string]int, error) {
	spaces := map[string]int{}
	for i := range u.Plan.Len() {
		if was := u.State.Objects[i].Was; u.space(i) && (was == journal.Created || was == journal.Kept) {
			spaces[u.Plan.Name(i)] = i + 1
		}
	}
	foreign, err := u.foreign(ctx, spaces)
	if err != nil {
		return nil, err
	}
	for name, why := range foreign {
		i := spaces[name] - 1
		delete(spaces, name)
		out.Kept = append(out.Kept, Left{u.Plan.Describe(i), why})
		u.Journal.Kept(i, why)
	}
	return spaces, nil
}

// remove deletes objects one by one.
func (u *Undo) remove(ctx context.Context, objects []int, out *Outcome) error {
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
		u.State.Objects[i].Was = journal.Gone
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
		a, err := u.Server.Do(ctx, lane, http.MethodDelete, u.path(i), func(dst []byte) []byte { return append(dst, body...) })
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
			case api.IsStatus(err, http.StatusNotFound):
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

// removeSpaces deletes namespaces with all that is in them, and waits until they are gone.
func (u *Undo) removeSpaces(ctx context.Context, spaces map[string]int, out *Outcome) error {
	var list []int
	for _, n := range spaces {
		list = append(list, n-1)
	}
	gone, kept, err := u.eachSpace(ctx, list, out)
	if err != nil {
		return err
	}
	// One that stays takes nothing along.
	if err := u.remove(ctx, u.objects(func(in string) bool { return kept[in] }), out); err != nil {
		return err
	}
	end := time.Now().Add(u.Within)
	pause := 200 * time.Millisecond
	for {
		left, unseen, err := u.still(ctx, spaces, gone, kept)
		for name, why := range unseen {
			kept[name] = true
			out.Kept = append(out.Kept, Left{u.Plan.Describe(spaces[name] - 1), "it was deleted, and whether it has gone cannot be seen: " + why})
		}
		if err == nil {
			for name := range spaces {
				if !left[name] && !kept[name] {
					gone[name] = true
				}
			}
			if u.On != nil {
				u.On(len(gone), len(spaces))
			}
			if len(left) == 0 {
				break
			}
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			for name := range left {
				out.Waiting = append(out.Waiting, name)
			}
			if err != nil {
				return err
			}
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, 2*time.Second)
	}
	for i := range u.Plan.Len() {
		in := u.Plan.Namespace(i)
		if u.space(i) {
			in = u.Plan.Name(i)
		}
		if was := u.State.Objects[i].Was; gone[in] && (was == journal.Created || was == journal.Kept) {
			u.State.Objects[i].Was = journal.Gone
			u.Journal.Gone(i)
			out.Removed++
		}
	}
	return nil
}

// eachSpace deletes namespaces. Of gone there was nothing any more; kept are those that the
// server refuses to delete.
func (u *Undo) eachSpace(ctx context.Context, list []int, out *Outcome) (gone, kept map[string]bool, err error) {
	gone, kept = map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	return gone, kept, u.each(ctx, list, func(ctx context.Context, lane, i int) error {
		absent, why, err := u.delete(ctx, lane, i)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case why != "":
			kept[u.Plan.Name(i)] = true
			out.Kept = append(out.Kept, Left{u.Plan.Describe(i), why})
			u.Journal.Kept(i, why)
		case absent:
			gone[u.Plan.Name(i)] = true
		}
		return nil
	})
}

// still are those of the namespaces that are there, under the uid of the journal. Who may
// not list namespaces may see each; unseen are those that cannot be seen at all, and why.
func (u *Undo) still(ctx context.Context, spaces map[string]int, gone, kept map[string]bool) (left map[string]bool, unseen map[string]string, err error) {
	left, unseen = map[string]bool{}, map[string]string{}
	var asked []int
	for name, n := range spaces {
		if !gone[name] && !kept[name] {
			asked = append(asked, n-1)
		}
	}
	if len(asked) == 0 {
		return left, unseen, nil
	}
	all, err := u.list(ctx, "/api/v1/namespaces", plan.RunLabel+"="+u.Plan.Run)
	if !api.IsStatus(err, http.StatusForbidden) {
		there := map[string]string{}
		for _, m := range all {
			there[m.Name] = m.UID
		}
		for _, i := range asked {
			if u.State.Objects[i].UID == there[u.Plan.Name(i)] {
				left[u.Plan.Name(i)] = true
			}
		}
		return left, unseen, err
	}
	var mu sync.Mutex
	quiet := &Undo{AtOnce: u.AtOnce, Plan: u.Plan, Server: u.Server}
	return left, unseen, quiet.each(ctx, asked, func(ctx context.Context, lane, i int) error {
		m, err := u.Server.Metadata(ctx, lane, u.path(i))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case api.IsStatus(err, http.StatusForbidden):
			unseen[u.Plan.Name(i)] = err.Error()
		case api.IsStatus(err, http.StatusNotFound):
		case err != nil:
			return err
		case m.UID == u.State.Objects[i].UID:
			left[u.Plan.Name(i)] = true
		}
		return nil
	})
}
