package engine

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// server is a server in this process that records when each request arrived and was answered.
type server struct {
	mu     sync.Mutex
	n, now int
	most   int
	spans  [][2]time.Time
	// answer handles the n-th request; it ends early when gone is closed.
	answer func(n int, gone <-chan struct{})
}

type client struct {
	*server
	once sync.Once
	gone chan struct{}
}

func (s *server) client(int) Driver { return &client{server: s, gone: make(chan struct{})} }

func (c *client) Close() { c.once.Do(func() { close(c.gone) }) }

func (c *client) Exchange(_ int, until time.Time) Answer {
	c.mu.Lock()
	n := c.n
	c.n++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	begin := time.Now()
	c.answer(n, c.gone)
	end := time.Now()
	c.mu.Lock()
	c.now--
	c.spans = append(c.spans, [2]time.Time{begin, end})
	c.mu.Unlock()
	select {
	case <-c.gone:
		return Answer{Failure: Closed, Err: net.ErrClosed}
	default:
	}
	if end.After(until) {
		return Answer{Failure: Timeout}
	}
	return Answer{Status: 200}
}

func nap(d time.Duration, gone <-chan struct{}) {
	select {
	case <-gone:
	case <-time.After(d):
	}
}

func steady(t *testing.T, perSecond float64, length time.Duration) *RateSchedule {
	t.Helper()
	s, err := NewRate(Stage{From: perSecond, To: perSecond, For: length})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(ctx context.Context, t *testing.T, s *server, p Plan) (Outcome, *Total) {
	t.Helper()
	length := p.For
	if p.Schedule != nil {
		length = p.Schedule.Length()
	}
	if p.Timeout == 0 {
		p.Timeout = time.Minute
	}
	p.Meter = NewMeter([]Stretch{{For: length}}, p.Timeout, 1, func(status int) bool { return status < 400 })
	p.Pick, p.Client = func(uint64) int { return 0 }, s.client
	out, err := Run(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return out, p.Meter.Sum(0, len(p.Meter.Slices(length)))
}

// TestEveryStartIsMade tests that all requests of the schedule are sent, and none before its time.
func TestEveryStartIsMade(t *testing.T) {
	s := &server{answer: func(int, <-chan struct{}) {}}
	begin := time.Now()
	out, total := run(t.Context(), t, s, Plan{Schedule: steady(t, 200, time.Second), Connections: 10})
	if total.Starts != 200 || total.Good != 200 || out.Until != time.Second {
		t.Errorf("%+v %+v", out, total)
	}
	slices.SortFunc(s.spans, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	for i, span := range s.spans {
		if early := begin.Add(time.Duration(i) * 5 * time.Millisecond).Sub(span[0]); early > 0 {
			t.Fatalf("start %d was %v early", i, early)
		}
	}
}

// TestStallIsSeenByAllItDelayed tests a server that stalls for a second. All requests of that
// second are delayed, also those that could not be sent, and each counts from its intended start.
// In a closed loop only one request is delayed.
func TestStallIsSeenByAllItDelayed(t *testing.T) {
	const stall = time.Second
	for _, connections := range []int{1, 4, 500} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var until time.Time
			s := &server{}
			s.answer = func(n int, gone <-chan struct{}) {
				mu.Lock()
				if n == 20 {
					until = time.Now().Add(stall)
				}
				left := time.Until(until)
				mu.Unlock()
				if left > 0 {
					nap(left, gone)
				}
			}
			_, total := run(t.Context(), t, s, Plan{Schedule: steady(t, 100, 3*time.Second), Connections: connections})
			if total.Starts != 300 || total.Good != 300 {
				t.Fatalf("%d connections: %+v", connections, total)
			}
			// 100 were meant to start in that second, 10 ms apart: that many at least waited
			// for 0, 10, ... 1000 ms, which is true of a slow machine too. So at least 30 of
			// 300 waited for 700 ms or longer, and 70 for 300 ms.
			for p, least := range map[float64]float64{90: 0.69, 77: 0.29} {
				if got := total.Percentile(p); got < least {
					t.Errorf("%d connections: p%v is %.3f s, want %v at least", connections, p, got, least)
				}
			}
			if connections == 1 && total.Waited < 50 {
				t.Errorf("one connection: %d of the starts found it in use", total.Waited)
			}
			if connections == 500 && total.Waited > 0 {
				t.Errorf("500 connections: %d of the starts found them in use", total.Waited)
			}
		})
	}
}

