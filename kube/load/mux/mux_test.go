package mux

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// served is a server with Go's own HTTP/2, and a transport to it.
type served struct {
	*httptest.Server
	transport *Transport
	dials     atomic.Int64

	mu   sync.Mutex
	open []net.Conn // the client's ends
}

func serve(t *testing.T, h http.HandlerFunc, change func(*http.Server)) *served {
	t.Helper()
	s := &served{Server: httptest.NewUnstartedServer(h)}
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	if change != nil {
		change(s.Config)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	secure := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	secure.NextProtos, secure.ServerName = []string{"h2", "http/1.1"}, "example.com"
	s.transport = &Transport{Plain: &http.Transport{TLSClientConfig: secure.Clone()}, Dial: func(ctx context.Context) (*tls.Conn, error) {
		s.dials.Add(1)
		inner, err := new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.open = append(s.open, inner)
		s.mu.Unlock()
		outer := tls.Client(inner, secure)
		return outer, outer.HandshakeContext(ctx)
	}}
	t.Cleanup(func() { // before the server waits for its connections
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.open {
			_ = c.Close()
		}
	})
	return s
}

// post sends a body and returns the status and the answer.
func (s *served) post(ctx context.Context, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-Length", strconv.Itoa(len(body)))
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// echo answers with the request's body.
func echo(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("X-Length") != strconv.Itoa(len(text)) || len(text) > 0 && r.ContentLength != int64(len(text)) || r.ProtoMajor != 2 {
		http.Error(w, fmt.Sprint(err, r.Header, r.ContentLength, r.Proto), http.StatusTeapot)
		return
	}
	w.Header().Set("Retry-After", "7")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(r.URL.Path))
	_, _ = w.Write(text)
}

// TestMany sends many concurrent requests, with bodies of all sizes up to more than every window,
// over one connection with few streams: each gets its own answer.
func TestMany(t *testing.T) {
	s := serve(t, echo, func(x *http.Server) {
		x.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 7, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10, MaxReadFrameSize: 32 << 10}
	})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			size := []int{0, 1, 1400, 16 << 10, 16<<10 + 1, 70_000, 600_000}[i%7]
			path := fmt.Sprintf("/object-%d", i)
			want := append([]byte(path), bytes.Repeat([]byte{byte(i)}, size)...)
			status, text, err := s.post(t.Context(), path, want[len(path):])
			if err != nil || status != http.StatusCreated || !bytes.Equal(text, want) {
				t.Errorf("%s of %d bytes: %d %v, %d bytes", path, size, status, err, len(text))
			}
		})
	}
	all.Wait()
	if n := s.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestAnswer tests the parts of an answer that are kept.
func TestAnswer(t *testing.T) {
	s := serve(t, echo, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/a?b=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Length", "0")
	req.Header.Set("Authorization", "Bearer "+strings.Repeat("t", 40_000)) // more than a frame
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if w, is := resp.Body.(Whole); !is || string(w.Bytes()) != "/a" || resp.StatusCode != 201 || resp.Status != "201 Created" || resp.Header.Get("Retry-After") != "7" || resp.ContentLength != 2 {
		t.Errorf("%+v", resp)
	}
}

// TestGivenUp tests that a timed-out request ends at the server too, and that the connection stays
// usable.
func TestGivenUp(t *testing.T) {
	ended := make(chan struct{}, 1)
	ctx, over := context.WithCancelCause(t.Context())
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			over(context.DeadlineExceeded)
			<-r.Context().Done()
			ended <- struct{}{}
			return
		}
		echo(w, r)
	}, nil)
	if _, _, err := s.post(ctx, "/slow", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server goes on with it")
	}
	if status, _, err := s.post(t.Context(), "/next", nil); err != nil || status != 201 || s.dials.Load() != 1 {
		t.Errorf("%d %v, %d connections", status, err, s.dials.Load())
	}
}

// TestAway tests that a server that asks clients to leave while requests arrive processes each
// request once.
func TestAway(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		away := len(seen)%50 == 0
		mu.Unlock()
		if away {
			w.Header().Set("Connection", "close") // Go's server sends GOAWAY for it
		}
		echo(w, r)
	}, nil)
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for i := range numbers {
				path := fmt.Sprintf("/%d", i)
				if status, text, err := s.post(t.Context(), path, []byte("x")); err != nil || status != 201 || string(text) != path+"x" {
					t.Errorf("%s: %d %q %v", path, status, text, err)
				}
			}
		})
	}
	for i := range 1000 {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	if n := s.dials.Load(); len(seen) != 1000 || n < 3 {
		t.Errorf("%d requests over %d connections", len(seen), n)
	}
}

