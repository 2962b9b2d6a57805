package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestSleeper: sleepers that come in any order wake at their time, never before it; a context
// ends the wait at once.
func TestSleeper(t *testing.T) {
	s, err := NewSleeper()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var mu sync.Mutex
	var late []time.Duration
	begin := time.Now()
	for range 2000 {
		at := begin.Add(time.Duration(rand.IntN(300)) * time.Millisecond)
		wait.Go(func() {
			if err := s.Until(ctx, at); err != nil {
				t.Error(err)
			}
			mu.Lock()
			late = append(late, time.Since(at))
			mu.Unlock()
		})
	}
	wait.Wait()
	slices.Sort(late)
	// A busy machine may be late, but half of them are not by much.
	if late[0] < 0 || late[len(late)/2] > 20*time.Millisecond {
		t.Errorf("woken between %v and %v, median %v after their time", late[0], late[len(late)-1], late[len(late)/2])
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := s.Until(ctx, begin.Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v after an interruption", err)
	}
	if err := s.Until(t.Context(), begin); err != nil {
		t.Errorf("%v for a time that is over", err)
	}
}
