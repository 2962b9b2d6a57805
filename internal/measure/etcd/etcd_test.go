package etcd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/stats"
)

var inf = math.Inf(1)

// histogram is a histogram of etcd with the given numbers of observations in the buckets from 1 ms
// on.
func histogram(counts ...float64) stats.Histogram {
	h, sum, bound := stats.Histogram{}, 0.0, 0.001
	for range 14 { // as etcd has them (server/storage/wal/metrics.go)
		if len(counts) > 0 {
			sum += counts[0]
			counts = counts[1:]
		}
		h[bound] = sum
		bound *= 2
	}
	if len(counts) > 0 {
		sum += counts[0]
	}
	h[inf] = sum
	return h
}

func TestJudgements(t *testing.T) {
	for text, c := range map[string]struct {
		h     stats.Histogram
		limit float64
		word  Word
	}{
		"p99 between 4 and 8 ms, below 10 ms":                           {histogram(500, 300, 185, 10, 5), fsyncLimitS, Pass},
		"p99 between 8 and 16 ms, which includes the limit 10 ms":       {histogram(500, 300, 100, 85, 15), fsyncLimitS, CannotTell},
		"p99 between 16 and 32 ms, not below 10 ms":                     {histogram(500, 300, 100, 50, 20, 30), fsyncLimitS, Fail},
		"p99 between 16 and 32 ms, which includes the limit 25 ms":      {histogram(500, 300, 100, 50, 20, 30), commitLimitS, CannotTell},
		"p99 at most 1 ms, below 10 ms":                                 {histogram(1000), fsyncLimitS, Pass},
		"p99 above 8,192 ms, not below 10 ms":                           {histogram(900, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100), fsyncLimitS, Fail},
		"p99 at most 1 ms from only 999 observations; 1,000 are needed": {histogram(999), fsyncLimitS, CannotTell},
		"nothing was observed":                                          {histogram(), fsyncLimitS, CannotTell},
		"p99 between 1 and 2 ms, below 10 ms":                           {histogram(989, 11), fsyncLimitS, Pass},
		"p99 at most 1 ms, below 25 ms":                                 {histogram(990, 10), commitLimitS, Pass},
		"p99 above 0 ms from only 1 observation; 1,000 are needed":      {stats.Histogram{inf: 1}, fsyncLimitS, CannotTell},
	} {
		if j := judge("fsync", "window", c.h, c.limit); j.Text != text || j.Word != c.word {
			t.Errorf("%q %s, want %q %s", j.Text, j.Word, text, c.word)
		}
	}
}

func TestHostileHistograms(t *testing.T) {
	for name, h := range map[string]stats.Histogram{
		"falls": {1: 5, 2: 4, inf: 5}, "negative": {1: -1, inf: 3}, "endless": {1: inf, inf: inf}, "none": {1: 1},
		"bound": {-1: 1, inf: 1}, "no number": {1: math.NaN(), inf: 1}, "no bound": {math.NaN(): 1, inf: 1},
	} {
		if h.Check() == nil {
			t.Errorf("%s: %v is taken", name, h)
		}
	}
	a, b := histogram(1, 2), histogram(2, 3)
	if d, err := b.Since(a); err != nil || d[inf] != 2 || d[0.001] != 1 {
		t.Errorf("%v %v", d, err)
	}
	if _, err := a.Since(b); !errors.Is(err, stats.ErrCounterReset) {
		t.Errorf("restarted: %v", err)
	}
	if _, err := a.Since(stats.Histogram{inf: 1}); !errors.Is(err, stats.ErrCounterReset) {
		t.Errorf("other buckets: %v", err)
	}
}

func FuzzHistogram(f *testing.F) {
	f.Add(0.001, 1.0, 0.002, 5.0, 7.0)
	f.Add(math.NaN(), 1.0, inf, math.NaN(), -1.0)
	f.Fuzz(func(t *testing.T, b1, n1, b2, n2, all float64) {
		h := stats.Histogram{b1: n1, b2: n2, inf: all}
		if h.Check() != nil || all == 0 {
			return
		}
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			if b := h.Quantile(q); b.Low < 0 || b.High != 0 && b.High <= b.Low || math.IsInf(b.Low, 0) {
				t.Errorf("%v of %v: %+v", q, h, b)
			}
		}
		_ = judge("fsync", "window", h, fsyncLimitS)
	})
}

// member simulates an etcd.
type member struct {
	now     time.Time
	page    Page
	each    time.Duration // of a write
	keys    map[string]string
	lease   string
	fail    map[string]error
	windows []stats.Histogram // comes to fsync and commit in each slice
}

func (m *member) Now() time.Time { return m.now }

