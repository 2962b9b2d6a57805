package agent

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestHealth tests that an agent is ready once it knows its node's profile, and that it is dead if
// its checks stop.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(time.Minute)
		is := func(when string, alive, ready bool) {
			t.Helper()
			if a, r := h.alive(nil), h.ready(nil); (a == nil) != alive || (r == nil) != ready {
				t.Errorf("%s: alive: %v; ready: %v", when, a, r)
			}
		}
		is("at the start", true, false)
		h.looked(false)
		is("before the API server has answered", true, false)
		h.looked(true)
		is("with a profile", true, true)
		time.Sleep(11 * time.Minute)
		is("ten minutes late", true, true)
		time.Sleep(time.Second)
		is("later", false, true)
		h.looked(true)
		is("after the next check", true, true)
	})
}

// TestHealthServed asks an agent as a kubelet does.
func TestHealthServed(t *testing.T) {
	h := NewHealth(time.Minute)
	address := fmt.Sprintf("127.0.0.1:%d", root.Port(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, address) }()
	status := func(path string) (code int) {
		root.Eventually(10*time.Second, func() bool {
			resp, err := http.Get("http://" + address + path)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			code = resp.StatusCode
			return true
		})
		return code
	}
	if alive, ready := status("/healthz"), status("/readyz"); alive != http.StatusOK || ready != http.StatusInternalServerError {
		t.Errorf("at the start: /healthz %d, /readyz %d", alive, ready)
	}
	h.looked(true)
	if ready := status("/readyz"); ready != http.StatusOK {
		t.Errorf("/readyz with a profile: %d", ready)
	}
	if err := NewHealth(time.Minute).Serve(t.Context(), address); err == nil {
		t.Error("two servers at one address")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