// TestLost tests that all requests on a broken connection fail, and that the next request gets
// another connection.
func TestLost(t *testing.T) {
	begun := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(begun)
			<-r.Context().Done()
			return
		}
		echo(w, r)
	}, nil)
	failed := make(chan error)
	go func() {
		_, _, err := s.post(t.Context(), "/wait", nil)
		failed <- err
	}()
	<-begun
	s.mu.Lock()
	_ = s.open[0].Close()
	s.mu.Unlock()
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "the connection is lost") {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
	if status, _, err := s.post(t.Context(), "/next", nil); err != nil || status != 201 || s.dials.Load() != 2 {
		t.Errorf("%d %v, %d connections", status, err, s.dials.Load())
	}
}

// TestTooLarge tests that an answer above the limit is an error, that one below is complete, and
// that a request that is rejected before its body was read gets its answer.
func TestTooLarge(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/much":
			_, _ = w.Write(make([]byte, MaxAnswer+1))
		case "/most":
			_, _ = w.Write(make([]byte, MaxAnswer))
		case "/refused":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}, func(x *http.Server) { x.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10} })
	if _, _, err := s.post(t.Context(), "/much", nil); err == nil || !strings.Contains(err.Error(), "the answer is larger than 4 MiB") {
		t.Errorf("%v", err)
	}
	for range 10 { // the windows are given back
		if status, text, err := s.post(t.Context(), "/most", nil); err != nil || status != 200 || len(text) != MaxAnswer {
			t.Fatalf("%d, %d bytes, %v", status, len(text), err)
		}
	}
	if status, _, err := s.post(t.Context(), "/refused", make([]byte, 1<<20)); err != nil || status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %v", status, err)
	}
	if n := s.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestPlain tests a server without HTTP/2.
func TestPlain(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }, nil)
	s.TLS.NextProtos = []string{"http/1.1"}
	for range 3 {
		if _, text, err := s.post(t.Context(), "/", []byte("x")); err != nil || string(text) != "HTTP/1.1" {
			t.Errorf("%s %v", text, err)
		}
	}
	if n := s.dials.Load(); n != 1 {
		t.Errorf("asked for HTTP/2 %d times", n)
	}
}

// mute speaks HTTP/2 up to a certain point, and then sends nothing more.
func mute(t *testing.T, then func(*http2.Framer, uint32)) *Transport {
	t.Helper()
	h := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(h.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: h.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
				fr := http2.NewFramer(c, c)
				_ = fr.WriteSettings()
				for {
					f, err := fr.ReadFrame()
					if err != nil {
						return
					}
					if h, is := f.(*http2.HeadersFrame); is && then != nil {
						then(fr, h.StreamID)
					}
				}
			}()
		}
	}()
	return &Transport{Dial: func(ctx context.Context) (*tls.Conn, error) {
		inner, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		outer := tls.Client(inner, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		return outer, outer.HandshakeContext(ctx)
	}}
}

// TestSilent tests that a silent server is given up.
func TestSilent(t *testing.T) {
	after, within := pingAfter, pingWithin
	pingAfter, pingWithin = 150*time.Millisecond, 150*time.Millisecond
	t.Cleanup(func() { pingAfter, pingWithin = after, within })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://silent/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mute(t, nil).RoundTrip(req); err == nil || !strings.Contains(err.Error(), "no data from the server for") {
		t.Errorf("%v", err)
	}
}

// TestRefusedStream tests that a request that the server has not processed is repeated, but not
// forever.
func TestRefusedStream(t *testing.T) {
	asked := atomic.Int64{}
	transport := mute(t, func(fr *http2.Framer, id uint32) {
		asked.Add(1)
		_ = fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://refused/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	var of http2.StreamError
	if _, err := transport.RoundTrip(req); !errors.As(err, &of) || of.Code != http2.ErrCodeRefusedStream || asked.Load() != tries {
		t.Errorf("%v after %d", err, asked.Load())
	}
}

// TestNonsense tests that invalid frames end the connection with an error.
func TestNonsense(t *testing.T) {
	for name, then := range map[string]func(*http2.Framer, uint32){
		"a window beyond what there is": func(fr *http2.Framer, id uint32) {
			_ = fr.WriteWindowUpdate(0, 1<<31-1)
			_ = fr.WriteWindowUpdate(0, 1<<31-1)
		},
		"a frame that is too large": func(fr *http2.Framer, id uint32) { _ = fr.WriteData(id, true, make([]byte, 40_000)) },
		"a push": func(fr *http2.Framer, id uint32) {
			_ = fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		},
		"data before a header": func(fr *http2.Framer, id uint32) { _ = fr.WriteData(id, true, []byte("x")) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://nonsense/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mute(t, then).RoundTrip(req); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
