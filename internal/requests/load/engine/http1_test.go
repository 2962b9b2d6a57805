package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// Answers with the expected results. Each is read at once and byte by byte.
var answers = []struct {
	name, text string
	toHEAD     bool
	status     int
	closing    bool
	err        string
}{
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, false, ""},
	{"nothing", "HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", false, 200, false, ""},
	{"no reason", "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", false, 404, false, ""},
	{"line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", false, 200, false, ""},
	{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1a;ext=\"x\"\r\n" + strings.Repeat("y", 26) + "\r\n0\r\nTrailer: x\r\n\r\n", false, 200, false, ""},
	{"chunks of several codings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n", false, 200, false, ""},
	{"chunks and length", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, 200, true, ""},
	{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", true, 200, false, ""},
	{"HEAD chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, 200, false, ""},
	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", false, 204, false, ""},
	{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", false, 304, false, ""},
	{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 200, false, ""},
	{"close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\nx", false, 200, true, ""},
	{"until the end", "HTTP/1.1 200 OK\r\n\r\nas much as it likes", false, 200, true, ""},
	{"until the end of a coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nxyz", false, 200, true, ""},
	{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false, 200, true, ""},
	{"1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", false, 200, false, ""},
	{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", false, 200, false, ""},

	{"closed", "", false, 0, true, "without an answer"},
	{"within the first line", "HTTP/1.1 2", false, 0, true, "unexpected EOF"},
	{"within the header", "HTTP/1.1 200 OK\r\nContent-", false, 0, true, "unexpected EOF"},
	{"within the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", false, 0, true, "unexpected EOF"},
	{"within a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", false, 0, true, "unexpected EOF"},
	{"after an interim one", "HTTP/1.1 100 Continue\r\n\r\n", false, 0, true, "unexpected EOF"},
	{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", false, 0, true, `not an HTTP/1.1 status line: "SSH-2.0-OpenSSH_9.2"`},
	{"2.0", "HTTP/2.0 200 OK\r\n\r\n", false, 0, true, "not an HTTP/1.1 status line"},
	{"1.2", "HTTP/1.2 200 OK\r\n\r\n", false, 0, true, "not an HTTP/1.1 status line"},
	{"long status", "HTTP/1.1 2000 OK\r\n\r\n", false, 0, true, "not an HTTP/1.1 status line"},
	{"odd status", "HTTP/1.1 2x0 OK\r\n\r\n", false, 0, true, "not an HTTP/1.1 status line"},
	{"low status", "HTTP/1.1 099 OK\r\n\r\n", false, 0, true, "not an HTTP/1.1 status line"},
	{"control bytes", "\x1b[2J\x00\r\n", false, 0, true, `"\x1b[2J\x00"`},
	{"switching", "HTTP/1.1 101 Switching Protocols\r\n\r\n", false, 0, true, "101"},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", false, 0, true, "repeated Content-Length"},
	{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, 0, true, "an invalid or repeated Content-Length"},
	{"signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx", false, 0, true, "an invalid or repeated Content-Length"},
	{"endless length", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", false, 0, true, "an invalid or repeated Content-Length"},
	{"list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", false, 0, true, "an invalid or repeated Content-Length"},
	{"folded", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n", false, 0, true, "an invalid or repeated Content-Length"},
	{"folded elsewhere", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", false, 0, true, "a folded line"},
	{"no name", "HTTP/1.1 200 OK\r\n: y\r\n\r\n", false, 0, true, "without a name"},
	{"space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", false, 0, true, "without a name"},
	{"too much", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n", false, 0, true, "data after the announced end of the answer"},
	{"chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n", false, 0, true, "invalid chunk size"},
	{"no chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\n", false, 0, true, "invalid chunk size"},
	{"endless chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", false, 0, true, "invalid chunk size"},
	{"longer chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhello\r\n", false, 0, true, "a chunk is longer than announced"},
	{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, 0, true, "a transfer coding after chunked"},
	{"long line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 9000) + "\r\n\r\n", false, 0, true, "a line of more than 8,192 bytes"},
	{"line without an end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20), false, 0, true, "a line of more than 8,192 bytes"},
	{"long header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 80) + "\r\n", false, 0, true, "a header of more than 65,536 bytes"},
	{"long trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 80) + "\r\n", false, 0, true, "a trailer of more than 65,536 bytes"},
	{"many interim ones", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 17), false, 0, true, "more than 16 answers of 1xx"},
}

func TestAnswers(t *testing.T) {
	for _, c := range answers {
		for how, from := range map[string]io.Reader{"at once": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text))} {
			if c.name == "too much" && how == "byte by byte" {
				continue // what has not come yet cannot be seen
			}
			var p parser
			p.reset(from)
			status, closing, err := p.answer(c.toHEAD)
			switch {
			case c.err == "" && (err != nil || status != c.status || closing != c.closing):
				t.Errorf("%s, %s: %d closing %t: %v", c.name, how, status, closing, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s, %s: %v, want %q", c.name, how, err, c.err)
			}
			if len(p.buf) != bufferBytes {
				t.Errorf("%s: the buffer has %d bytes", c.name, len(p.buf))
			}
		}
	}
}

// FuzzAnswer tests that any answer ends, that the buffer keeps its size, that the result does not
// depend on the division into pieces, and that no data remains on a connection that is kept.
func FuzzAnswer(f *testing.F) {
	for _, c := range answers {
		if len(c.text) < 4096 {
			f.Add([]byte(c.text), c.toHEAD)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, toHEAD bool) {
		var whole, pieces parser
		whole.reset(bytes.NewReader(text))
		pieces.reset(iotest.OneByteReader(bytes.NewReader(text)))
		status, closing, err := whole.answer(toHEAD)
		status2, closing2, err2 := pieces.answer(toHEAD)
		if len(whole.buf) != bufferBytes || whole.in > int64(len(text)) {
			t.Fatalf("%d bytes of buffer, %d read of %d", len(whole.buf), whole.in, len(text))
		}
		excess := err != nil && strings.HasPrefix(err.Error(), "data after the announced end of the answer")
		if !excess && ((err == nil) != (err2 == nil) || status != status2 || closing != closing2) {
			t.Fatalf("%d %t %v at once, %d %t %v in pieces", status, closing, err, status2, closing2, err2)
		}
		if err == nil && (status < 200 || status > 999) {
			t.Fatalf("status %d", status)
		}
	})
}

// serve answers each connection with a function, and returns a client of it.
func serve(t *testing.T, each func(n int, c net.Conn)) *HTTP1Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); each(n, conn) }()
		}
	}()
	c := &HTTP1Client{Dialer: &Dialer{To: netip.MustParseAddrPort(l.Addr().String()), Counts: &Counts{}, Context: t.Context()}}
	t.Cleanup(c.Close)
	return c
}

// http1Request reads one request without a body.
func http1Request(c net.Conn) bool {
	text := make([]byte, 0, 512)
	for !bytes.HasSuffix(text, []byte("\r\n\r\n")) {
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil {
			return false
		}
		text = append(text, b[0])
	}
	return true
}

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

var get = &Request{Method: "GET", Wire: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}

func later() time.Time { return time.Now().Add(30 * time.Second) }

func TestConnectionIsKept(t *testing.T) {
	c := serve(t, func(_ int, conn net.Conn) {
		for http1Request(conn) {
			_, _ = io.WriteString(conn, whole)
		}
	})
	for range 5 {
		if a := c.Exchange(get, later()); a.Failure != "" || a.Status != 200 || a.In != int64(len(whole)) {
			t.Errorf("%+v", a)
		}
	}
	if n := c.Dialer.Counts.Opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	c.OneEach = true
	for range 3 {
		c.Exchange(get, later())
	}
	if n := c.Dialer.Counts.Opened.Load(); n != 3 { // the first of them went over the kept one
		t.Errorf("%d connections with one each", n)
	}
}

// TestKeptConnectionIsGone tests that a request on an idle connection that the server has closed is
// sent again, once, if repeating it does no harm.
func TestKeptConnectionIsGone(t *testing.T) {
	one := func(_ int, conn net.Conn) {
		if http1Request(conn) {
			_, _ = io.WriteString(conn, whole)
		}
	}
	c := serve(t, one)
	for range 3 {
		if a := c.Exchange(get, later()); a.Failure != "" {
			t.Errorf("%+v", a)
		}
		_, _ = c.conn.Read(make([]byte, 1)) // until the server has closed it
	}
	if n, m := c.Dialer.Counts.Opened.Load(), c.Dialer.Counts.Reopened.Load(); n != 3 || m != 2 {
		t.Errorf("%d connections, %d of them again", n, m)
	}
	post := &Request{Method: "POST", Wire: []byte("POST / HTTP/1.1\r\nHost: x\r\n\r\n")}
	c = serve(t, one)
	c.Exchange(post, later())
	_, _ = c.conn.Read(make([]byte, 1))
	// It is seen to be closed before the request is sent, so nothing is repeated.
	if a := c.Exchange(post, later()); a.Failure != None || c.Dialer.Counts.Opened.Load() != 2 {
		t.Errorf("a POST after the connection was closed: %+v, %d connections", a, c.Dialer.Counts.Opened.Load())
	}
	c = serve(t, func(_ int, conn net.Conn) {
		if http1Request(conn) {
			_, _ = io.WriteString(conn, whole)
		}
		http1Request(conn) // closed without an answer
	})
	c.Exchange(post, later())
	if a := c.Exchange(post, later()); a.Failure != Closed || c.Dialer.Counts.Opened.Load() != 1 {
		t.Errorf("a POST that may have had an effect was repeated: %+v, %d connections", a, c.Dialer.Counts.Opened.Load())
	}
}

// TestCapture tests that the header and the body of an answer are kept up to the limit, and
// that nothing is left of the answer before.
func TestCapture(t *testing.T) {
	long := strings.Repeat("0123456789", 2000)
	answers := []string{
		"HTTP/1.1 100 Continue\r\nOld: 1\r\n\r\nHTTP/1.1 200 OK\r\nX: a\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
		fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long),
		"HTTP/1.1 200 OK\r\n\r\nto the end",
	}
	c := serve(t, func(_ int, conn net.Conn) {
		for _, text := range answers {
			if http1Request(conn) {
				_, _ = io.WriteString(conn, text)
			}
		}
	})
	c.Keep, c.Small = &Capture{Most: 15000}, true
	for i, want := range []struct {
		head, body string
		cut        bool
	}{
		{"X: a\nContent-Length: 5\n", "hello", false},
		{"Transfer-Encoding: chunked\n", "hello world", false},
		{"Content-Length: 20000\n", long[:15000], true},
		{"", "to the end", false},
	} {
		a := c.Exchange(get, later())
		if k := c.Keep; a.Failure != None || string(k.Head) != want.head || string(k.Body) != want.body || k.Cut != want.cut {
			t.Errorf("answer %d: %+v: %q, body of %d bytes, cut %t", i+1, a, k.Head, len(k.Body), k.Cut)
		}
		if c.parser.buf != nil {
			t.Errorf("answer %d: a buffer is held between requests", i+1)
		}
	}
}

// small runs a test with a buffer that is held while an answer is awaited, and without one.
func small(t *testing.T, test func(t *testing.T, small bool)) {
	for _, small := range []bool{false, true} {
		t.Run(fmt.Sprintf("small %t", small), func(t *testing.T) { test(t, small) })
	}
}

func TestFailures(t *testing.T) { small(t, testFailures) }

func testFailures(t *testing.T, small bool) {
	serve := func(t *testing.T, each func(int, net.Conn)) *HTTP1Client {
		c := serve(t, each)
		c.Small = small
		return c
	}
	c := serve(t, func(_ int, conn net.Conn) {
		if http1Request(conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
		}
	})
	if a := c.Exchange(get, later()); a.Failure != Closed || !errors.Is(a.Err, io.ErrUnexpectedEOF) {
		t.Errorf("cut short: %+v", a)
	}
	c = serve(t, func(_ int, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	if a := c.Exchange(get, time.Now().Add(20*time.Millisecond)); a.Failure != Timeout {
		t.Errorf("no answer: %+v", a)
	}
	// A body without an end does not go on for longer than the time that is given.
	c = serve(t, func(_ int, conn net.Conn) {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		for block := make([]byte, 1<<16); err == nil; {
			_, err = conn.Write(block)
		}
	})
	if a := c.Exchange(get, time.Now().Add(50*time.Millisecond)); a.Failure != Timeout {
		t.Errorf("an endless body: %+v", a)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Dialer.To = netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	if a := c.Exchange(get, later()); a.Failure != Refused {
		t.Errorf("nobody listens: %+v", a)
	}
}

// TestCloseEndsWhatIsUnderWay tests that closing a client ends its request to a silent server.
func TestCloseEndsWhatIsUnderWay(t *testing.T) { small(t, testCloseEndsWhatIsUnderWay) }

func testCloseEndsWhatIsUnderWay(t *testing.T, small bool) {
	asked := make(chan bool, 1)
	c := serve(t, func(_ int, conn net.Conn) {
		asked <- http1Request(conn)
		_, _ = io.Copy(io.Discard, conn)
	})
	c.Small = small
	done := make(chan Answer)
	go func() { done <- c.Exchange(get, later()) }()
	<-asked
	c.Close()
	if a := <-done; a.Failure != Closed {
		t.Errorf("%+v", a)
	}
	if a := c.Exchange(get, later()); a.Failure == "" {
		t.Errorf("a closed client has sent something: %+v", a)
	}
}

// TestTurns tests that a handshake waits for its turn, not longer than its deadline, and that the
// turn passes on.
func TestTurns(t *testing.T) {
	asked := make(chan net.Conn, 2)
	c := serve(t, func(_ int, conn net.Conn) {
		var hello [1]byte
		if _, err := conn.Read(hello[:]); err == nil {
			asked <- conn
			_, _ = io.Copy(io.Discard, conn) // no answer
		}
	})
	c.Dialer.TLS, c.Dialer.Turns = &tls.Config{ServerName: "x"}, make(chan struct{}, 1)
	first := make(chan error)
	go func() {
		_, err := c.Dialer.Dial(later())
		first <- err
	}()
	conn := <-asked
	if _, err := c.Dialer.Dial(time.Now().Add(20 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || len(asked) > 0 {
		t.Errorf("%v, %d handshakes at a time", err, 1+len(asked))
	}
	conn.Close()
	var failed *TLSError
	if err := <-first; !errors.As(err, &failed) {
		t.Error(err)
	}
	go func() {
		_, err := c.Dialer.Dial(later())
		first <- err
	}()
	(<-asked).Close()
	<-first
}

// TestRefusedBody tests that the answer of a server that closes before it has read the body is
// read.
func TestRefusedBody(t *testing.T) {
	c := serve(t, func(_ int, conn net.Conn) {
		if http1Request(conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // or a reset would overtake the answer
		}
	})
	body := bytes.Repeat([]byte("x"), 1<<20)
	big := &Request{Method: "POST", Body: body, Wire: append([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"), body...)}
	if a := c.Exchange(big, later()); a.Status != 413 {
		t.Errorf("%+v", a)
	}
}
