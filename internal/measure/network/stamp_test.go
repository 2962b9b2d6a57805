package network

import (
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
	for i, d := range train.sentAt {
		if i > 0 && d.At <= train.sentAt[i-1].At {
			t.Errorf("probe %d left at %d, the one before at %d", i, d.At, train.sentAt[i-1].At)
		}
	}
	if train.unstampedHere != 0 || train.unstampedPeer != 0 || len(train.sentAt) < 50 || train.up.JitterS <= 0 || train.down.JitterS <= 0 {
		t.Errorf("%.2f and %.2f of %d probes have no time of the kernel; jitter %v and %v", train.unstampedHere, train.unstampedPeer, len(train.sentAt), train.up.JitterS, train.down.JitterS)
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
	if s := &r.Cells[0]; s.value(unstampedHere) != 1 || s.value(unstampedPeer) != 1 || s.value(p50) <= 0 || s.value(jitterUp) <= 0 || !strings.Contains(r.Text, "here the kernel gave no sending time for 100 % of the probes of udp") || !strings.Contains(r.Text, "at the peer the kernel gave no sending time for 100 % of the replies of udp") {
		t.Errorf("%q, %+v", r.Text, s)
	}
}
