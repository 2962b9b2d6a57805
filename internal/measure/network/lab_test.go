package network

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/stats"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// peerAt makes the test program a peer.
const peerAt = "FETTLE_TEST_NETWORK_PEER"

func TestMain(m *testing.M) {
	at := os.Getenv(peerAt)
	if at == "" {
		os.Exit(m.Run())
	}
	key := NewKey()
	p, err := Listen(host.Live(), netip.MustParseAddrPort(at), key)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(Served{Address: p.Address().String(), Key: key})
	}
	if err == nil {
		ctx, cancel := contextOfInput()
		defer cancel()
		err = p.Serve(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// lab has three network namespaces: this process, a router, and a peer. The devices are c (here),
// rc and rp (router), p (peer).
type lab struct {
	t *testing.T
}

func newLab(t *testing.T) *lab {
	l := &lab{t}
	l.do(`ip link set lo up; ip netns add router; ip netns add peer
ip link add c type veth peer name rc netns router
ip -n router link add rp type veth peer name p netns peer
ip addr add 10.9.1.2/24 dev c; ip -n router addr add 10.9.1.1/24 dev rc; ip -n router addr add 10.9.2.1/24 dev rp; ip -n peer addr add 10.9.2.2/24 dev p
ip -6 addr add 2001:db8:1::2/64 nodad dev c; ip -n router -6 addr add 2001:db8:1::1/64 nodad dev rc; ip -n router -6 addr add 2001:db8:2::1/64 nodad dev rp; ip -n peer -6 addr add 2001:db8:2::2/64 nodad dev p
ip link set c up; ip -n router link set rc up; ip -n router link set rp up; ip -n peer link set p up; ip -n peer link set lo up
ip route add default via 10.9.1.1; ip -n peer route add default via 10.9.2.1
ip -6 route add default via 2001:db8:1::1; ip -n peer -6 route add default via 2001:db8:2::1
ip netns exec router sh -ec 'mount -t proc proc /proc; echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'`)
	return l
}

func (l *lab) do(script string) {
	l.t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// during runs commands, and others at the end of the test.
func (l *lab) during(begin, end string) {
	l.t.Helper()
	l.do(begin)
	l.t.Cleanup(func() { l.do(end) })
}

// dial starts a peer in its namespace and connects to it.
func (l *lab) dial(t *testing.T, at string) *Client {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", "peer", os.Args[0])
	cmd.Env = append(os.Environ(), peerAt+"="+at)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var s Served
	if err := json.Unmarshal(line, &s); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), host.Live(), netip.MustParseAddrPort(s.Address), s.Key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const (
	peer4 = "10.9.2.2:0"
	peer6 = "[2001:db8:2::2]:0"
)

// TestPathMTU: on real paths a router's report is told from a black hole, in each direction.
func TestPathMTU(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	newLab(t)
	same := func(w Way) Path { return Path{w, w} }
	for _, x := range []struct {
		name, begin, end string
		want             Path
		want6            Path
	}{
		{"clear", "true", "true", same(Way{1500, ByInterface, 1500}), same(Way{1500, ByInterface, 1500})},
		// The router reports what it cannot send to the peer. A veth device drops what is more than four
		// bytes (a VLAN tag) larger than its own MTU, silently.
		{"a smaller link", "ip -n router link set rp mtu 1400", "ip -n router link set rp mtu 1500",
			Path{Way{1400, ByICMP, 1500}, Way{1404, BlackHole, 1500}}, Path{Way{1400, ByICMP, 1500}, Way{1404, BlackHole, 1500}}},
		{"a blocked report", "ip -n router link set rp mtu 1400; ip -n router route add unreachable 10.9.1.2 table 7; ip -n router rule add iif lo to 10.9.1.2 table 7; ip -n router -6 route add unreachable 2001:db8:1::2 table 7; ip -n router -6 rule add iif lo to 2001:db8:1::2 table 7",
			"ip -n router link set rp mtu 1500; ip -n router rule del iif lo to 10.9.1.2 table 7; ip -n router -6 rule del iif lo to 2001:db8:1::2 table 7",
			Path{Way{1400, BlackHole, 1500}, Way{1404, BlackHole, 1500}}, Path{Way{1400, BlackHole, 1500}, Way{1404, BlackHole, 1500}}},
		{"jumbo frames on one side", "ip link set c mtu 9000; ip -n router link set rc mtu 9000", "ip link set c mtu 1500; ip -n router link set rc mtu 1500",
			Path{Way{1500, ByICMP, 9000}, Way{1500, ByInterface, 1500}}, Path{Way{1500, ByICMP, 9000}, Way{1500, ByInterface, 1500}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &lab{t}
			l.during(x.begin, x.end)
			for at, want := range map[string]Path{peer4: x.want, peer6: x.want6} {
				got, err := l.dial(t, at).path(t.Context())
				if err != nil || got != want {
					t.Errorf("%s: %+v, %v; want %+v", at, got, err, want)
				}
			}
		})
	}
}

// TestShaper: the rate of a token bucket filter is found from the goodput within ten percent,
// with the limit's name and the latency that its queue adds.
func TestShaper(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	l := newLab(t)
	l.do("ip netns exec router tc qdisc add dev rp root tbf rate 50mbit burst 16kb latency 40ms")
	c := l.dial(t, peer4)
	plan := NewPlan()
	plan.For, plan.Cells = 6*time.Second, []Cell{{Kind: Send, Streams: 4}, {Kind: LoadUp, Streams: 4}}
	r, err := (&Bench{Client: c, Plan: plan}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &r.Cells[0]
	if got := wire(s.value(goodput), s.value(mssBytes)) / 1e6; math.Abs(got-50) > 5 || s.Limit.Word != LimitShaper {
		t.Errorf("%.1f Mbit/s, limit %+v", got, s.Limit)
	}
	// The queue holds 40 ms and the burst.
	if added := r.Cells[1].value(addedP50); added < 0.02 || added > 0.06 {
		t.Errorf("the load adds %.1f ms", added*1e3)
	}
	if !strings.Contains(r.Text, "limit: shaper") {
		t.Error(r.Text)
	}
}

// stream measures one cell of throughput to the peer.
func (l *lab) stream(t *testing.T, streams int) *Result {
	t.Helper()
	plan := NewPlan()
	plan.For, plan.Cells = 3*time.Second, []Cell{{Kind: Send, Streams: streams}}
	r, err := (&Bench{Client: l.dial(t, peer4), Plan: plan}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finds measures streams until the result is as wanted, at most five times, because other tests use the
// machine too.
func (l *lab) finds(streams int, wanted func(*Result, *Summary) bool) {
	l.t.Helper()
	for range 5 {
		r := l.stream(l.t, streams)
		s := &r.Cells[0]
		if wanted(r, s) {
			return
		}
		l.t.Logf("%+v, %v, window %.2f, buffer %.0f, interrupts %.2f, idle %.2f", s.Limit, r.Doubts, s.value(rwndShare), s.value(rcvbufBytes), s.value(interruptsHere), s.value(interruptsIdleHere))
	}
	l.t.Error("not found in five runs")
}

// TestLimitsOfEnds: the limits that the kernel's counts name are found where they are set: the
// maximum of the receiver's buffer, a shaper on the path, and a processor that serves all
// interrupts. A busy machine is said.
func TestLimitsOfEnds(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	newLab(t)
	rmem := func(values string) string {
		return "ip netns exec peer sh -ec 'mount -t proc proc /proc; echo " + values + " >/proc/sys/net/ipv4/tcp_rmem'"
	}
	t.Run("receive window", func(t *testing.T) {
		l := &lab{t}
		l.during(rmem("4096 8192 8192"), rmem("4096 131072 6291456"))
		// Without a delay on the path, a window of 8 KiB takes much processor time too, so that on a
		// busy machine, which the bench reports, processors may be the limit.
		l.finds(1, func(r *Result, s *Summary) bool {
			return s.Limit.Word == LimitWindow && s.Limit.Where == "peer" && s.value(rwndShare) >= 0.5 && strings.Contains(s.Limit.Do, "tcp_rmem") ||
				len(r.Doubts) > 0 && s.value(rwndShare) > 0.25
		})
	})
	t.Run("path", func(t *testing.T) {
		l := &lab{t}
		l.during("ip netns exec router tc qdisc add dev rp root tbf rate 50mbit burst 16kb latency 40ms", "ip netns exec router tc qdisc del dev rp root")
		r := l.stream(t, 1)
		if s := &r.Cells[0]; s.Limit.Word != LimitShaper || s.value(pathShare) < 0.8 {
			t.Errorf("%+v, path %.2f", s.Limit, s.value(pathShare))
		}
	})
	t.Run("busy machine", func(t *testing.T) {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		if err := spin.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = spin.Process.Kill(); _ = spin.Wait() }()
		if r := (&lab{t}).stream(t, 1); len(r.Doubts) == 0 || !strings.Contains(r.Text, "other programs used") {
			t.Errorf("%q", r.Text)
		}
	})
	t.Run("interrupts", func(t *testing.T) {
		l := &lab{t}
		// Small packets, which processor 0 forwards and receives; the programs have the others.
		l.do(fmt.Sprintf("taskset -acp 1-%d %d", runtime.NumCPU()-1, os.Getpid()))
		l.do(`for d in c:- rc:router rp:router p:peer; do n=${d#*:}; set -- ${d%:*}; e=; [ $n = - ] || e="-n $n"; ip $e link set $1 mtu 576 gso_max_segs 1; done
ip netns exec router sh -ec 'echo 1 >/sys/class/net/rc/queues/rx-0/rps_cpus; echo 1 >/sys/class/net/rp/queues/rx-0/rps_cpus'; ip netns exec peer sh -ec 'echo 1 >/sys/class/net/p/queues/rx-0/rps_cpus'`)
		// Where other programs take half of the machine, interrupts cannot have more than the rest.
		l.finds(8, func(r *Result, s *Summary) bool {
			return s.value(interruptsHere) >= 0.3 && s.value(interruptsIdleHere) <= interruptsIdle && (len(r.Doubts) > 0 || s.Limit.Word == LimitInterrupts)
		})
	})
}

// contextOfInput ends with standard input.
func contextOfInput() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// TestOwnQueue: what the sender's own queue drops is lost, and what it delays is a delay of the path,
// on either end.
func TestOwnQueue(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	newLab(t)
	for _, on := range []string{"c", "p"} {
		t.Run(on, func(t *testing.T) {
			l := &lab{t}
			c := l.dial(t, peer4)
			in := map[string]string{"p": "ip netns exec peer "}[on]
			l.during(in+"tc qdisc add dev "+on+" root tbf rate 300kbit burst 2kb latency 10ms", in+"tc qdisc del dev "+on+" root")
			train, err := c.probes(t.Context(), 500*time.Millisecond, time.Millisecond, DefaultSize)
			if err != nil {
				t.Fatal(err)
			}
			// 214 bytes each millisecond are 1.7 Mbit/s. The queue holds 2.4 kB, for 60 ms; a busy machine may add some.
			up, down := train.lost()
			if rtt := stats.Median(train.rttsS); max(up, down) < 0.6 || max(up, down) > 0.95 || min(up, down) > 0 || rtt < 0.03 || rtt > 0.3 || max(train.unstampedHere, train.unstampedPeer) > 0 {
				t.Errorf("%.2f and %.2f of the probes were lost, round trip %.1f ms, %.2f of the probes and %.2f of the replies without the kernel's time", up, down, rtt*1e3, train.unstampedHere, train.unstampedPeer)
			}
		})
	}
}

// TestBlackHole: throughput behind a black hole is an error that names it.
func TestBlackHole(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	l := newLab(t)
	l.do("ip -n router link set rp mtu 1400; ip -n router route add unreachable 10.9.1.2 table 7; ip -n router rule add iif lo to 10.9.1.2 table 7")
	plan := NewPlan()
	plan.For, plan.Cells = 2*time.Second, []Cell{{Kind: Send, Streams: 1}}
	_, err := (&Bench{Client: l.dial(t, peer4), Plan: plan}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "send 1400 bytes") || !strings.Contains(err.Error(), "black hole") {
		t.Error(err)
	}
}
