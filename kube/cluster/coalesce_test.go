package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestOneLook tests that events within the delay of the first one cause one look, and that an
// update without a change does not count.
func TestOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		defer q.ShutDown()
		h := handlers(Into{"all", 200 * time.Millisecond}, func(old, now *core.Node) bool { return old.Spec.Unschedulable != now.Spec.Unschedulable })
		ctx, free, cordoned := t.Context(), &core.Node{}, &core.Node{}
		cordoned.Spec.Unschedulable = true
		// waits says how many looks there are right before and right after the delay of
		// what began at this moment.
		waits := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Errorf("%s: %d looks at once", what, n)
			}
			time.Sleep(201 * time.Millisecond)
			synctest.Wait()
			if n := q.Len(); n != want {
				t.Errorf("%s: %d looks, want %d", what, n, want)
			}
			if want > 0 {
				item, _ := q.Get()
				if item != "all" {
					t.Errorf("%s: %q", what, item)
				}
				q.Done(item)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Errorf("%s: %d looks more", what, n)
			}
		}
		for range 500 {
			h.Create(ctx, event.TypedCreateEvent[*core.Node]{Object: free}, q)
		}
		waits("500 nodes are there", 1)
		h.Update(ctx, event.TypedUpdateEvent[*core.Node]{ObjectOld: free, ObjectNew: free}, q)
		waits("nothing has changed", 0)
		h.Update(ctx, event.TypedUpdateEvent[*core.Node]{ObjectOld: free, ObjectNew: cordoned}, q)
		h.Delete(ctx, event.TypedDeleteEvent[*core.Node]{Object: cordoned}, q)
		waits("one is cordoned and goes", 1)
		// What never ends is looked at anyway.
		looks := 0
		for range 10 {
			h.Update(ctx, event.TypedUpdateEvent[*core.Node]{ObjectOld: free, ObjectNew: cordoned}, q)
			time.Sleep(90 * time.Millisecond)
			synctest.Wait()
			if q.Len() > 0 {
				item, _ := q.Get()
				q.Done(item)
				looks++
			}
		}
		if looks < 3 {
			t.Errorf("%d looks in 900 ms of events", looks)
		}
	})
}
