package network

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// netemRuns makes TestNetem measure so many times.
const netemRuns = "FETTLE_TEST_NETWORK_NETEM"

// TestNetemInGuest: what netem does to a path is found, in a guest whose kernel has netem.
func TestNetemInGuest(t *testing.T) {
	testkitroot.Nightly(t, "a virtual machine")
	m := testkitvm.Boot(t, testkitvm.Options{})
	m.Put(os.Args[0], "/root/network.test")
	runs := os.Getenv(netemRuns)
	if runs == "" {
		runs = "100"
	}
	out, code := m.RunFor(4*time.Hour, "cd /root; "+netemRuns+"="+runs+" unshare --net ./network.test -test.run '^TestNetem$' -test.v -test.timeout 4h 2>&1")
	t.Log(out)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestNetem injects delay, loss, jitter and reordering, and finds each in at least 90 of 100 runs,
// with an interval of at most ten percent each way. TestNetemInGuest runs it.
func TestNetem(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv(netemRuns))
	if err != nil {
		t.Skip("TestNetemInGuest runs it")
	}
	l := newLab(t)
	plan := func(every, run time.Duration) Plan {
		p := NewPlan()
		p.Cells, p.Every, p.For = []Cell{{Kind: Probes}}, every, run
		return p
	}
	type truth struct {
		name  string
		value float64
	}
	for _, x := range []struct {
		name, netem string
		plan        Plan
		want        []truth
	}{
		{"delay and loss", "delay 20ms loss 10% limit 100000", plan(time.Millisecond, 10*time.Second), []truth{{p50, 0.020}, {lossUp, 0.10}}},
		// Uniform between 16 and 24 ms: two neighbors differ by a third of the width.
		{"jitter", "delay 20ms 4ms", plan(20*time.Millisecond, 30*time.Second), []truth{{jitterUp, 0.008 / 3}}},
		// Of the packets, 40 % are not delayed, and overtake the one before if that is.
		{"reordering", "delay 30ms reorder 40% 0%", plan(20*time.Millisecond, 60*time.Second), []truth{{orderUp, 0.4 * 0.6}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			found := map[string]int{}
			for range runs {
				func() {
					base := 0.0
					if x.want[0].name == p50 { // the path itself, next to the run
						base = l.once(t, plan(time.Millisecond, time.Second)).value(p50)
					}
					l.do("ip netns exec router tc qdisc add dev rp root netem " + x.netem)
					defer l.do("ip netns exec router tc qdisc del dev rp root")
					s := l.once(t, x.plan)
					for _, want := range x.want {
						f, _ := s.Figure(want.name)
						value := want.value
						if want.name == p50 {
							value += base
						}
						narrow := f.Interval != nil && f.Interval[1]-f.Value <= 0.1*f.Value && f.Value-f.Interval[0] <= 0.1*f.Value
						near := math.Abs(f.Value-value) <= 0.1*value
						if narrow && near {
							found[want.name]++
						} else {
							t.Logf("%s: %s, injected %.4g", want.name, fmt.Sprintf("%.4g %v", f.Value, f.Interval), value)
						}
					}
				}()
			}
			for _, want := range x.want {
				t.Logf("%s found in %d of %d runs", want.name, found[want.name], runs)
				if found[want.name] < (runs*9)/10 {
					t.Errorf("%s found in %d of %d runs", want.name, found[want.name], runs)
				}
			}
		})
	}
}

// once makes a bench with a new peer.
func (l *lab) once(t *testing.T, p Plan) *Summary {
	t.Helper()
	var r *Result
	t.Run("run", func(t *testing.T) {
		var err error
		if r, err = (&Bench{Client: l.dial(t, peer4), Plan: p}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if r == nil {
		t.FailNow()
	}
	return &r.Cells[0]
}
