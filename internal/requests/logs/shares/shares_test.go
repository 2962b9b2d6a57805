package shares

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/testkit/accesslog"
	"fettle.dev/fettle/internal/ui"
)

// TestDivide tests that the shares have each byte of each log once and in order, and are about
// equal.
func TestDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		p := &Plan{}
		largest, all := int64(0), int64(0)
		for i := range r.IntN(6) {
			l := Log{Path: fmt.Sprint("log", i), Size: r.Int64N(1 << r.IntN(40)), Packed: r.IntN(4) == 0}
			l.Whole = l.Packed || r.IntN(4) == 0
			all += l.weight()
			if l.Whole {
				largest = max(largest, l.weight())
			}
			p.Logs = append(p.Logs, l)
		}
		n := 1 + r.IntN(9)
		shares := p.Divide(n)
		loads := make([]int64, n)
		for i, l := range p.Logs {
			end, whole := int64(0), 0
			for k, s := range shares {
				switch piece := s[i]; {
				case piece == source.Whole:
					whole++
					loads[k] += l.weight()
				case piece.From < piece.To:
					if piece.From != end {
						t.Fatalf("%+v: %+v", p, shares)
					}
					end = piece.To
					loads[k] += piece.To - piece.From
				}
			}
			if want := l.Whole || l.Size == 0; want != (whole == 1) || whole > 1 || !want && end != l.Size {
				t.Fatalf("%+v: %+v", p, shares)
			}
		}
		if most, limit := slices.Max(loads), all/int64(n)+largest+int64(n); most > limit {
			t.Fatalf("%+v: %+v: %d in one share, at most %d", p, shares, most, limit)
		}
	}
}

// TestString tests how a share is named.
func TestString(t *testing.T) {
	p := &Plan{Logs: []Log{{Path: "a", Size: 1e9}, {Path: "b.gz", Size: 5, Whole: true}, {Path: "c", Size: 7}, {Path: "d", Size: 7}, {Path: "e", Size: 7}}}
	for want, s := range map[string]Share{
		"a bytes 0 to 1,000, b.gz": {{To: 1000}, source.Whole, {}, {}, {}},
		"a, b.gz, c, 2 more":       {{To: 1e9}, source.Whole, source.Whole, {To: 7}, {To: 3}},
		"e bytes 3 to 7":           {{From: 4, To: 4}, {}, {}, {}, {From: 3, To: 7}},
	} {
		if got := p.String(s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// piped is a session with a worker in this process.
type piped struct {
	io.Writer
	out *bufio.Reader
	err chan error
}

func (p *piped) Line() ([]byte, error) {
	line, err := p.out.ReadBytes('\n')
	return line, err
}

func start(ctx context.Context) (*piped, func()) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &piped{stdin, bufio.NewReader(stdout), make(chan error, 1)}
	go func() {
		err := Serve(ctx, in, out, time.Hour)
		out.CloseWithError(io.EOF)
		p.err <- err
	}()
	return p, func() { _ = stdin.Close() }
}

// foreman returns a log whose requests take several lines each, in any order.
func foreman(n int) []byte {
	r := rand.New(rand.NewPCG(2, 2))
	var b bytes.Buffer
	var open []string
	for i := range n {
		id := fmt.Sprintf("%08x", i)
		at := time.Date(2026, 11, 20, 0, 0, i, 0, time.UTC).Format("2006-01-02T15:04:05")
		fmt.Fprintf(&b, "%s [I|app|%s] Started GET \"/hosts\" for 10.0.0.1 at x\n%s [I|app|%s] Processing by HostsController#index as JSON\n", at, id, at, id)
		if open = append(open, id); len(open) > 5 {
			k := r.IntN(len(open))
			fmt.Fprintf(&b, "%s [I|app|%s] Completed 200 OK in %dms (ActiveRecord: 1.0ms)\n", at, open[k], r.IntN(5000))
			open = slices.Delete(open, k, k+1)
		}
	}
	return b.Bytes()
}

// TestServe tests that shares read by several workers give the answer of one, for logs that can be
// cut and for those that cannot.
func TestServe(t *testing.T) {
	t.Chdir(t.TempDir())
	var plain bytes.Buffer
	format, err := accesslog.Find("haproxy")
	if err != nil {
		t.Fatal(err)
	}
	if err := format.Write(&plain, 4000, 1); err != nil {
		t.Fatal(err)
	}
	var packed, container bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(plain.Bytes())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(plain.Bytes()) {
		fmt.Fprintf(&container, "2026-11-20T10:00:09.1Z stdout P %s\n2026-11-20T10:00:09.1Z stdout F %s", line[:20], line[20:])
	}
	for name, text := range map[string][]byte{"plain.log": plain.Bytes(), "packed.gz": packed.Bytes(), "cri.log": container.Bytes(), "foreman.log": foreman(2000), "cut.gz": packed.Bytes()[:packed.Len()/2]} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		paths []string
		whole []bool
	}{
		{[]string{"plain.log"}, []bool{false}},
		{[]string{"plain.log", "packed.gz", "cri.log"}, []bool{false, true, true}},
		{[]string{"foreman.log"}, []bool{true}},
		{[]string{"cut.gz", "plain.log"}, []bool{true, false}},
	} {
		var want string
		for _, n := range []int{1, 2, 5} {
			got := answer(t, Request{Paths: c.paths, Percentiles: true, Groups: 1e6, Slowest: 8}, n, c.whole)
			if n == 1 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) < 1000 {
				t.Errorf("%v by %d workers (-one +%d):\n%s", c.paths, n, n, diff)
			}
		}
		if cut := strings.Contains(want, `"cut": "`); cut != (c.paths[0] == "cut.gz") {
			t.Errorf("%v: %s", c.paths, want)
		}
	}
}

