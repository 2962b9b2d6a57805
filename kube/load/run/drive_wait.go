package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
)

// settle waits until objects are ready.
func (x *running) settle(op *plan.Op) error {
	x.pace = clock{}
	keys := x.keys(op)
	if len(keys) == 0 {
		return nil
	}
	if x.Follower == nil {
		return errors.New("no watch of the objects is running")
	}
	left := x.Follower.Until(x.quit, keys, op.Timeout)
	if x.quit.Err() != nil {
		return context.Cause(x.quit)
	}
	if len(left) == 0 {
		return nil
	}
	example := left[0].String()
	if why := x.Follower.Why(left[0]); why != "" {
		example += " (" + why + ")"
	}
	if op.Must {
		return text.Errorf("%s: not ready after %s: %d of %d, such as %s", op.At, op.Timeout, len(left), len(keys), example)
	}
	x.out.NotReady, x.out.Example = len(left), example
	return nil
}

// keys returns an operation's objects that take time to become ready. It omits those that were not
// created or are deleted.
func (x *running) keys(op *plan.Op) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	var keys []Key
	add := func(i int) {
		was := x.State.Objects[i].Was
		if kind := x.Plan.Kind(i).Kind; Takes(kind) && was != Failed && was != Gone {
			keys = append(keys, Key{Kind: kind, Namespace: x.Plan.Namespace(i), Name: x.Plan.Name(i)})
		}
	}
	if !op.Acted {
		for i := op.From; i < op.To; i++ {
			if x.Plan.Waits(i) {
				add(i)
			}
		}
		return keys
	}
	seen := map[int]bool{}
	for i := op.From; i < op.To; i++ {
		if a, object := x.Plan.Action(i); !a.NoWait && !seen[object] {
			seen[object] = true
			add(object)
		}
	}
	return keys
}

// sync carries out a synchronization.
func (x *running) sync(op *plan.Op) error {
	if err := x.drain(); err != nil {
		return err
	}
	s := op.Sync
	b := x.opened[s]
	delete(x.opened, s)
	if !x.fresh {
		if b != nil { // free the port for other uses
			return b.Close()
		}
		return nil
	}
	spaces, pods := map[string]bool{}, 0
	for i := op.From; i < op.To; i++ {
		if space := x.Plan.Namespace(i); space != "" {
			spaces[space] = true
		}
		n, _ := x.Plan.Pods(i)
		pods += n
	}
	fail := func(err error) error {
		if err != nil {
			err = fmt.Errorf("%s: sync: %w", op.At, err)
		}
		return err
	}
	if b != nil {
		b.Expect(pods)
		err := b.Wait(x.quit, s.Timeout)
		if err = errors.Join(err, b.Close()); err != nil {
			return fail(err)
		}
	}
	if s.Running {
		// A succeeded pod was running before.
		if err := x.Follower.Phase(x.quit, spaces, pods, s.Selectors, s.Timeout, "Running", "Succeeded"); err != nil {
			return fail(err)
		}
	}
	if s.Succeeded {
		return fail(x.Follower.Phase(x.quit, spaces, pods, s.Selectors, s.Timeout, "Succeeded"))
	}
	return nil
}

// clock computes due times at a steady pace; one late start does not delay the following ones.
type clock struct{ next time.Time }

// behind limits a clock's lag. Beyond it the clock restarts, because a burst would not keep the
// pace.
const behind = time.Second

// due returns the next start time. Start times have the interval every.
func (c *clock) due(every time.Duration) time.Time {
	if now := time.Now(); now.Sub(c.next) > behind {
		c.next = now
	}
	at := c.next
	c.next = at.Add(every)
	return at
}

// block is the number of objects per journal reservation.
const block = 512

// reserver ensures that the journal covers an object before it is requested. It reserves ahead, so
// no worker waits for the disk.
type reserver struct {
	journal *Journal
	most    int

	mu   sync.Mutex
	upTo int // objects below are reserved on disk
	// going is closed when the pending reservation is on disk.
	going chan struct{}
	err   error
}

// cover waits until object i is reserved and may be requested.
func (r *reserver) cover(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.err != nil {
			return r.err
		}
		if r.going == nil && r.upTo < r.most && i+block/2 >= r.upTo {
			going, to := make(chan struct{}), min(r.most, max(r.upTo, i)+block)
			r.going = going
			go func() {
				err := r.journal.Reserve(to)
				r.mu.Lock()
				r.going = nil
				if r.err = err; err == nil {
					r.upTo = to
				}
				r.mu.Unlock()
				close(going)
			}()
		}
		if i < r.upTo {
			return nil
		}
		going := r.going
		r.mu.Unlock()
		<-going
		r.mu.Lock()
	}
}

// wait waits for a pending reservation.
func (r *reserver) wait() {
	r.mu.Lock()
	going := r.going
	r.mu.Unlock()
	if going != nil {
		<-going
	}
}

var errNoUID = errors.New("the server's answer has no uid")

// uidOf returns metadata.uid of an object. It scans by hand: encoding/json would permanently
// grow the stacks of thousands of workers.
func uidOf(object []byte) (string, error) {
	depth, meta := 0, false // meta: inside metadata, at depth 2
	key := ""               // last string at this depth, which is a key if a colon follows
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			if depth++; depth == 2 {
				meta = key == "metadata" && object[i] == '{'
			}
			key = ""
		case '}', ']':
			if depth--; depth < 2 {
				meta = false
			}
		case ',':
			key = ""
		case '"':
			end := i + 1
			for end < len(object) && object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(object) {
				return "", errNoUID
			}
			text := object[i+1 : end]
			i = end
			switch {
			case depth == 2 && meta && key == "uid" && len(text) > 0:
				return string(text), nil
			case depth == 1 && string(text) == "metadata", depth == 2 && meta && string(text) == "uid":
				if key == "" { // the string is a key, not a value
					key = string(text)
					continue
				}
			}
			if key == "" {
				key = "other"
			}
		}
	}
	return "", errNoUID
}
