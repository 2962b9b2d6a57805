package network

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/host"
)

// TestLog: a log of several messages arrives whole, as it was when the first was sent.
func TestLog(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var want []logEntry
	for i := range 2*maxEntries + 1 {
		want = append(want, logEntry{Seq: uint32(i), ReceivedAt: int64(i) << 40, SentAt: departure{At: -int64(i) - 1, Kernel: i%2 == 0}})
	}
	r := &p.reflector
	r.mu.Lock()
	r.train, r.entries, r.overflowed = 7, want, overflows{count: 3}
	r.mu.Unlock()
	if got, overflowed, err := c.log(t.Context(), 7, int64(len(want))); err != nil || overflowed != 3 || !slices.Equal(got, want) {
		t.Errorf("%d of %d probes, %d overflowed, %v", len(got), len(want), overflowed, err)
	}
	if got, _, err := c.log(t.Context(), 8, 1); err != nil || len(got) != 0 {
		t.Errorf("a train that has not come: %d probes, %v", len(got), err)
	}
	r.log(7, 0)
	r.entries = append(r.entries, logEntry{})
	if l := r.log(7, maxEntries); l.Probes != len(want) {
		t.Errorf("%d probes in a later part, want %d", l.Probes, len(want))
	}
	if _, err := (&trainLog{Part: make([]byte, 22)}).entries(); err == nil {
		t.Error("22 bytes are a log")
	}
}

// TestFalseLogs: the client refuses a log that cannot be, before it grows.
func TestFalseLogs(t *testing.T) {
	const sent = 100
	part := func(n int) []byte {
		p, _ := binary.Append(nil, binary.BigEndian, make([]logEntry, n))
		return p
	}
	for want, lie := range map[string]func(from int) trainLog{
		"":                                     func(from int) trainLog { return trainLog{Probes: maxCopies * sent, Part: part(200)} },
		"-1 probes":                            func(int) trainLog { return trainLog{Probes: -1} },
		"401 probes, but 100 were sent":        func(int) trainLog { return trainLog{Probes: maxCopies*sent + 1, Part: part(1)} },
		"10 probes at first, and 12 later":     func(from int) trainLog { return trainLog{Probes: 10 + 2*from, Part: part(1)} },
		"10 probes, but it sent 4":             func(from int) trainLog { return trainLog{Probes: 10, Part: part(max(0, 4-from))} },
		"10 probes, but it sent 11":            func(int) trainLog { return trainLog{Probes: 10, Part: part(11)} },
		"5 probes arrived after its log of 10": func(int) trainLog { return trainLog{Probes: 10, Part: part(10), Unlogged: 5} },
		"want a multiple of 21":                func(int) trainLog { return trainLog{Probes: 1, Part: make([]byte, 22)} },
		"the peer 192.0.2.1:1 is lost":         func(int) trainLog { time.Sleep(time.Second); return trainLog{Probes: 10, Part: part(1)} }, // 10 s
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			go func() {
				for in := json.NewDecoder(there); ; {
					var q request
					if in.Decode(&q) != nil {
						return
					}
					l := lie(q.From)
					_ = json.NewEncoder(there).Encode(answer{Train: &l})
				}
			}()
			c := &Client{Peer: netip.MustParseAddrPort("192.0.2.1:1"), control: newControl(here)}
			all, _, err := c.log(t.Context(), 1, sent)
			if want == "" && (err != nil || len(all) != maxCopies*sent) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%d probes, %v; want %q", len(all), err, want)
			}
		})
	}
}

