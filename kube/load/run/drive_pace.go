package run

import (
	"sync"
	"time"
)

// clock says when each of a sequence is due, at a steady pace: what was late does not make
// the others later.
type clock struct{ next time.Time }

// behind is how far a clock may fall behind before it begins anew: what is missed beyond
// that is not made up for by a burst.
const behind = time.Second

// due is when the next one is to start; the one after it is every later.
func (c *clock) due(every time.Duration) time.Time {
	if now := time.Now(); now.Sub(c.next) > behind {
		c.next = now
	}
	at := c.next
	c.next = at.Add(every)
	return at
}

// block is how many objects are reserved at a time.
const block = 512

// reserver sees to it that the journal covers an object before it is asked for, and writes
// ahead, so that no worker waits for the disk.
type reserver struct {
	journal *Journal
	most    int

	mu   sync.Mutex
	upTo int // on the disk
	// going is closed when a reservation that is being written is on the disk.
	going chan struct{}
	err   error
}

// cover returns when the object may be asked for.
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

// wait returns when nothing is being written.
func (r *reserver) wait() {
	r.mu.Lock()
	going := r.going
	r.mu.Unlock()
	if going != nil {
		<-going
	}
}
