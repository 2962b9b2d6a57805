package engine

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Sleeper wakes any number of goroutines, each at its time, with the precision of an Alarm and
// one descriptor for all.
type Sleeper struct {
	alarm *Alarm

	mu    sync.Mutex
	queue sleeps
}

// sleep is a goroutine that waits for a time.
type sleep struct {
	until time.Time
	wake  chan struct{}
}

// sleeps is a heap, the earliest first.
type sleeps []sleep

func (s sleeps) Len() int           { return len(s) }
func (s sleeps) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s sleeps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sleeps) Push(x any)        { *s = append(*s, x.(sleep)) }
func (s *sleeps) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// NewSleeper returns a sleeper. The caller must close it.
func NewSleeper() (*Sleeper, error) {
	alarm, err := NewAlarm()
	if err != nil {
		return nil, err
	}
	s := &Sleeper{alarm: alarm}
	go s.run()
	return s, nil
}

// Until waits until t. If ctx ends first, it returns the cause.
func (s *Sleeper) Until(ctx context.Context, t time.Time) error {
	if time.Until(t) <= 0 {
		return ctx.Err()
	}
	mine := sleep{t, make(chan struct{})}
	s.mu.Lock()
	heap.Push(&s.queue, mine)
	if s.queue[0].wake == mine.wake {
		_ = s.alarm.set(time.Until(t))
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-mine.wake:
		return ctx.Err()
	}
}

// run wakes goroutines until the sleeper is closed.
func (s *Sleeper) run() {
	for {
		if s.alarm.wait() != nil {
			return
		}
		s.mu.Lock()
		for len(s.queue) > 0 && time.Until(s.queue[0].until) <= 0 {
			close(heap.Pop(&s.queue).(sleep).wake)
		}
		if len(s.queue) > 0 {
			_ = s.alarm.set(time.Until(s.queue[0].until))
		}
		s.mu.Unlock()
	}
}

// Close ends the sleeper. Goroutines that still wait are woken only by their contexts.
func (s *Sleeper) Close() { s.alarm.Close() }