// answer returns the report by n workers.
func answer(t *testing.T, q Request, n int, whole []bool) string {
	t.Helper()
	var p *Plan
	var shares []Share
	results := make([]*logs.Result, n)
	for k := range n {
		session, end := start(t.Context())
		c := &Caller{Session: session}
		err := c.Greet()
		if err == nil && p == nil {
			if p, err = c.Look(q); err == nil {
				shares = p.Divide(n)
			}
		}
		if err == nil && !shares[k].Empty() {
			results[k], err = c.Read(Task{Request: q, Plan: *p, Share: shares[k]})
		}
		if err == nil {
			err = c.Taken()
		}
		if err = errors.Join(err, <-session.err); err != nil {
			t.Fatal(err)
		}
		end()
	}
	for i, l := range p.Logs {
		if l.Whole != whole[i] {
			t.Errorf("%+v", l)
		}
	}
	r, err := p.Sum(results)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(r.Report("total", 0), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestServeEnds tests how a worker ends: without a caller, with a lost one, with one of another
// version, and when it is asked to end.
func TestServeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, stdin := io.Pipe()
		defer stdin.Close()
		began := time.Now()
		if err := Serve(t.Context(), in, io.Discard, time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("no caller: %v after %v", err, time.Since(began))
		}
	})
	session, end := start(t.Context())
	c := &Caller{Session: session}
	if err := c.Greet(); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-session.err; err == nil || err.Error() != "the connection to the caller is lost" {
		t.Errorf("the input ends: %v", err)
	}
	long := bytes.NewReader(make([]byte, MaxLine+1))
	if err := Serve(t.Context(), long, io.Discard, time.Minute); err == nil || !strings.Contains(err.Error(), "only kubectl fettle logs starts this command") {
		t.Errorf("a line that is too long: %v", err)
	}
	session, end = start(t.Context())
	defer end()
	fmt.Fprintln(session, `{"schema":"fettle/logs-worker/v0","look":{}}`)
	var refused *RefusedError
	if _, err := (&Caller{Session: session}).next(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the image has another version of fettle") {
		t.Errorf("another version: %v", err)
	}
	fmt.Fprintln(session, `no message`)
	if err := <-session.err; err == nil || !strings.Contains(err.Error(), "only kubectl fettle logs starts this command") {
		t.Errorf("not a message: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	session, end = start(ctx)
	defer end()
	cancel()
	if err := <-session.err; !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// TestRefused tests that an error arrives with its exit code and what to do.
func TestRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.log", []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]int{"none.log": ui.Usage, "a.log": ui.Failed, filepath.Join("..", "..", "none"): ui.Usage} {
		session, end := start(t.Context())
		_, err := (&Caller{Session: session}).Look(Request{Paths: []string{path}, Groups: 10, Command: "kubectl fettle logs " + path})
		hint, _ := ui.Advice(err)
		if ui.Code(err) != code || !strings.Contains(err.Error(), path) || hint == "" {
			t.Errorf("%s: exit code %d: %v (%s)", path, ui.Code(err), err, hint)
		}
		end()
	}
}
