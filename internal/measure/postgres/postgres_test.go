package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/evidence"
)

const GiB = 1 << 30

func room() Room {
	return Room{SharedBuffers: 2 * GiB, MaxWAL: GiB, Connections: 95, Version: "15.8", Cache: 30 * GiB, Free: 100 * GiB, CPUs: 8}
}

func asked() Asked { return Asked{Rounds: 3, Step: time.Second} }

func TestPlans(t *testing.T) {
	for name, c := range map[string]struct {
		room    func(*Room)
		asked   func(*Asked)
		scale   int
		clients []int
		left    []int
		fault   string
	}{
		"default":         {scale: 50, clients: []int{1, 2, 4, 8, 16, 32}},
		"few connections": {room: func(r *Room) { r.Connections = 20 }, scale: 50, clients: []int{1, 2, 4, 8}, left: []int{16, 32}},
		"none left":       {room: func(r *Room) { r.Connections = 3 }, fault: "has 3 connections left"},
		"asked":           {asked: func(a *Asked) { a.Clients, a.Scale = []int{8, 1, 8}, 7 }, scale: 7, clients: []int{1, 8}},
		"out of cache":    {room: func(r *Room) { r.Free = 1000 * GiB }, asked: func(a *Asked) { a.OutOfCache = true }, scale: 3277, clients: []int{1, 2, 4, 8, 16, 32}},
		"no room for it":  {asked: func(a *Asked) { a.OutOfCache = true }, fault: "more than a quarter of the free space: scale 3277 needs about 53.8 GiB including the WAL; a quarter is 25 GiB"},
		"disk is full":    {room: func(r *Room) { r.Free = 4 << 20 }, fault: "a quarter is 1 MiB"},
		"no clients":      {asked: func(a *Asked) { a.Clients = []int{0} }, fault: "--clients 0"},
		"no rounds":       {asked: func(a *Asked) { a.Rounds = 0 }, fault: "--rounds 0"},
		"short":           {asked: func(a *Asked) { a.Step = time.Millisecond }, fault: "--step 1ms"},
		"huge":            {asked: func(a *Asked) { a.Scale = math.MaxInt }, fault: "scale"},
	} {
		r, a := room(), asked()
		if c.room != nil {
			c.room(&r)
		}
		if c.asked != nil {
			c.asked(&a)
		}
		p, err := Make(r, a)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
			continue
		}
		if err != nil || p.Scale != c.scale || !slices.Equal(p.Clients, c.clients) || !slices.Equal(p.Left, c.left) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestInCache tests that a database counts as in memory up to one and a half times the possible
// cache, and that a database of the recommended scale does not.
func TestInCache(t *testing.T) {
	r := room()
	if text := r.InCache(20 * GiB); !strings.Contains(text, "not disk reads: the database has 20 GiB, of which shared buffers and page cache hold up to 32 GiB; to read from the disk use --scale 3277") {
		t.Error(text)
	}
	if text := r.InCache(48 * GiB); text != "" {
		t.Error(text)
	}
	if text := r.InCache(int64(r.scaleOutOfCache()) * ofScale); text != "" {
		t.Errorf("the scale named is in memory: %s", text)
	}
}

// Output of pgbench 15 and 12.
const (
	printed15 = `pgbench (15.8)
transaction type: <builtin: TPC-B (sort of)>
number of transactions actually processed: 812
number of failed transactions: 0 (0.000%)
latency average = 1.2 ms
initial connection time = 2.1 ms
tps = 812.345678 (without initial connection time)
`
	printed12 = `latency average = 1.233 ms
tps = 811.1 (including connections establishing)
tps = 812.2 (excluding connections establishing)
`
)

func TestPrinted(t *testing.T) {
	for text, want := range map[string]float64{printed15: 812.345678, printed12: 812.2} {
		if v, err := transactions(text); v != want || err != nil {
			t.Errorf("%v %v", v, err)
		}
	}
	for text, want := range map[string]string{
		"": "has no tps", "tps = 0.0 (without initial connection time)": "invalid rate", "tps = 1.2.3 (without initial connection time)": "invalid rate",
		strings.Replace(printed15, "transactions: 0", "transactions: 3", 1): "3 transactions of pgbench failed",
	} {
		if _, err := transactions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if all, err := latencies(strings.NewReader("0 199 2241 0 1175850568 995598 12 0\n0 200 skipped 0 1175850568 995599 13 0\n")); err != nil || !slices.Equal(all, []float64{0.002241}) {
		t.Errorf("with the lag and the retries: %v %v", all, err)
	}
	took, err := latencies(strings.NewReader("0 199 2241 0 1175850568 995598\n1 1 failed 0 1 2\n0 200 1000000 0 1 2\n"))
	if err != nil || !slices.Equal(took, []float64{0.002241, 1}) {
		t.Errorf("%v %v", took, err)
	}
	for text, want := range map[string]string{"1 2 3\n": "log:1", "0 1 2 0 1 2\n0 1 -2 0 1 2\n": "log:2", "0 1 x 0 1 2\n": "not a time",
		// A line of the aggregated log: its third column is a sum, and skipped transactions are not in it.
		"1345828501 5601 1542744 483552416 61 2573 0 0 0 0 0 0 0 0 0\n": "15 columns"} {
		if _, err := latencies(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzPrinted(f *testing.F) {
	f.Add(printed15)
	f.Add("tps = 99999999999999999999999e (without initial connection time)")
	f.Add("0 199 2241 0 1175850568 995598\n")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := transactions(text); err == nil && !(v > 0 && !math.IsInf(v, 0)) {
			t.Errorf("%v of %q", v, text)
		}
		if all, err := latencies(strings.NewReader(text)); err == nil && slices.ContainsFunc(all, func(v float64) bool { return !(v >= 0) }) {
			t.Errorf("%v of %q", all, text)
		}
	})
}

// server simulates a server with configurable failures.
type server struct {
	fail map[string]error // by the beginning of a statement
	did  []string
	held int
}

func (s *server) statement(text string) error {
	s.did = append(s.did, text)
	for begin, err := range s.fail {
		if strings.HasPrefix(text, begin) {
			return err
		}
	}
	return nil
}

func (s *server) One(_ context.Context, _, text string) (string, error) {
	return "12000000", s.statement(text)
}
func (s *server) Do(_ context.Context, _, text string) error { return s.statement(text) }
func (s *server) Hold(context.Context, string) (func(), error) {
	s.held++
	return func() { s.held-- }, s.statement("HOLD")
}

// program simulates a pgbench of known speed: c*100 transactions a second with c clients.
type program struct {
	fail   map[string]error
	calls  []string
	logged string
}

func (p *program) Run(_ context.Context, args ...string) (string, error) {
	all := strings.Join(args, " ")
	p.calls = append(p.calls, all)
	for part, err := range p.fail {
		if strings.Contains(all, part) {
			return "", err
		}
	}
	c := 0
	if _, err := fmt.Sscanf(all, "-c %d", &c); err == nil {
		p.logged = strings.Repeat("0 1 10000 0 1 2\n", 10)
	}
	return fmt.Sprintf("tps = %d.0 (without initial connection time)\n", 100*c), nil
}
func (p *program) LogPrefix() string { return "/log" }
func (p *program) Log(read func(io.Reader) error) error {
	defer func() { p.logged = "" }()
	return read(strings.NewReader(p.logged))
}

func TestLadder(t *testing.T) {
	plan, err := Make(room(), Asked{Clients: []int{1, 4, 16, 200}, Rounds: 2, Step: time.Second, Scale: 3})
	if err != nil {
		t.Fatal(err)
	}
	s, p := &server{}, &program{fail: map[string]error{"-c 4 ": errors.New("pgbench: exit 2")}}
	d, err := Create(t.Context(), s)
	if err != nil || s.held != 1 || !strings.HasPrefix(s.did[0], "CREATE DATABASE fettle_bench_") || !strings.HasPrefix(s.did[1], "COMMENT ON DATABASE "+d.Name) {
		t.Fatalf("%q, %v", s.did, err)
	}
	r, err := plan.Run(t.Context(), s, d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Text != "1600 transactions a second with 16 clients, p99 10.0 ms, in memory" || len(r.Steps) != 2 || len(r.Failed) != 2 || r.Failed[1].Clients != 4 || len(r.Series) != 4 {
		t.Errorf("%+v", r)
	}
	var order []string
	for _, c := range p.calls {
		order = append(order, strings.Join(strings.Fields(c)[:2], " "))
	}
	if got := strings.Join(order, ", "); got != "-i -q, -c 1, -c 4, -c 16, -c 16, -c 1" {
		t.Errorf("in the order %s", got)
	}
	if tps, err := plan.Work(t.Context(), d, p, 16); tps != 1600 || err != nil {
		t.Errorf("as work: %v %v", tps, err)
	}
	if err := d.Drop(t.Context()); err != nil || s.held != 0 || !strings.HasPrefix(s.did[len(s.did)-1], "DROP DATABASE IF EXISTS "+d.Name) {
		t.Errorf("%q, %v", s.did, err)
	}
	p.fail = map[string]error{"-i": errors.New("No space left on device")}
	if _, err := plan.Run(t.Context(), s, d, p, nil); err == nil || !strings.Contains(err.Error(), "cannot fill the benchmark's tables: No space left") {
		t.Errorf("%v", err)
	}
}

// TestUnmarked tests that a database that cannot be marked or held is dropped at once, and that one
// that could not be created is not.
func TestUnmarked(t *testing.T) {
	for begin, drops := range map[string]bool{"CREATE": false, "COMMENT": true, "HOLD": true} {
		s := &server{fail: map[string]error{begin: errors.New("refused")}}
		_, err := Create(t.Context(), s)
		dropped := slices.ContainsFunc(s.did, func(text string) bool { return strings.HasPrefix(text, "DROP") })
		if err == nil || dropped != drops {
			t.Errorf("%s: %v, %q", begin, err, s.did)
		}
	}
}

// hanging is a pgbench that does not end, from its second call on.
type hanging struct{ calls int }

func (h *hanging) LogPrefix() string               { return "/tmp/log" }
func (h *hanging) Log(func(io.Reader) error) error { return nil }
func (h *hanging) Run(ctx context.Context, _ ...string) (string, error) {
	if h.calls++; h.calls == 1 {
		return "", nil
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// TestHangs tests that fettle does not wait for a hanging pgbench, and tries no further step.
func TestHangs(t *testing.T) {
	defer func(d time.Duration) { allowance = d }(allowance)
	allowance = 10 * time.Millisecond
	p := &Plan{Room: room(), Scale: 0, Clients: []int{1, 2}, Step: 10 * time.Millisecond}
	h := &hanging{}
	_, err := p.step(t.Context(), &Database{Name: "x"}, &hanging{calls: 1}, 2)
	if !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "pg_stat_activity") {
		t.Error(err)
	}
	if err := p.Fill(t.Context(), &Database{Name: "x"}, h); err != nil {
		t.Error(err)
	}
	if err := p.Fill(t.Context(), &Database{Name: "x"}, h); !errors.Is(err, errHangs) {
		t.Error(err)
	}
}

// cutting is a pgbench whose call is interrupted.
type cutting struct {
	program
	at     int
	cancel func()
}

func (p *cutting) Run(ctx context.Context, args ...string) (string, error) {
	if len(p.calls) == p.at {
		p.cancel()
		return "", ctx.Err()
	}
	return p.program.Run(ctx, args...)
}

// TestCut tests that an interrupted run keeps the finished steps.
func TestCut(t *testing.T) {
	for at, want := range map[int]string{1: "", 3: "interrupted after 2 of 6 steps: 400 transactions a second with 4 clients", 5: "interrupted after 4 of 6 steps: 1600 transactions a second with 16 clients"} {
		plan, err := Make(room(), Asked{Clients: []int{1, 4, 16}, Rounds: 2, Step: time.Second, Scale: 3})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		r, err := plan.Run(ctx, &server{}, &Database{Name: "x"}, &cutting{at: at, cancel: cancel}, func(done, all, _ int) { told = done })
		cancel()
		if !errors.Is(err, context.Canceled) || (r == nil) != (want == "") || told != at-1 {
			t.Errorf("%d: %+v, %v, told %d", at, r, err, told)
			continue
		}
		if r != nil && !strings.HasPrefix(r.Text, want) {
			t.Errorf("%d: %s", at, r.Text)
		}
	}
}

// TestFinished tests that the result so far is passed on after each step, and does not affect the
// final result. If it cannot be stored, the run ends with its result so far.
func TestFinished(t *testing.T) {
	climb := func(finished func(*Result) error) (*Result, error) {
		plan, err := Make(room(), Asked{Clients: []int{1, 4}, Rounds: 2, Step: time.Second, Scale: 3})
		if err != nil {
			t.Fatal(err)
		}
		plan.Finished = finished
		return plan.Run(t.Context(), &server{}, &Database{Name: "x"}, &cutting{at: 100}, nil)
	}
	want, err := climb(nil)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	got, err := climb(func(r *Result) error {
		if n := len(steps) + 1; r.Cut == nil || *r.Cut != (evidence.Interruption{Done: n, Planned: 4, Of: "steps"}) || len(r.Steps) != min(n, 2) || len(r.Curves) != 2 {
			t.Errorf("%+v", r)
		}
		steps = append(steps, len(r.Series))
		return nil
	})
	if d := cmp.Diff(want, got); err != nil || d != "" || !slices.Equal(steps, []int{2, 4, 4}) {
		t.Error(steps, err, d)
	}
	full := errors.New("no space left on device")
	got, err = climb(func(*Result) error { return full })
	if !errors.Is(err, full) || got == nil || got.Cut == nil || got.Cut.Done != 1 || len(got.Steps) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
