package network

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// TestDepartures: the kernel gives the time of each probe and reply. Without it, the program's time
// counts, and the result says so.
func TestDepartures(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	train, err := c.probes(t.Context(), 100*time.Millisecond, time.Millisecond, DefaultSize)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range train.left {
		if i > 0 && d.At <= train.left[i-1].At {
			t.Errorf("probe %d left at %d, the one before at %d", i, d.At, train.left[i-1].At)
		}
	}
	if train.unstamped != 0 || len(train.left) < 50 || train.up.JitterS <= 0 || train.down.JitterS <= 0 {
		t.Errorf("%.2f of %d probes have no time of the kernel; jitter %v and %v", train.unstamped, len(train.left), train.up.JitterS, train.down.JitterS)
	}
	if err := withFD(p.udp, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0) }); err != nil {
		t.Fatal(err)
	}
	c.sender.control = nil
	plan := NewPlan()
	plan.For, plan.Cells = time.Second, []Cell{{Kind: Probes}}
	r, err := (&Bench{Client: c, Plan: plan}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := &r.Cells[0]; s.value(unstamped) != 1 || s.value(p50) <= 0 || s.value(jitterUp) <= 0 || !strings.Contains(r.Text, "the kernel gave no time for 100 % of the probes of udp") {
		t.Errorf("%q, %+v", r.Text, s)
	}
}

// TestLog: a log of several messages arrives whole, and a log that cannot be is refused.
func TestLog(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var want []passage
	for i := range 2*maxPassages + 1 {
		want = append(want, passage{Seq: uint32(i), Came: int64(i) << 40, Left: departure{At: -int64(i), Kernel: i%2 == 0}})
	}
	p.mu.Lock()
	p.reflector.train, p.reflector.passages, p.reflector.overflowed = 7, want, overflows{count: 3}
	p.mu.Unlock()
	if got, overflowed, err := c.log(t.Context(), 7); err != nil || overflowed != 3 || !slices.Equal(got, want) {
		t.Errorf("%d of %d probes, %d overflowed, %v", len(got), len(want), overflowed, err)
	}
	if got, _, err := c.log(t.Context(), 8); err != nil || len(got) != 0 {
		t.Errorf("a train that has not come: %d probes, %v", len(got), err)
	}
	if _, err := (&trainLog{Part: make([]byte, 22)}).passages(); err == nil {
		t.Error("22 bytes are a log")
	}
	sentNothing := &train{client: c}
	if err := sentNothing.sum(want[:1], 0); err == nil {
		t.Error("a probe that was not sent is in the results")
	}
}
