package network

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
)

// peer serves one client on a loopback address until the test ends.
func peer(t *testing.T) (*Peer, string, chan error) {
	t.Helper()
	key := NewKey()
	p, err := Listen(host.Live(), netip.MustParseAddrPort("127.0.0.1:0"), key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	t.Cleanup(cancel)
	return p, key, ended
}

func TestParseCells(t *testing.T) {
	for _, c := range Cells() {
		if got, err := ParseCell(c.Name()); err != nil || got != c {
			t.Errorf("%s: %v, %v", c.Name(), got, err)
		}
	}
	for _, list := range []string{"", "send", "send-0", "send-129", "send-+1", "send-1k", "request-", "request-1025k", "request--1", "udp-1", "loaded", "send-1,send-1", "udp,", "send-1-1"} {
		if cells, err := ParseCells(list); err == nil {
			t.Errorf("%q: %v", list, cells)
		}
	}
}

// TestKey: a client without the key gets nothing and does not disturb; the one with it is the
// only one, and the peer ends with it.
func TestKey(t *testing.T) {
	t.Parallel()
	p, key, ended := peer(t)
	for range 3 {
		if _, err := Dial(t.Context(), host.Live(), p.Address(), NewKey()); !errors.Is(err, ErrKey) {
			t.Errorf("another key: %v", err)
		}
	}
	silent, err := net.Dial("tcp", p.Address().String()) // says nothing, and does not block others
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), host.Live(), p.Address(), key); err == nil || !strings.Contains(err.Error(), "another client") {
		t.Errorf("a second client: %v", err)
	}
	c.Close()
	if err := <-ended; err != nil {
		t.Errorf("the peer ended with %v", err)
	}
}

// TestStrangers: datagrams and connections without the session's token are not answered.
func TestStrangers(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	u, err := net.Dial("udp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	probe := make([]byte, 100)
	probe[atKind] = echoProbe
	tag := c.session.tag()
	right := append([]byte(nil), probe...)
	copy(right, tag[:])
	short := right[:probeSize-1]
	answer := append([]byte(nil), right...)
	answer[atKind] = reply
	for name, text := range map[string][]byte{"no tag": probe, "short": short, "an answer": answer, "one byte": {1}} {
		_, _ = u.Write(text)
		_ = u.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := u.Read(make([]byte, 200)); err == nil {
			t.Errorf("%s: %d bytes came back", name, n)
		}
	}
	_, _ = u.Write(right)
	_ = u.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := u.Read(make([]byte, 200)); err != nil || n != len(right) {
		t.Errorf("with the tag: %d bytes, %v", n, err)
	}
	conn, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, 30)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := conn.Read(make([]byte, 10)); err == nil {
		t.Errorf("a connection without the token: %d bytes", n)
	}
}

// TestRefusedJobs: a peer bounds what a client asks for.
func TestRefusedJobs(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, j := range []streamJob{{Streams: 0, For: time.Second, Bytes: 1}, {Streams: maxStreams + 1, For: time.Second, Bytes: 1}, {Streams: 1, For: maxRun + 1, Bytes: 1}, {Streams: 1, For: -1, Bytes: 1}, {Streams: 1, For: 1}} {
		if _, err := c.ask(t.Context(), request{Stream: &j}, greeting); err == nil || !strings.Contains(err.Error(), "refuses") {
			t.Errorf("%+v: %v", j, err)
		}
	}
	if _, err := c.ask(t.Context(), request{}, greeting); err == nil {
		t.Error("an empty message was answered")
	}
}