func (m *member) call(_ context.Context, method string, asked, answer any) error {
	in := asked.(map[string]string)
	if err := m.fail[method]; err != nil {
		return err
	}
	m.now = m.now.Add(m.each)
	switch method {
	case "/v3/lease/grant":
		m.lease = "7587"
		answer.(*struct {
			ID string `json:"ID"`
		}).ID = m.lease
	case "/v3/kv/put":
		key, err := base64.StdEncoding.DecodeString(in["key"])
		if err != nil || in["lease"] != m.lease || m.lease == "" {
			return fmt.Errorf("bad put %v", in)
		}
		m.keys[string(key)] = in["value"]
	case "/v3/lease/revoke":
		if in["ID"] != m.lease {
			return errors.New("another lease")
		}
		m.lease = ""
		clear(m.keys)
	default:
		return errors.New("404")
	}
	return nil
}

func newMember() *member {
	return &member{now: time.Unix(1e9, 0), each: time.Millisecond, keys: map[string]string{}, fail: map[string]error{},
		page: Page{Fsync: histogram(2000), Commit: histogram(2000), FsyncSumS: 2, CommitSumS: 2, Leader: true, SizeBytes: 1 << 20, Version: "3.5"}}
}

func (m *member) bench() *Bench {
	add := func(to, more stats.Histogram) stats.Histogram {
		to = maps.Clone(to)
		for b, n := range more {
			to[b] += n
		}
		return to
	}
	return &Bench{Clock: m, Window: 5 * time.Second, Slices: 5, Page: func(context.Context) (Page, error) { return m.page, nil },
		Wait: func(_ context.Context, d time.Duration) error {
			m.now = m.now.Add(d)
			if len(m.windows) > 0 {
				w := m.windows[0]
				m.windows = m.windows[1:]
				m.page.Fsync, m.page.Commit = add(m.page.Fsync, w), add(m.page.Commit, w)
				m.page.FsyncSumS += 0.002 * w.Total()
				m.page.CommitSumS += 0.004 * w.Total()
			}
			return nil
		}}
}