// TestUnsent tests that a request that never gets a connection counts as having waited until the
// end.
func TestUnsent(t *testing.T) {
	s := &server{answer: func(_ int, gone <-chan struct{}) { <-gone }}
	out, total := run(t.Context(), t, s, Plan{Schedule: steady(t, 50, time.Second), Connections: 2, Timeout: 500 * time.Millisecond})
	if total.Starts != 50 || total.Failures[Unsent] != 48 || total.Good != 0 || total.Latency().N != 50 {
		t.Errorf("%+v %+v", out, total)
	}
	if got := total.Percentile(50); got < 0.9 {
		t.Errorf("p50 %v", got)
	}
}

func TestClosedModel(t *testing.T) {
	s := &server{answer: func(_ int, gone <-chan struct{}) { nap(10*time.Millisecond, gone) }}
	out, total := run(t.Context(), t, s, Plan{For: time.Second, Connections: 7})
	if s.most > 7 || out.Connections != 7 || total.Starts > 7*101 || total.Starts < 7 || total.Failed > 0 {
		t.Errorf("%d at a time, %+v %+v", s.most, out, total)
	}
	if p := total.Percentile(1); p < 0.00999 {
		t.Errorf("p1 %v of a server that takes 10 ms", p)
	}
}

// TestCutShort tests that a run ends with its context and returns the results so far.
func TestCutShort(t *testing.T) {
	for name, p := range map[string]Plan{"open": {Schedule: steady(t, 100, time.Hour), Connections: 5}, "closed": {For: time.Hour, Connections: 5}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{}
		s.answer = func(n int, gone <-chan struct{}) {
			if n == 30 {
				cancel()
			}
			if n >= 30 {
				<-gone
			}
		}
		out, total := run(ctx, t, s, p)
		// What was under way says nothing against the server, and starts that were due since
		// then were never asked of it.
		if out.Until >= time.Hour || total.Good < 25 || total.Good > 31 || total.Failures[Interrupted] == 0 || total.Failed > 0 || total.Starts != total.Good+total.Failures[Interrupted] {
			t.Errorf("%s: %+v %+v", name, out, total)
		}
		cancel()
	}
}

// TestInterruptedWhileNoneIsFree tests that starts without a free connection count as waiting for
// the server, even if the run is interrupted.
func TestInterruptedWhileNoneIsFree(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	s := &server{answer: func(_ int, gone <-chan struct{}) { <-gone }}
	out, total := run(ctx, t, s, Plan{Schedule: steady(t, 100, time.Hour), Connections: 2})
	// Two are under way, and all others that were due until then have waited.
	due := int64(out.Until/(10*time.Millisecond)) + 1
	if total.Failures[Interrupted] != 2 || due < 3 || total.Failures[Unsent] != due-2 || total.Failed != total.Failures[Unsent] {
		t.Errorf("%+v", total)
	}
}

// TestRefusingServerIsNotHammered tests that a closed loop whose requests fail at once backs off.
func TestRefusingServerIsNotHammered(t *testing.T) {
	n := 0
	m := NewMeter([]Stretch{{For: time.Second}}, time.Second, 1, func(int) bool { return true })
	_, err := Run(t.Context(), Plan{For: time.Second, Connections: 1, Timeout: time.Second, Meter: m, Pick: func(uint64) int { return 0 },
		Client: func(int) Driver { return refusing{&n} }})
	if err != nil || n == 0 || n > 20 {
		t.Errorf("asked %d times in a second: %v", n, err)
	}
}

type refusing struct{ n *int }

func (r refusing) Exchange(int, time.Time) Answer {
	*r.n++
	return Answer{Failure: Refused}
}
func (refusing) Close() {}
