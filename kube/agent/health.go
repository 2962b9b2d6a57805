package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// overdue is how late a check of the node may be before the agent counts as stuck. A check that
// changes devices takes seconds.
const overdue = 10 * time.Minute

// Health answers the kubelet's probes of an agent.
type Health struct {
	interval time.Duration // between two checks of the node

	mu    sync.Mutex
	last  time.Time // end of the last check; first the start of the agent
	heard bool      // the API server has reported the node's profile
}

// NewHealth returns the health of an agent that starts now and checks its node once per interval.
func NewHealth(interval time.Duration) *Health {
	return &Health{interval: interval, last: time.Now()}
}

// looked records a finished check of the node.
func (h *Health) looked(heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.heard = time.Now(), heard
}

// alive returns an error if the agent has stopped checking its node.
func (h *Health) alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ago := time.Since(h.last); ago > h.interval+overdue {
		return fmt.Errorf("the last check of the node ended %s ago", ago.Round(time.Second))
	}
	return nil
}

// ready returns an error until the API server has reported the node's profile to the agent.
func (h *Health) ready(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heard {
		return errors.New("the API server has not yet reported the node's profile")
	}
	return nil
}

// Serve serves /healthz and /readyz at an address, HOST:PORT, until ctx ends.
func (h *Health) Serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.Handle("/healthz", healthz.CheckHandler{Checker: h.alive})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: h.ready})
	s := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
