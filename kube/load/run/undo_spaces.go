package run

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
)

// spaces returns the namespaces that the run created and that contain no objects of other clients,
// each with its object's number plus one. It records the others as kept.
func (u *Undo) spaces(ctx context.Context, out *UndoOutcome) (map[string]int, error) {
	spaces := map[string]int{}
	for i := range u.Plan.Len() {
		if was := u.State.Objects[i].Was; u.space(i) && (was == Created || was == JournalKept) {
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

// removeSpaces deletes namespaces with their content, and waits until they are gone. Even with an
// error, the outcome has those that are gone or being removed.
func (u *Undo) removeSpaces(ctx context.Context, spaces map[string]int, out *UndoOutcome) error {
	var list []int
	for _, n := range spaces {
		list = append(list, n-1)
	}
	gone, kept, asked, err := u.eachSpace(ctx, list, out)
	before := maps.Clone(gone) // namespaces that others deleted with their content
	defer func() {
		u.count(gone, before, out)
		for name := range asked {
			if !gone[name] && !kept[name] {
				out.Waiting = append(out.Waiting, name)
			}
		}
		slices.Sort(out.Waiting)
	}()
	if err != nil {
		return err
	}
	// A kept namespace does not remove its objects.
	if err := u.remove(ctx, u.objects(func(in string) bool { return kept[in] }), out); err != nil {
		return err
	}
	end := time.Now().Add(u.Within)
	pause := 200 * time.Millisecond
	for {
		left, unseen, err := u.still(ctx, spaces, gone, kept)
		for name, why := range unseen {
			kept[name] = true
			out.Kept = append(out.Kept, Left{u.Plan.Describe(spaces[name] - 1), "deleted, but unknown whether it is gone: " + why})
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
				return nil
			}
		}
		if err != nil && ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		if err := host.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// count records the objects that were deleted with their namespaces. The objects of namespaces in
// before were gone already.
func (u *Undo) count(gone, before map[string]bool, out *UndoOutcome) {
	for i := range u.Plan.Len() {
		in := u.Plan.Namespace(i)
		if u.space(i) {
			in = u.Plan.Name(i)
		}
		if was := u.State.Objects[i].Was; !gone[in] || was != Created && was != JournalKept {
			continue
		}
		u.State.Objects[i].Was = Gone
		u.Journal.Gone(i)
		if before[in] || u.labelled.gone(i) {
			out.Absent++
		} else {
			out.Removed++
		}
	}
}

// eachSpace deletes namespaces. gone are those that did not exist any more, kept those that the
// server refused to delete, asked those with accepted deletions.
func (u *Undo) eachSpace(ctx context.Context, list []int, out *UndoOutcome) (gone, kept, asked map[string]bool, err error) {
	gone, kept, asked = map[string]bool{}, map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	return gone, kept, asked, u.each(ctx, list, func(ctx context.Context, lane, i int) error {
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
		default:
			asked[u.Plan.Name(i)] = true
		}
		return nil
	})
}

// still returns the namespaces that still exist with the journal's UID. Without the right to list
// namespaces it reads each one; unseen has the errors of unreadable ones.
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
	there := map[string]string{}
	err = pages(ctx, u.Server.GetMetadata, "/api/v1/namespaces", ofRun(u.Plan.Run), func(m item) { there[m.Name] = m.UID })
	if !cluster.IsStatus(err, http.StatusForbidden) {
		for _, i := range asked {
			if u.State.Objects[i].UID == there[u.Plan.Name(i)] {
				left[u.Plan.Name(i)] = true
			}
		}
		return left, unseen, err
	}
	var mu sync.Mutex
	return left, unseen, inParallel(ctx, u.AtOnce, len(asked), nil, func(ctx context.Context, lane, n int) error {
		i := asked[n]
		m, err := u.Server.Metadata(ctx, lane, u.path(i))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case cluster.IsStatus(err, http.StatusForbidden):
			unseen[u.Plan.Name(i)] = err.Error()
		case cluster.IsStatus(err, http.StatusNotFound):
		case err != nil:
			return err
		case m.UID == u.State.Objects[i].UID:
			left[u.Plan.Name(i)] = true
		}
		return nil
	})
}