func TestWatching(t *testing.T) {
	for name, c := range map[string]struct {
		windows []stats.Histogram
		page    func(*Page)
		word    Word
		text    string
	}{
		"quiet":        {nil, nil, Pass, "fast enough: fsync since its start: p99 at most 1 ms, below 10 ms; commit since its start: p99 at most 1 ms, below 25 ms"},
		"new and slow": {[]stats.Histogram{histogram(0, 0, 0, 0, 0, 0, 2000)}, nil, Fail, "too slow: fsync in the window: p99 between 32 and 64 ms, not below 10 ms"},
		"young":        {nil, func(p *Page) { p.Fsync = histogram(10) }, CannotTell, "cannot tell: fsync since its start: p99 at most 1 ms from only 10 observations"},
		"was slow":     {[]stats.Histogram{histogram(2000)}, func(p *Page) { p.Fsync = histogram(0, 0, 0, 0, 0, 0, 2000) }, Pass, "fast enough: fsync in the window"},
	} {
		m := newMember()
		m.windows = c.windows
		if c.page != nil {
			c.page(&m.page)
		}
		r, err := m.bench().Run(t.Context())
		if err != nil || r.Word != c.word || !strings.HasPrefix(r.Text, c.text) {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		if r.WindowS != 5 || len(r.Judged) != 4 || len(c.windows) == 1 && (len(r.Series) != 2 || r.Series[0].Samples[0] != 2 || r.Series[1].Samples[0] != 4) || len(c.windows) == 0 && len(r.Series) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, c := range map[string]struct {
		page func(*Page)
		want string
	}{
		"not etcd": {func(p *Page) { p.Commit = nil }, "metric etcd_disk_backend_commit_duration_seconds is missing"},
		"hostile":  {func(p *Page) { p.Fsync = stats.Histogram{1: 3, inf: 2} }, "invalid histogram"},
	} {
		m := newMember()
		c.page(&m.page)
		if _, err := m.bench().Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func writer(m *member) *Writer {
	return &Writer{Prefix: "bench/", Writes: 2000, Value: 100, Clock: m, Call: m.call}
}

// TestWriting tests that all keys are written below the prefix, that their times are those of the
// calls, and that no key remains.
func TestWriting(t *testing.T) {
	m := newMember()
	b := m.bench()
	b.Writer = writer(m)
	if err := b.Writer.Check(m.page); err != nil {
		t.Fatal(err)
	}
	if err := b.Writer.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.keys) != 2000 {
		t.Errorf("%d keys", len(m.keys))
	}
	for key := range m.keys {
		if !strings.HasPrefix(key, "bench/fettle-bench-") {
			t.Errorf("key %s", key)
		}
	}
	if w := r.Writes; w.N != 2000 || w.P50S != 0.001 || *w.P99S != 0.001 || math.Abs(w.RateS-1000) > 1 || len(r.Series[0].Samples) != 5 || r.Series[0].Name != "etcd:put" {
		t.Errorf("%+v %+v", w, r.Series)
	}
	if err := b.Writer.End(t.Context()); err != nil || len(m.keys) != 0 || m.lease != "" {
		t.Errorf("left: %d keys, %v", len(m.keys), err)
	}
	if s, err := writer(m).Work(t.Context()); err != nil || s != 0.001 || m.lease != "" {
		t.Errorf("as work: %v %v", s, err)
	}
}

func TestWritingRefused(t *testing.T) {
	for want, change := range map[string]func(*Writer, *Page){
		"not only slashes":                    func(w *Writer, _ *Page) { w.Prefix = "//" },
		"without spaces":                      func(w *Writer, _ *Page) { w.Prefix = "a b" },
		"belong to Kubernetes":                func(w *Writer, _ *Page) { w.Prefix = "/registry/pods" },
		"--writes 0":                          func(w *Writer, _ *Page) { w.Writes = 0 },
		"--value-size":                        func(w *Writer, _ *Page) { w.Value = 1 << 20 },
		"no leader":                           func(_ *Writer, p *Page) { p.Leader = false },
		"above 80 % of its quota of 2048 MiB": func(_ *Writer, p *Page) { p.SizeBytes = 1.72e9 },
		"above 80 % of its quota of 8 MiB":    func(_ *Writer, p *Page) { p.QuotaBytes = 8 << 20 },
	} {
		m := newMember()
		w, p := writer(m), m.page
		change(w, &p)
		if err := w.Check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	free := newMember().page
	free.SizeBytes, free.QuotaBytes = 20e9, -1 // a member without a quota reports -1
	if err := writer(newMember()).Check(free); err != nil {
		t.Errorf("without a quota: %v", err)
	}
	for method, want := range map[string]string{"/v3/lease/grant": "gone", "/v3/kv/put": "write 1: gone", "/v3/lease/revoke": "within an hour: gone"} {
		m := newMember()
		m.fail[method] = errors.New("gone")
		if _, err := writer(m).Work(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestWritingHangs tests that fettle does not wait for a member that does not answer.
func TestWritingHangs(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 10 * time.Millisecond
	w := writer(newMember())
	w.Call = func(ctx context.Context, _ string, _, _ any) error { <-ctx.Done(); return ctx.Err() }
	if err := w.Begin(t.Context()); err == nil || err.Error() != "/v3/lease/grant: etcd did not answer within 10ms" {
		t.Error(err)
	}
}

// TestCut tests that an interrupted bench keeps the finished part.
func TestCut(t *testing.T) {
	for at, want := range map[int]string{1: "", 3: "interrupted after 2 of 5 parts of its time: too slow: fsync in the window"} {
		m := newMember()
		m.windows = []stats.Histogram{histogram(0, 0, 0, 0, 0, 0, 2000), histogram(5), histogram(5)}
		b := m.bench()
		ctx, cancel := context.WithCancel(t.Context())
		waits, wait := 0, b.Wait
		b.Wait = func(ctx context.Context, d time.Duration) error {
			if waits++; waits == at {
				cancel()
				return ctx.Err()
			}
			return wait(ctx, d)
		}
		r, err := b.Run(ctx)
		cancel()
		if !errors.Is(err, context.Canceled) || (r == nil) != (want == "") {
			t.Errorf("%d: %+v, %v", at, r, err)
			continue
		}
		if r != nil && (!strings.HasPrefix(r.Text, want) || r.WindowS != 2 || r.Series[0].Samples[0] != 2 || len(r.Series[0].Samples) != 2) {
			t.Errorf("%d: %+v", at, r)
		}
	}
}

// TestFinished tests that the result so far is passed on after each part, and does not affect the
// final result. If it cannot be stored, the bench ends with its result so far.
func TestFinished(t *testing.T) {
	watch := func(finished func(*Result) error) (*Result, error) {
		m := newMember()
		m.windows = []stats.Histogram{histogram(0, 0, 0, 0, 0, 0, 2000), histogram(5), histogram(5), histogram(5), histogram(5), histogram(5)}
		b := m.bench()
		b.Finished = finished
		return b.Run(t.Context())
	}
	want, err := watch(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	got, err := watch(func(r *Result) error {
		if n++; r.Cut == nil || r.Cut.Done != n || len(r.Judged) != 4 || len(r.Series[0].Samples) != n || !strings.HasPrefix(r.Text, r.Cut.String()) {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if d := cmp.Diff(want, got); err != nil || d != "" || n != 4 {
		t.Error(n, err, d)
	}
	full := errors.New("no space left on device")
	if got, err := watch(func(*Result) error { return full }); !errors.Is(err, full) || got == nil || got.Cut == nil || got.Cut.Done != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
