package mqtt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// sessionBroker answers each packet of one client with a text.
func sessionBroker(t *testing.T, answers ...string) *engine.Dialer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for _, answer := range answers {
			if _, err := packets.ReadPacket(c); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
		// What comes then is read, so that what was sent is not lost by a reset.
		if c, ok := c.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c)
	}()
	return &engine.Dialer{To: netip.MustParseAddrPort(l.Addr().String()), Counts: &engine.Counts{}, Context: context.Background()}
}

const (
	accepted   = "\x20\x02\x00\x00"
	subscribed = "\x90\x04\x00\x01\x01\x01"
)

func soon() time.Time { return time.Now().Add(time.Minute) }

func TestSession(t *testing.T) {
	// A message that was kept comes before the subscription is granted, one after it.
	d := sessionBroker(t, accepted, "\x32\x08\x00\x01a\x00\x07old"+subscribed+"\xd0\x00"+"\x32\x08\x00\x01a\x00\x08new", "")
	s, err := Open(d, "host1", 30*time.Second, soon())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Subscribe(soon(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	m, err := s.Next()
	if err != nil || m.Topic != "a" || string(m.Payload) != "new" || m.id != 8 {
		t.Fatalf("%+v %v", m, err)
	}
	// The time that a write may take is its own: that of the ping has passed.
	if err := s.Ping(time.Now().Add(time.Millisecond - writeTime)); err != nil {
		t.Log(err)
	}
	time.Sleep(2 * time.Millisecond)
	if err := s.Acknowledge(m, time.Now()); err != nil {
		t.Error(err)
	}
	if m, err := s.Next(); !errors.Is(err, engine.ErrNoAnswer) {
		t.Errorf("after the end: %+v %v", m, err)
	}
	s.Leave(time.Now())
	s.Leave(time.Now())
}

func TestPublish(t *testing.T) {
	s, err := Open(sessionBroker(t, accepted, "\x40\x02\x00\x01"), "proxy", time.Second, soon())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(soon(), "a", []byte("text")); err != nil {
		t.Error(err)
	}
	s.Leave(time.Now())
}

// TestRefused tests unexpected answers of a broker and the resulting errors.
func TestRefused(t *testing.T) {
	var refused *refusedError
	for name, c := range map[string]struct {
		answers []string
		says    string
		failure engine.Failure
	}{
		"not authorized":       {[]string{"\x20\x02\x00\x05"}, "CONNACK 5", engine.Other},
		"nobody's code":        {[]string{"\x20\x02\x00\x77"}, "CONNACK 119 (", engine.Other},
		"closed":               {[]string{""}, "closed the connection before CONNACK", engine.Closed},
		"half":                 {[]string{"\x20\x02\x00"}, "unexpected EOF", engine.Closed},
		"HTTP":                 {[]string{"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request: malformed"}, "PUBACK instead of CONNACK", engine.Protocol},
		"something else":       {[]string{"\xd0\x00"}, "instead of CONNACK", engine.Protocol},
		"too long":             {[]string{"\x20\xff\xff\x7f"}, "2,097,151 bytes; the limit is 65,536", engine.Protocol},
		"no length":            {[]string{"\x20\xff\xff\xff\xff\x01"}, "more than four bytes", engine.Protocol},
		"subscription denied":  {[]string{accepted, "\x90\x04\x00\x01\x01\x80"}, "SUBACK 0x80", engine.Other},
		"one granted of two":   {[]string{accepted, "\x90\x03\x00\x01\x01"}, "SUBACK 0x80", engine.Other},
		"end in place of that": {[]string{accepted, ""}, "without an answer", engine.Closed},
	} {
		s, err := Open(sessionBroker(t, c.answers...), "host1", time.Second, soon())
		if err == nil {
			err = s.Subscribe(soon(), "a", "b")
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || engine.Failed(err, false).Failure != c.failure {
			t.Errorf("%s: %v", name, err)
		}
		if is := errors.As(err, &refused); is != strings.HasPrefix(c.says, "CONNACK") {
			t.Errorf("%s: %T", name, err)
		}
	}
	var unreached *connectError
	d := &engine.Dialer{To: netip.MustParseAddrPort("127.0.0.1:1"), Counts: &engine.Counts{}, Context: context.Background()}
	if _, err := Open(d, "host1", time.Second, soon()); !errors.As(err, &unreached) || engine.Failed(err, true).Failure != engine.Refused {
		t.Errorf("nobody listens: %v", err)
	}
	// A broker that says nothing is waited for as long as was said.
	d = sessionBroker(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections into its queue, and no more
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d.To = netip.MustParseAddrPort(l.Addr().String())
	if _, err := Open(d, "host1", time.Second, time.Now().Add(50*time.Millisecond)); engine.Failed(err, false).Failure != engine.Timeout {
		t.Errorf("silence: %v", err)
	}
}

// still is a connection whose other side sends nothing more.
type still struct {
	net.Conn
	*bytes.Reader
}

func (s still) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (s still) Write(b []byte) (int, error)      { return len(b), nil }
func (still) Close() error                       { return nil }
func (still) SetDeadline(time.Time) error        { return nil }
func (still) SetWriteDeadline(t time.Time) error { return nil }

// FuzzNext tests that reading ends for any packets, and that no message exceeds the limit.
func FuzzNext(f *testing.F) {
	for _, text := range []string{accepted, subscribed, "\x32\x08\x00\x01a\x00\x08new", "\x30\x00", "\x32\x03\x00\x05a", "\xd0\x00\xd0\x00", "\x20\xff\xff\x7f", "\xf0\x00", "\x34\x05\x00\x01a\x00\x01", "\x30\xff\xff\xff\xff\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := over(still{Reader: bytes.NewReader(text)})
		for {
			m, err := s.Next()
			if err != nil {
				break
			}
			if len(m.Payload)+len(m.Topic) > maxPacket {
				t.Fatalf("a message of %d bytes", len(m.Payload))
			}
			if err := s.Acknowledge(m, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestEnded tests that the end of a run wakes all readers of a silent broker.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = packets.ReadPacket(c) // CONNECT has come, and is not answered
			cancel()
		}
	}()
	d := &engine.Dialer{To: netip.MustParseAddrPort(l.Addr().String()), Counts: &engine.Counts{}, Context: ctx}
	if _, err := Open(d, "host1", time.Second, time.Now().Add(time.Hour)); err == nil {
		t.Error("it is let in")
	}
}
