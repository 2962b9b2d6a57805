package run

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestGates tests that no pod passes /start before all have requested it, and that the barrier is
// done when all have requested /stop.
func TestGates(t *testing.T) {
	port := root.Port(t)
	s, err := Listen("127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Expect(4)
	ask := func(ctx context.Context, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := ask(t.Context(), "/start"); err != nil {
				t.Error(err)
			}
			passed.Add(1)
		})
	}
	waiting := func(n int) {
		t.Helper()
		var err error
		if !root.Eventually(time.Minute, func() bool {
			err = s.Wait(t.Context(), time.Millisecond)
			return err != nil && strings.Contains(err.Error(), fmt.Sprintf("only %d of 4 pods requested /start, 0 /stop", n))
		}) {
			t.Fatalf("%d have asked: %v", n, err)
		}
	}
	waiting(2)
	// One that gives up and asks again is not two.
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = ask(ctx, "/start")
	}()
	waiting(3)
	giveUp()
	<-gone
	waiting(2)
	if n := passed.Load(); n != 0 {
		t.Errorf("%d passed before all were there", n)
	}
	for range 2 {
		all.Go(func() {
			if err := ask(t.Context(), "/start"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range 4 {
		if err := ask(t.Context(), "/stop"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}
