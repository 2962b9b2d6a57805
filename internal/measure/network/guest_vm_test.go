package network

import (
	"math"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// netemRuns makes TestNetem measure so many times.
const netemRuns = "FETTLE_TEST_NETWORK_NETEM"

// TestNetemInGuest: what netem does to a path is found, in a guest whose kernel has netem. The
// cases run at the same time, each in its own namespaces.
func TestNetemInGuest(t *testing.T) {
	testkitroot.Nightly(t, "a virtual machine")
	m := testkitvm.Boot(t, testkitvm.Options{})
	m.Put(os.Args[0], "/root/network.test")
	runs := os.Getenv(netemRuns)
	if runs == "" {
		runs = "100"
	}
	for _, x := range netemCases {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			out, code := m.RunFor(4*time.Hour, `cd /root; mkdir -p /run/netns; `+netemRuns+`=`+runs+` unshare --net --mount sh -c "mount -t tmpfs none /run/netns && exec ./network.test -test.run '^TestNetem$/^`+x.name+`$' -test.v -test.timeout 4h" 2>&1`)
			t.Log(out)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// netemCase is a discipline on the way to the peer, and what it does to probes.
type netemCase struct {
	name, netem string
	every, run  time.Duration
	injected    map[string]float64
}

// The numbers of probes make an interval of ten percent each way probable.
var netemCases = []netemCase{
	{"loss", "delay 20ms loss 10% limit 100000", time.Millisecond, 20 * time.Second, map[string]float64{p50: 0.020, lossUp: 0.10}},
	// Uniform between 6 and 14 ms: two neighbors differ by a third of the width.
	{"jitter", "delay 10ms 4ms", 10 * time.Millisecond, 30 * time.Second, map[string]float64{jitterUp: 0.008 / 3}},
	// A delayed packet (60 %) is overtaken if one of the next two is not delayed.
	{"reordering", "delay 25ms reorder 40% 0%", 10 * time.Millisecond, 20 * time.Second, map[string]float64{orderUp: 0.6 * (1 - 0.6*0.6)}},
}

// TestNetem injects delay, loss, jitter and reordering, and finds each in at least 90 of 100 runs,
// with an interval of at most ten percent each way. In an emulated machine netem's own timers are
// late, by a time that varies. So the truth is what the kernel's captures on both sides of netem say
// about the same packets, and where its own interval is wider than ten percent, no bench can have a
// narrower one. The injected value is compared with the truth roughly. TestNetemInGuest runs it.
func TestNetem(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv(netemRuns))
	if err != nil {
		t.Skip("TestNetemInGuest runs it")
	}
	l := newLab(t)
	atClient, atPeer := captureOn(t, "", "c"), captureOn(t, "peer", "p")
	for _, x := range netemCases {
		t.Run(x.name, func(t *testing.T) {
			found, wide := map[string]int{}, map[string]int{}
			l.do("ip netns exec router tc qdisc add dev rp root netem " + x.netem)
			defer l.do("ip netns exec router tc qdisc del dev rp root")
			for range runs {
				atClient.packets()
				atPeer.packets()
				p := NewPlan()
				p.Cells, p.Every, p.For = []Cell{{Kind: Probes}}, x.every, x.run
				s := l.once(t, p)
				truth := truthOf(atClient.packets(), atPeer.packets())
				for name, injected := range x.injected {
					f, _ := s.Figure(name)
					actual := truth.figures[name]
					value := actual.Value
					word := "missed"
					switch {
					case math.Abs(f.Value-value) > 0.1*value:
					case halfWidth(f) <= 0.1:
						word = "found"
						found[name]++
					case halfWidth(actual) > 0.1: // the path itself varied so much between the runs
						word = "found, with an interval as wide as the path needs"
						found[name]++
						wide[name]++
					}
					t.Logf("%s: %.4g %.4g, truth %.4g %.4g, injected %.4g: %s", name, f.Value, *f.Interval, value, *actual.Interval, injected, word)
					// netem's timers are late in an emulated machine, never early, and late packets are overtaken
					// more often.
					if value < 0.8*injected || name == lossUp && value > 1.2*injected {
						t.Errorf("%s is %.4g on the path, and %.4g was injected", name, value, injected)
					}
				}
			}
			for name := range x.injected {
				t.Logf("%s found in %d of %d runs, in %d of them where the path itself varied by more than ten percent", name, found[name], runs, wide[name])
				if found[name]*10 < runs*9 {
					t.Errorf("%s found in %d of %d runs", name, found[name], runs)
				}
			}
			out, _ := exec.Command("ip", "netns", "exec", "router", "tc", "-s", "qdisc", "show", "dev", "rp").CombinedOutput()
			t.Logf("%s", out)
		})
	}
}

// halfWidth returns the larger half of an interval as a share of its value.
func halfWidth(f Figure) float64 {
	if f.Interval == nil {
		return math.Inf(1)
	}
	return max(f.Interval[1]-f.Value, f.Value-f.Interval[0]) / f.Value
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
