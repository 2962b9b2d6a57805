package mqtt

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// send sends all notifications that may be sent now.
func send(t *tracker) (sent []int) {
	for {
		job, ok := t.Next()
		if !ok {
			return sent
		}
		t.Sent(job)
		sent = append(sent, job)
	}
}

func addDispatch(t *tracker, jobs ...int) []int {
	for _, job := range jobs {
		t.Add(job)
	}
	return send(t)
}

func want(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestUndelivered tests that a job that no host fetches becomes hot, then cold, and is given up at
// the second tick.
func TestUndelivered(t *testing.T) {
	x := newTracker(2, 0)
	if x.Ticks() {
		t.Error("the clock runs without a job")
	}
	want(t, "new", addDispatch(x, 0, 1), 0, 1)
	want(t, "first tick", x.Tick())
	x.Fetched(1)
	if !x.Ticks() || x.UnderWay() != 2 {
		t.Errorf("%d under way, the clock runs: %t", x.UnderWay(), x.Ticks())
	}
	want(t, "second tick", x.Tick(), 0)
	if x.Ticks() || x.UnderWay() != 1 {
		t.Errorf("%d under way, the clock runs: %t", x.UnderWay(), x.Ticks())
	}
	want(t, "again", addDispatch(x, 0), 0)
	x.Done(1)
	want(t, "one that is done", addDispatch(x, 1))
	x.Fetched(1) // a second time, late
	if x.UnderWay() != 1 {
		t.Errorf("%d under way", x.UnderWay())
	}
}

// TestDispatchLimit tests that hot, cold and running jobs count against the limit.
func TestDispatchLimit(t *testing.T) {
	x := newTracker(4, 2)
	want(t, "new", addDispatch(x, 0, 1, 2, 3), 0, 1)
	x.Fetched(0)
	x.Tick()
	want(t, "after a tick", send(x))
	want(t, "given up", x.Tick(), 1)
	want(t, "its place", send(x), 2)
	x.Done(0)
	want(t, "the place of one that is done", send(x), 3)
	want(t, "all places are taken", addDispatch(x, 1))
	// The host fetches it late: there is one more under way than there are places.
	x.Fetched(1)
	if x.UnderWay() != 3 {
		t.Errorf("%d under way", x.UnderWay())
	}
	x.Done(2)
	if x.UnderWay() != 2 {
		t.Errorf("%d under way", x.UnderWay())
	}
	want(t, "nothing waits", send(x))
}

// TestTwice tests that a job that is fetched between being given up and being sent again is
// notified twice.
func TestTwice(t *testing.T) {
	x := newTracker(1, 0)
	addDispatch(x, 0)
	x.Tick()
	want(t, "given up", x.Tick(), 0)
	x.Fetched(0)
	want(t, "again", addDispatch(x, 0), 0)
	if x.UnderWay() != 2 { // it is hot and running
		t.Errorf("%d under way", x.UnderWay())
	}
	x.Fetched(0)
	if x.UnderWay() != 1 {
		t.Errorf("%d under way", x.UnderWay())
	}
}

// TestPassedOver tests that a job that was removed from the waiting jobs and added again counts
// once.
func TestPassedOver(t *testing.T) {
	x := newTracker(3, 1)
	addDispatch(x, 0, 1, 2)
	x.Fetched(1) // it waits, and the host has it from elsewhere
	x.Done(1)
	x.Done(0)
	want(t, "the next one", send(x), 2)
	x.Done(2)
	if x.Ticks() || x.UnderWay() != 0 {
		t.Error("something is left")
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Settings{
		"ttl=10s":                        {10 * time.Second, 15 * time.Minute, 0},
		"ttl=10,resend=60,limit=200":     {10 * time.Second, time.Minute, 200},
		"limit=none, resend=1h":          {5 * time.Second, time.Hour, 0},
		Defaults.String():                Defaults,
		"ttl=1s,resend=1h30m,limit=1":    {time.Second, 90 * time.Minute, 1},
		"resend=86400":                   {5 * time.Second, 24 * time.Hour, 0},
		"ttl=5s,resend=15m,limit=100000": {5 * time.Second, 15 * time.Minute, 100_000},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q becomes %q: %+v %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"": "want settings of the proxy", "ttl": "want settings of the proxy", "ttl=0": "whole seconds", "ttl=1500ms": "whole seconds", "ttl=25h": "whole seconds", "ttl=x": "whole seconds", "resend=99999999999999999": "whole seconds",
		"limit=0": "or none", "limit=-1": "or none", "limit=1e9": "or none", "limit=1000001": "or none", "rate=5": "ttl, resend or limit", "ttl=5s,ttl=6s": "ttl is given twice",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, want %q", text, s, err, want)
		}
	}
}

// FuzzParse tests that parsed settings can be written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add("ttl=5s,resend=15m,limit=200")
	f.Add("limit=none")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Errorf("%q is %+v, and %q is %+v: %v", text, s, s, again, err)
		}
	})
}
