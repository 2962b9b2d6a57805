package barrier

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestGates: nobody passes /start before all have asked, and the barrier is done when all
// have asked for /stop.
func TestGates(t *testing.T) {
	port := freePort(t)
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
	// One that gives up and asks again is not two.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_ = ask(ctx, "/start")
	cancel()
	time.Sleep(200 * time.Millisecond)
	if n := passed.Load(); n != 0 {
		t.Errorf("%d passed before all were there", n)
	}
	if err := s.Wait(t.Context(), time.Millisecond); err == nil || !strings.Contains(err.Error(), "2 of 4 pods have asked for /start") {
		t.Errorf("before all were there: %v", err)
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
	if err := s.Wait(t.Context(), 10*time.Second); err != nil {
		t.Error(err)
	}
}
