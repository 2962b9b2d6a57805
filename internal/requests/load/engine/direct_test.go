package engine

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tcpPair returns both ends of a TCP connection.
func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// TestDirectLarge tests that a text larger than the socket's buffers arrives whole in both
// directions at once: writes are partial, and both ends wait.
func TestDirectLarge(t *testing.T) {
	client, server := tcpPair(t)
	d := newDirect(client)
	if _, ok := d.(*direct); ok == raceDetector {
		t.Fatalf("%T", d)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	go func() {
		_, _ = io.Copy(server, server) // echo
		_ = server.CloseWrite()
	}()
	wrote := make(chan error, 1)
	go func() {
		n, err := d.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		wrote <- errors.Join(err, client.CloseWrite())
	}()
	got, err := io.ReadAll(d)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes of %d: %v", len(got), len(sent), err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if n, err := d.Read(make([]byte, 8)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// TestDirectWriters tests that two writes at once arrive whole, one after the other: clients of MQTT
// ping while another goroutine acknowledges a message.
func TestDirectWriters(t *testing.T) {
	client, server := tcpPair(t)
	d := newDirect(client)
	long, short := bytes.Repeat([]byte("a"), 32<<20), bytes.Repeat([]byte("b"), 64)
	var all sync.WaitGroup
	write := func(text []byte) {
		all.Go(func() {
			if n, err := d.Write(text); n != len(text) || err != nil {
				t.Errorf("wrote %d of %d: %v", n, len(text), err)
			}
		})
	}
	write(long)
	got := make([]byte, len(long)+len(short))
	// Then the long write has begun, and it does not end before more is read.
	if _, err := io.ReadFull(server, got[:1]); err != nil {
		t.Fatal(err)
	}
	write(short)
	if _, err := io.ReadFull(server, got[1:]); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if !bytes.Equal(got[:len(long)], long) || !bytes.Equal(got[len(long):], short) {
		t.Errorf("the writes are mixed: %d bytes of the short one at the end", len(got)-1-bytes.LastIndexByte(got, 'a'))
	}
}

// TestDirectErrors compares the errors with those of the net package.
func TestDirectErrors(t *testing.T) {
	buffer := make([]byte, 16)
	reset := func(t *testing.T, server *net.TCPConn) {
		t.Helper()
		if err := errors.Join(server.SetLinger(0), server.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		is   error
		do   func(t *testing.T, c net.Conn, server *net.TCPConn) error
	}{
		{"deadline of a read", os.ErrDeadlineExceeded, func(_ *testing.T, c net.Conn, _ *net.TCPConn) error {
			_ = c.SetDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(buffer)
			return err
		}},
		{"deadline of a write", os.ErrDeadlineExceeded, func(_ *testing.T, c net.Conn, _ *net.TCPConn) error {
			_ = c.SetDeadline(time.Now().Add(50 * time.Millisecond))
			_, err := c.Write(make([]byte, 32<<20))
			return err
		}},
		{"reset before a read", syscall.ECONNRESET, func(t *testing.T, c net.Conn, server *net.TCPConn) error {
			reset(t, server)
			_, err := c.Read(buffer)
			return err
		}},
		{"closed before a read", net.ErrClosed, func(_ *testing.T, c net.Conn, _ *net.TCPConn) error {
			_ = c.Close()
			_, err := c.Read(buffer)
			return err
		}},
		{"closed before a write", net.ErrClosed, func(_ *testing.T, c net.Conn, _ *net.TCPConn) error {
			_ = c.Close()
			_, err := c.Write(buffer)
			return err
		}},
		{"closed during a read", net.ErrClosed, func(_ *testing.T, c net.Conn, _ *net.TCPConn) error {
			time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
			_, err := c.Read(buffer)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var texts []string
			for _, wrap := range []func(net.Conn) net.Conn{func(c net.Conn) net.Conn { return c }, newDirect} {
				client, server := tcpPair(t)
				err := tt.do(t, wrap(client), server)
				if !errors.Is(err, tt.is) {
					t.Fatalf("%v, want %v", err, tt.is)
				}
				texts = append(texts, regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(err.Error(), "ADDRESS"))
				if want := Failed(err, false); want.Failure == Other {
					t.Errorf("%v has no kind of its own", err)
				}
			}
			if texts[0] != texts[1] {
				t.Errorf("%q, want %q", texts[1], texts[0])
			}
		})
	}
}
