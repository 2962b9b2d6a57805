package network

import (
	"math"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// TestCostOf compares runs of the same round, so what differs between rounds cancels out.
func TestCostOf(t *testing.T) {
	var outside, inside []sample
	for i := range Rounds {
		speed := float64(1 + i%5) // of the machine in this round
		outside = append(outside, sample{goodput: 1e9 * speed, cpuHere: 0.2 / speed, cpuThere: 0.3 / speed, mssBytes: 1448, p50: 0.001 * speed})
		inside = append(inside, sample{goodput: 0.6e9 * speed, cpuHere: 0.4 / speed, cpuThere: 0.6 / speed, mssBytes: 1398, p50: 0.001*speed + 0.0002})
	}
	send, ask := costOf(Cell{Kind: Send, Streams: 1}, outside, inside), costOf(Cell{Kind: Request, Size: 1}, outside, inside)
	for _, x := range []struct {
		cost *Cost
		name string
		want float64
	}{{&send, goodputFactor, 0.6}, {&send, headersFactor, 1398. / 1448}, {&send, cpuFactor, 2}, {&ask, addedP50, 0.0002}} {
		f, is := x.cost.Figure(x.name)
		if !is || math.Abs(f.Value-x.want) > 1e-9 || f.Interval == nil || f.Interval[1]-f.Interval[0] > 1e-9 {
			t.Errorf("%s: %+v, want %v exactly", x.name, f, x.want)
		}
	}
	if _, is := ask.Figure(goodputFactor); is {
		t.Error("a request has a goodput")
	}
	if c := costOf(Cell{Kind: Send, Streams: 1}, outside, []sample{{goodput: 1}}); len(c.Figures) != 1 {
		t.Errorf("unknown CPU time and headers: %+v", c)
	}
}

// TestNoDifference: a headline names a difference only if its interval does not contain 0.
func TestNoDifference(t *testing.T) {
	for _, x := range []struct {
		cell, name string
		figure     Figure
		want       string
	}{
		{"request-1", addedP50, Figure{Value: 5e-6, Interval: &[2]float64{-2e-6, 9e-6}}, "overlay: no measurable difference in request-1"},
		{"request-1", addedP50, Figure{Value: 5e-6, Interval: &[2]float64{2e-6, 9e-6}}, "overlay: request-1 adds 5 us"},
		{"request-1", addedP50, Figure{Value: 5e-6}, "overlay: no measurable difference in request-1"},
		{"send-1", goodputFactor, Figure{Value: 0.98, Interval: &[2]float64{0.9, 1.1}}, "overlay: no measurable difference of goodput in send-1"},
		{"send-1", goodputFactor, Figure{Value: 0.6, Interval: &[2]float64{0.5, 0.7}}, "overlay: 60 % of send-1"},
	} {
		x.figure.Name = x.name
		o := Overlay{Costs: []Cost{{Cell: x.cell, Figures: []Figure{x.figure}}}}
		if got := o.line(&ui.Headline{}); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// TestVXLAN: the network inside VXLAN tunnels is compared with the one outside: the MTU is 50 bytes
// smaller, as size network calculates, and a gigabit takes more CPU time.
func TestVXLAN(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	l := newLab(t)
	l.do(`ip link add vx type vxlan id 7 local 10.9.1.2 remote 10.9.2.2 dstport 4789; ip link set vx mtu 1450 up; ip addr add 10.8.0.1/24 dev vx
ip -n peer link add vx type vxlan id 7 local 10.9.2.2 remote 10.9.1.2 dstport 4789; ip -n peer link set vx mtu 1450 up; ip -n peer addr add 10.8.0.2/24 dev vx`)
	p := NewPlan()
	p.For, p.Cells, p.Overlay = 3*time.Second, []Cell{{Kind: Send, Streams: 1}, {Kind: Request, Size: 1}}, true
	r, err := (&Bench{Client: l.dial(t, peer4), Overlay: l.dial(t, "10.8.0.2:0"), Plan: p}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := r.Overlay
	if o == nil || o.Local.Kind != "vxlan" || o.Path.Up != (Way{1450, ByInterface, 1450}) || r.Path.Up.MTU != 1500 || len(o.Cells) != 2 || len(o.Costs) != 2 || len(r.Series) != 4 {
		t.Fatalf("%+v; outside %+v; %d series", o, r.Path, len(r.Series))
	}
	headers, _ := o.Costs[0].Figure(headersFactor)
	if want := 1398. / 1448; math.Abs(headers.Value-want) > 0.001 {
		t.Errorf("the segments inside are %.4f of those outside, want %.4f", headers.Value, want)
	}
	cpu, is := o.Costs[0].Figure(cpuFactor)
	if !is || cpu.Interval[1] <= 1 { // the lower end depends on what else the machine does
		t.Errorf("CPU time inside to outside: %+v", cpu)
	}
	if added, is := o.Costs[1].Figure(addedP50); !is || math.Abs(added.Value) > 0.01 {
		t.Errorf("a request takes %+v more", added)
	}
}