// TestBench measures the loopback device: every cell has its quantities, and the record can be
// read again.
func TestBench(t *testing.T) {
	t.Parallel()
	p, key, ended := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	plan := NewPlan()
	plan.For, plan.Bytes, plan.Every = time.Second, 16<<30, 200*time.Microsecond
	if testing.Short() { // one cell of each kind
		plan.Cells = []Cell{{Kind: Send, Streams: 2}, {Kind: Request, Size: 1}, {Kind: Probes}, {Kind: LoadDown, Streams: 2}}
	}
	rounds := 0
	b := Bench{Client: c, Plan: plan, Finished: func(r *Result) error {
		if rounds++; r.Cut == nil || r.Cut.Done != rounds {
			t.Errorf("round %d: %+v", rounds, r.Cut)
		}
		return nil
	}}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if rounds != Rounds-1 || r.Cut != nil || len(r.Cells) != len(plan.Cells) || len(r.Series) != len(plan.Cells) {
		t.Fatalf("%d rounds, %d cells, %d series, %+v", rounds, len(r.Cells), len(r.Series), r.Cut)
	}
	for i, s := range r.Cells {
		cell := plan.Cells[i]
		if len(r.Series[i].Samples) != Rounds || s.Cell != cell.Name() || s.Runs != Rounds {
			t.Errorf("%s: %+v", s.Cell, r.Series[i])
		}
		want := map[Kind][]string{
			Send: {goodput, retransmits, loadedRTT, idleRTT, cpuHere, cpuThere, mssBytes}, Receive: {goodput, retransmits, loadedRTT, idleRTT, cpuHere, cpuThere, mssBytes},
			Request: {rate, p50}, Probes: {p50, jitterUp, jitterDown, lossUp, lossDown, orderUp, orderDown}, LoadUp: {addedP50, idleP50, loadP50}, LoadDown: {addedP50, idleP50, loadP50},
		}[cell.Kind]
		for _, name := range want {
			f, ok := s.Figure(name)
			if !ok || math.IsNaN(f.Value) || f.Interval == nil || f.Interval[0] > f.Value || f.Interval[1] < f.Value {
				t.Errorf("%s: %s: %+v", s.Cell, name, f)
			}
		}
		if (cell.Kind == Send || cell.Kind == Receive) != (s.Limit != nil) {
			t.Errorf("%s: limit %+v", s.Cell, s.Limit)
		}
	}
	if r.Path.Up.MTU != 65535 && r.Path.Up.MTU != r.Local.MTU || r.Path.Up.How != ByInterface || r.Local.Interface != "lo" {
		t.Errorf("%+v %+v", r.Path, r.Local)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if series, err := evidence.SeriesOf(&evidence.Run{Body: text}); err != nil || len(series) != len(plan.Cells) {
		t.Errorf("%v, %v", series, err)
	}
}

// TestInterrupted: what was measured before Ctrl-C is kept.
func TestInterrupted(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plan := NewPlan()
	plan.For, plan.Cells = 300*time.Millisecond, []Cell{{Kind: Probes}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := Bench{Client: c, Plan: plan, Progress: func(done, _ int, _ Cell) {
		if done == 3 {
			cancel()
		}
	}}
	r, err := b.Run(ctx)
	if !errors.Is(err, context.Canceled) || r == nil || r.Cut == nil || r.Cut.Done != 3 || len(r.Series[0].Samples) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPeerLost: the end of the peer in the middle is an error that names it.
func TestPeerLost(t *testing.T) {
	key := NewKey()
	p, err := Listen(host.Live(), netip.MustParseAddrPort("127.0.0.1:0"), key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	go func() { _ = p.Serve(ctx) }()
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plan := NewPlan()
	plan.For, plan.Cells = 300*time.Millisecond, []Cell{{Kind: Send, Streams: 2}, {Kind: Request, Size: 1}}
	b := Bench{Client: c, Plan: plan, Progress: func(done, _ int, _ Cell) {
		if done == 5 {
			kill()
		}
	}}
	r, err := b.Run(t.Context())
	if err == nil || r == nil || r.Cut == nil || !strings.Contains(err.Error(), p.Address().String()) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWay counts a direction as RFC 4737 does, with the mean of the differences that RFC 3550 smooths.
func TestWay(t *testing.T) {
	for name, x := range map[string]struct {
		seqs    []uint32
		transit []float64
		want    wayReport
	}{
		"in order":  {[]uint32{0, 1, 2, 3}, []float64{5, 5, 5, 5}, wayReport{Received: 4}},
		"late":      {[]uint32{0, 2, 3, 1, 4}, []float64{5, 5, 5, 5, 5}, wayReport{Received: 5, Reordered: 1}},
		"twice":     {[]uint32{0, 1, 1, 2}, []float64{5, 5, 5, 5}, wayReport{Received: 3, Duplicates: 1}},
		"lost":      {[]uint32{0, 3}, []float64{5, 5}, wayReport{Received: 2}},
		"jitter":    {[]uint32{0, 1, 2}, []float64{5, 21, 5}, wayReport{Received: 3, JitterS: 16}},
		"of clocks": {[]uint32{0, 1, 2}, []float64{-1e6, -1e6, -1e6}, wayReport{Received: 3}},
	} {
		var w way
		for i, seq := range x.seqs {
			w.take(seq, x.transit[i])
		}
		if got := w.report(0); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}

// TestSlowPeer: probes that have come are not lost, however late the peer's program reads them, and
// also if its buffer was too small for them.
func TestSlowPeer(t *testing.T) {
	for name, buffer := range map[string]int{"read late": arrivals, "small buffer": 16 << 10} {
		t.Run(name, func(t *testing.T) {
			p, key, _ := peer(t)
			if err := withFD(p.udp, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) }); err != nil {
				t.Fatal(err)
			}
			c, err := Dial(t.Context(), host.Live(), p.Address(), key)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p.reflector.mu.Lock() // the peer's program does not run
			release := time.AfterFunc(400*time.Millisecond, p.reflector.mu.Unlock)
			defer release.Stop()
			run := 200 * time.Millisecond // ends before
			if buffer < arrivals {
				run = 800 * time.Millisecond // the kernel tells of what was dropped with the next one
			}
			train, err := c.probes(t.Context(), run, time.Millisecond, 100)
			if err != nil {
				t.Fatal(err)
			}
			up, down := train.lost()
			if up != 0 || down != 0 || (train.up.Overflowed > 0) != (buffer < arrivals) {
				t.Errorf("%.2f and %.2f lost of %d: %+v %+v", up, down, train.sent(), train.up, train.down)
			}
		})
	}
}

// TestSearch finds the path MTU of made-up paths.
func TestSearch(t *testing.T) {
	c := &Client{Peer: netip.MustParseAddrPort("192.0.2.1:1")}
	for name, x := range map[string]struct {
		most  int
		probe func(size int) (fate, int)
		want  Way
	}{
		"clear":      {1500, func(int) (fate, int) { return arrived, 0 }, Way{1500, ByInterface, 1500}},
		"jumbo":      {9000, func(int) (fate, int) { return arrived, 0 }, Way{9000, ByInterface, 9000}},
		"nothing":    {1500, func(int) (fate, int) { return lostProbe, 0 }, Way{0, NoAnswer, 1500}},
		"black hole": {9000, upTo(1450, lostProbe, 0), Way{1450, BlackHole, 9000}},
		"least":      {1500, upTo(576, lostProbe, 0), Way{576, BlackHole, 1500}},
		"told":       {1500, upTo(1414, told, 1414), Way{1414, ByICMP, 1500}},
		"told wrong": {1500, upTo(1414, told, 1450), Way{1414, ByICMP, 1500}},
		"told zero":  {1500, upTo(1000, told, 0), Way{1000, ByICMP, 1500}},
		"told, then a black hole": {9000, func(size int) (fate, int) {
			if size > 1500 {
				return told, 1500
			}
			return upTo(1414, lostProbe, 0)(size)
		}, Way{1414, BlackHole, 9000}},
		"small interface": {1280, upTo(1280, refused, 0), Way{1280, ByInterface, 1280}},
		"loopback":        {65536, func(int) (fate, int) { return arrived, 0 }, Way{65535, ByInterface, 65536}},
	} {
		asked := 0
		got, err := c.way(t.Context(), x.most, func(size int) (fate, int, error) {
			if asked++; size > 65535 {
				t.Errorf("%s: probed %d", name, size)
			}
			f, mtu := x.probe(size)
			return f, mtu, nil
		})
		if err != nil || got != x.want || asked > 40 {
			t.Errorf("%s: %+v, %v after %d probes; want %+v", name, got, err, asked, x.want)
		}
	}
}

func upTo(mtu int, above fate, reported int) func(int) (fate, int) {
	return func(size int) (fate, int) {
		if size <= mtu {
			return arrived, 0
		}
		return above, reported
	}
}

// TestGoodput leaves out the start and what came after the end.
func TestGoodput(t *testing.T) {
	run, warm := time.Second, 250*time.Millisecond
	n := int(run / slot)
	steady := make([]int64, n+50)
	slow := make([]int64, n)
	for i := range steady {
		steady[i] = 5000
	}
	for i := range slow {
		slow[i] = int64(min(i, 50)) * 100
	}
	for name, x := range map[string]struct {
		slots []int64
		want  float64
	}{
		"steady":         {steady, 1e6},
		"slow start":     {slow, 1e6},
		"ended by bytes": {steady[:20], 1e6},
		"nothing":        {nil, 0},
		"one block":      {[]int64{1000}, 0},
	} {
		r := streamReport{Slots: x.slots}
		if got := r.goodput(run, warm); math.Abs(got-x.want) > 0.01*x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// TestShareOfEarlyEnd: a run that ends by its bytes used the processor for as long as it took.
func TestShareOfEarlyEnd(t *testing.T) {
	slots := make([]int64, 20) // 100 ms of a second
	for i := range slots {
		slots[i] = 5000
	}
	end := &streamReport{Slots: slots, processors: processors{CPU: 0.095, Wall: 0.1}}
	v, err := (&streamRun{sender: end, receiver: end, here: end, there: end}).sample(time.Second, 250*time.Millisecond, End{}, End{})
	if err != nil || math.Abs(v[cpuShareHere]-0.95) > 1e-9 || math.Abs(v[cpuSharePeer]-0.95) > 1e-9 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestCut: a bench that fails after a round ended, and one that a signal ended was interrupted.
func TestCut(t *testing.T) {
	for want, end := range map[string]func(c *Client, cancel func()){
		"ended after 1 of 10 rounds: ":       func(c *Client, _ func()) { c.Close() },
		"interrupted after 1 of 10 rounds: ": func(_ *Client, cancel func()) { cancel() },
	} {
		p, key, _ := peer(t)
		c, err := Dial(t.Context(), host.Live(), p.Address(), key)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		plan := NewPlan()
		plan.For, plan.Cells = time.Second, []Cell{{Kind: Request, Size: 1}}
		r, err := (&Bench{Client: c, Plan: plan, Finished: func(*Result) error { end(c, cancel); return nil }}).Run(ctx)
		if err == nil || r == nil || !strings.HasPrefix(r.Text, want) || (r.Cut.Failed == "") != (ctx.Err() != nil) {
			t.Errorf("%s: %v: %+v", want, err, r)
		}
	}
}

// TestLimit names what bounds the throughput.
func TestLimit(t *testing.T) {
	base := map[string]float64{goodput: 900e6, loadedRTT: 0.0003, idleRTT: 0.0002, retransmits: 0, programShare: 0.1, rwndShare: 0.05, sndbufShare: 0.05, pathShare: 0.8, rcvbufBytes: 6 << 20, interruptsIdleHere: 0.5, interruptsIdlePeer: 0.5, droppedHere: 0, droppedPeer: 0, mssBytes: 1448, cpuShareHere: 0.2, cpuSharePeer: 0.2, interruptsHere: 0.1, interruptsPeer: 0.1, busyHere: 0.3, busyPeer: 0.3}
	for name, x := range map[string]struct {
		kind  Kind
		with  map[string]float64
		more  float64 // throughput of eight streams against one
		word  string
		where string
	}{
		"nothing":           {Send, nil, 1, LimitUnknown, ""},
		"window":            {Send, map[string]float64{rwndShare: 0.9, loadedRTT: 0.05}, 4, LimitWindow, "peer"},
		"window may grow":   {Send, map[string]float64{rwndShare: 0.9, rcvbufBytes: 1 << 20}, 4, LimitCPU, "peer"},
		"window, receive":   {Receive, map[string]float64{rwndShare: 0.9}, 4, LimitWindow, "here"},
		"buffer":            {Send, map[string]float64{sndbufShare: 0.7, pathShare: 0.2}, 4, LimitBuffer, "here"},
		"buffer, receive":   {Receive, map[string]float64{sndbufShare: 0.7, pathShare: 0.2}, 4, LimitBuffer, "peer"},
		"thread":            {Send, map[string]float64{cpuSharePeer: 0.95}, 2, LimitCPU, "peer"},
		"sender":            {Receive, map[string]float64{programShare: 0.9}, 2, LimitCPU, "peer"},
		"interrupts":        {Send, map[string]float64{interruptsHere: 0.6, interruptsIdleHere: 0.01}, 1, LimitInterrupts, "here"},
		"idle between":      {Send, map[string]float64{interruptsHere: 0.6, interruptsIdleHere: 0.3}, 1, LimitUnknown, ""},
		"full queue":        {Send, map[string]float64{droppedPeer: 40, retransmits: 0.02}, 1, LimitInterrupts, "peer"},
		"lossy, and busy":   {Send, map[string]float64{retransmits: 0.02, busyHere: 1}, 1.05, LimitPolicer, ""},
		"shaper":            {Send, map[string]float64{loadedRTT: 0.03}, 1, LimitShaper, ""},
		"policer":           {Send, map[string]float64{retransmits: 0.02}, 1.05, LimitPolicer, ""},
		"loss":              {Send, map[string]float64{retransmits: 0.02}, 7, LimitLoss, ""},
		"busy, but a queue": {Send, map[string]float64{loadedRTT: 0.03, busyHere: 1}, 1, LimitShaper, ""},
		"busy machine":      {Send, map[string]float64{busyHere: 1}, 1, LimitCPU, "here"},
	} {
		values := map[string]float64{}
		for k, v := range base {
			values[k] = v
		}
		for k, v := range x.with {
			values[k] = v
		}
		cells := []Cell{{Kind: x.kind, Streams: 1}, {Kind: x.kind, Streams: 8}}
		r := Result{Local: End{CPUs: 2}, Remote: End{CPUs: 2, RmemMax: 6 << 20}}
		for i, c := range cells {
			s := Summary{Cell: c.Name()}
			for k, v := range values {
				if k == goodput && i == 1 {
					v *= x.more
				}
				s.Figures = append(s.Figures, Figure{Name: k, Value: v})
			}
			r.Cells = append(r.Cells, s)
		}
		r.limits(host.Live(), cells)
		if got := r.Cells[0].Limit; got == nil || got.Word != x.word || got.Where != x.where {
			t.Errorf("%s: %+v, want %s %s", name, got, x.word, x.where)
		}
	}
}

// TestDoubts: the processor time of others is said, with the cell that had most of it.
func TestDoubts(t *testing.T) {
	cell := func(name string, v float64) Summary { return Summary{Figures: []Figure{{Name: name, Value: v}}} }
	for want, cells := range map[string][]Summary{
		"": {cell(othersHere, 0.05), cell(stolenPeer, 0.01)},
		"here other programs used 40 % of the processors":     {cell(othersHere, 0.2), cell(othersHere, 0.4)},
		"at the peer other guests took 8 % of the processors": {cell(stolenPeer, 0.08)},
	} {
		if got := strings.Join((&Result{Cells: cells}).doubts(), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	p := processors{CPU: 0.5, Wall: 1, Programs: 0.6} // of 2 processors
	if own, both, unknown := p.others(2, 0), p.others(2, 0.5), p.others(0, 0); math.Abs(own-0.35) > 1e-9 || math.Abs(both-0.1) > 1e-9 || unknown != -1 {
		t.Errorf("%v, %v, %v", own, both, unknown)
	}
}

// FuzzReflector: whatever comes, a reply is a probe of the session's, and never longer than the
// request allows.
func FuzzReflector(f *testing.F) {
	session := session{key: NewKey()}
	tag := session.tag()
	valid := make([]byte, 60)
	copy(valid, tag[:])
	valid[atKind] = sizedReply
	f.Add(valid)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		r := reflector{tag: tag}
		size := len(p)
		kind := byte(0)
		if size >= probeSize {
			kind = p[atKind]
		}
		out, _ := r.answer(p, time.Unix(0, 0), 0)
		if out == nil {
			return
		}
		if [8]byte(out) != tag || out[atKind] != reply || kind != sizedReply && len(out) > size || len(out) > 65535 {
			t.Errorf("%d bytes of kind %d have a reply of %d bytes", size, kind, len(out))
		}
	})
}
