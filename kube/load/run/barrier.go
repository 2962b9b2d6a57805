package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"fettle.dev/fettle/internal/text"
)

// Server implements Cluster Loader's sync: it answers the pods' requests for /start once all
// expected pods have sent one. It is done when all have requested /stop.
type Server struct {
	want int
	http *http.Server

	mu             sync.Mutex
	starts, stops  int
	open, finished chan struct{}
}

// Listen listens on an address ("" means all) and port before pods exist. Requests wait until
// Expect has set the number of pods and that many have arrived.
func Listen(address string, port int) (*Server, error) {
	s := &Server{want: -1, open: make(chan struct{}), finished: make(chan struct{})}
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("sync server: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/start", s.start)
	mux.HandleFunc("/stop", s.stop)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Expect sets the number of pods; call it once.
func (s *Server) Expect(pods int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = pods
	s.passed()
}

// passed closes the channels of the steps that enough pods have reached.
func (s *Server) passed() {
	for _, x := range []struct {
		have int
		gate chan struct{}
	}{{s.starts, s.open}, {s.stops, s.finished}} {
		if s.want < 0 || x.have < s.want {
			continue
		}
		select {
		case <-x.gate:
		default:
			close(x.gate)
		}
	}
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.starts++
	s.passed()
	s.mu.Unlock()
	select {
	case <-s.open:
		fmt.Fprintln(w, "start")
	case <-r.Context().Done():
		// A client that repeats its request counts once.
		s.mu.Lock()
		select {
		case <-s.open:
		default:
			s.starts--
		}
		s.mu.Unlock()
	}
}

func (s *Server) stop(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.stops++
	s.passed()
	s.mu.Unlock()
	fmt.Fprintln(w, "stop")
}

// Wait waits until all pods have requested /start and /stop. It returns an error with the counts
// if that takes longer than within.
func (s *Server) Wait(ctx context.Context, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-s.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return text.Errorf("after %s only %d of %d pods requested /start, %d /stop", within, s.starts, s.want, s.stops)
	}
}

// Close closes the server.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	return err
}