// TestFalseCounts: a train with entries or counts of the peer that cannot be is an error.
func TestFalseCounts(t *testing.T) {
	kernel := func(at time.Duration) departure { return departure{At: int64(at), Kernel: true} }
	entry := func(seq uint32, received, sent time.Duration) logEntry {
		return logEntry{Seq: seq, ReceivedAt: int64(received), SentAt: kernel(sent)}
	}
	good := []logEntry{entry(0, 1, 2), entry(1, 3, 4)}
	twice := append(slices.Clone(good), entry(1, 5, 6))
	for name, x := range map[string]struct {
		entries    []logEntry
		overflowed int64
		valid      bool
	}{
		"good":                         {good, 2, true},
		"more overflowed than sent":    {good, 3, false},
		"negative":                     {good, -1, false},
		"copies overflowed":            {twice, 13, true},
		"too many copies overflowed":   {twice, 14, false},
		"not sent":                     {[]logEntry{entry(4, 1, 2)}, 0, false},
		"reply not sent":               {[]logEntry{{Seq: 0, ReceivedAt: 1}}, 0, true},
		"reply before":                 {[]logEntry{entry(0, 2, 1)}, 0, false},
		"reply after the train":        {[]logEntry{entry(0, 1, time.Hour)}, 0, false},
		"difference overflows 64 bits": {[]logEntry{entry(0, -1<<62-1, 1<<62)}, 0, false},
	} {
		s := &train{client: &Client{}, began: time.Now(), sentAt: []departure{kernel(1), kernel(2), kernel(3), kernel(4)}}
		s.replies.all = []receipt{{seq: 0, entry: 0, receivedAt: 9}}
		err := s.sum(x.entries, x.overflowed)
		if (err == nil) != x.valid {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := s.down.Received, int64(1); name == "good" && got != want || name == "reply not sent" && got != 0 {
			t.Errorf("%s: %d replies", name, got)
		}
	}
}

// TestPeersLog: the peer logs the probes of the newest train, up to its maximum.
func TestPeersLog(t *testing.T) {
	r := reflector{}
	probe := func(train, seq uint32) int {
		p := make([]byte, probeSize)
		p[atKind] = echoProbe
		binary.BigEndian.PutUint32(p[atTrain:], train)
		binary.BigEndian.PutUint32(p[atSeq:], seq)
		out, entry := r.answer(p, time.Unix(1, 0), 0)
		if (out == nil) != (entry < 0) {
			t.Errorf("train %d, probe %d: entry %d, %d bytes", train, seq, entry, len(out))
		}
		return entry
	}
	for i, x := range []struct {
		train, seq uint32
		want       int
	}{{1, 0, 0}, {2, 0, 0}, {2, 1, 1}, {1, 1, -1}, {2, 2, 2}} {
		if got := probe(x.train, x.seq); got != x.want {
			t.Errorf("probe %d has entry %d, want %d", i, got, x.want)
		}
	}
	if n, sending := r.state(); n != 3 || !sending {
		t.Errorf("%d entries, sending %v", n, sending)
	}
	r.entries = make([]logEntry, maxLog)
	if got := probe(2, 3); got != -1 || r.log(2, 0).Unlogged != 1 || len(r.entries) != maxLog {
		t.Errorf("entry %d of a full log, %d entries", got, len(r.entries))
	}
}

// TestFullSendBuffer: while a reply waits for room in the socket's send buffer, the log can be read. The
// peer reports it when the reply has been sent.
func TestFullSendBuffer(t *testing.T) {
	t.Parallel()
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := p.udp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	locked, release := make(chan bool), make(chan bool)
	go func() {
		_ = raw.Write(func(uintptr) bool { // other writes wait
			close(locked)
			<-release
			return true
		})
	}()
	<-locked
	time.AfterFunc(time.Second, func() { close(release) })
	s := c.newTrain(time.Millisecond, probeSize)
	defer s.stop()
	if err := s.send(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for {
		if n, sending := p.reflector.state(); n == 1 && sending {
			break
		}
		select {
		case <-release:
			t.Fatal("the log could not be read while a reply was sent")
		case <-time.After(time.Millisecond):
		}
	}
	entries, _, err := c.log(t.Context(), s.id, s.sent())
	if err != nil || len(entries) == 0 || entries[0].SentAt == (departure{}) {
		t.Errorf("%+v, %v", entries, err)
	}
}

// TestUnknownReplies: the client ignores replies to probes that it has not sent.
func TestUnknownReplies(t *testing.T) {
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	c := &Client{}
	if c.udp, err = net.DialUDP("udp", nil, u.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	defer c.udp.Close()
	s := c.newTrain(time.Second, probeSize)
	s.started.Store(5)
	tag := c.session.tag()
	for seq := range uint32(8) {
		p := make([]byte, probeSize)
		copy(p, tag[:])
		p[atKind] = reply
		binary.BigEndian.PutUint32(p[atTrain:], s.id)
		binary.BigEndian.PutUint32(p[atSeq:], 7-seq)
		if _, err := u.WriteTo(p, c.udp.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t.Context(), 5, time.Now())
	s.stop()
	if all := s.replies.all; len(all) != 5 || slices.ContainsFunc(all, func(r receipt) bool { return r.seq >= 5 }) {
		t.Errorf("replies to 5 probes: %v", all)
	}
}

// TestUnstampedUnderLoad: the cells with load report the larger shares of both trains.
func TestUnstampedUnderLoad(t *testing.T) {
	one := func(here, peer float64) *train {
		return &train{sentAt: make([]departure, 1), up: wayReport{Received: 1}, down: wayReport{Received: 1}, rttsS: []float64{1}, unstampedHere: here, unstampedPeer: peer}
	}
	v, err := addedLatency(one(0.1, 0.4), one(0.3, 0.2))
	if err != nil || v[unstampedHere] != 0.3 || v[unstampedPeer] != 0.4 {
		t.Errorf("%v, %v", v, err)
	}
}
