package postgres

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
)

// Schema names the JSON form of Result.
const Schema = "fettle/bench-postgres/v1"

// Program is pgbench, run as a user that the server accepts.
type Program interface {
	Run(ctx context.Context, args ...string) (stdout string, err error)
	// LogPrefix is the value of --log-prefix.
	LogPrefix() string
	// Log reads and removes the logs written since the last call.
	Log(read func(io.Reader) error) error
}

// Result is the result of a bench.
type Result struct {
	Schema   string                 `json:"schema"`        // fettle/bench-postgres/v1
	Cut      *evidence.Interruption `json:"cut,omitempty"` // set if the bench ended early
	Series   []evidence.Series      `json:"series"`
	Curves   []evidence.Curve       `json:"curves"`
	Server   string                 `json:"server"`
	Room     Room                   `json:"room"`
	Scale    int                    `json:"scale"`
	Bytes    int64                  `json:"database_bytes"`
	ReadOnly bool                   `json:"read_only"`
	StepS    float64                `json:"step_s"`
	Rounds   int                    `json:"rounds"`
	// InCache warns if the database fits into memory (see Room.InCache); else "".
	InCache string   `json:"in_cache,omitempty"`
	Steps   []Step   `json:"steps"`
	Failed  []Failed `json:"failed,omitempty"`
	Text    string   `json:"verdict"`
}

// JSONBody marks the body of a run.
func (Result) JSONBody() {}

// Step is the result with one number of clients: medians over the rounds.
type Step struct {
	Clients int     `json:"clients"`
	TPS     float64 `json:"transactions_per_s"`
	Spread  float64 `json:"spread_ratio"`
	P50S    float64 `json:"p50_s"`
	P99S    float64 `json:"p99_s"`
	MeanS   float64 `json:"mean_s"`
}

// Failed is a number of clients that could not be measured.
type Failed struct {
	Clients int    `json:"clients"`
	Why     string `json:"why"`
}

// sample is the result of one step of one round. Times are in seconds.
type sample struct{ tps, p50, p99, mean float64 }

// Run fills the database and measures each number of clients. Every second round is in decreasing
// order, so that growth over time affects all alike. progress is called before each step. If ctx
// ends or pgbench hangs, Run returns the results so far and the error.
func (p *Plan) Run(ctx context.Context, s Server, d *Database, pgbench Program, progress func(done, all, clients int)) (*Result, error) {
	if err := p.Fill(ctx, d, pgbench); err != nil {
		return nil, err
	}
	r := &Result{Schema: Schema, Room: p.Room, Scale: p.Scale, ReadOnly: p.ReadOnly, StepS: p.Step.Seconds(), Rounds: p.Rounds, Series: []evidence.Series{}, Curves: []evidence.Curve{}, Steps: []Step{}}
	size, err := s.One(ctx, maintenance, "SELECT pg_database_size('"+d.Name+"')")
	if err != nil {
		return nil, err
	}
	if r.Bytes, err = strconv.ParseInt(size, 10, 64); err != nil {
		return nil, err
	}
	r.InCache = p.Room.InCache(r.Bytes)
	for _, c := range p.Left {
		r.Failed = append(r.Failed, Failed{c, "the server has too few connections left (max_connections)"})
	}
	samples := map[int][]sample{}
	order := slices.Clone(p.Clients)
	done, all := 0, p.Rounds*len(p.Clients)
	for range p.Rounds {
		for _, c := range slices.Clone(order) {
			if progress != nil {
				progress(done, all, c)
			}
			one, err := p.step(ctx, d, pgbench, c)
			if ctx.Err() != nil || errors.Is(err, errHangs) {
				r.Cut = (&evidence.Interruption{Done: done, Planned: all, Of: "steps"}).EndedBy(ctx, err)
				return r.whole(samples, fmt.Errorf("with %s: %w", text.Count(c, "client"), cmp.Or(ctx.Err(), err)))
			}
			done++
			if err != nil {
				r.Failed = append(r.Failed, Failed{c, err.Error()})
				order = slices.DeleteFunc(order, func(o int) bool { return o == c })
				delete(samples, c)
				continue
			}
			samples[c] = append(samples[c], one)
			if p.Finished == nil || done == all {
				continue
			}
			if err := p.finished(*r, samples, done, all); err != nil {
				r.Cut = &evidence.Interruption{Done: done, Planned: all, Of: "steps"}
				return r.whole(samples, err)
			}
		}
		slices.Reverse(order)
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("no step could be measured; the step with %s: %s", text.Count(r.Failed[0].Clients, "client"), r.Failed[0].Why)
	}
	return r.whole(samples, nil)
}

// finished passes the result of the first done steps to Finished.
func (p *Plan) finished(r Result, samples map[int][]sample, done, all int) error {
	r.Failed, r.Cut = slices.Clone(r.Failed), &evidence.Interruption{Done: done, Planned: all, Of: "steps"}
	found, err := r.whole(samples, nil)
	if err != nil {
		return err
	}
	return p.Finished(found)
}

// whole completes the result and returns it with ended, the error that ended the bench. The result
// is nil if nothing was measured.
func (r *Result) whole(samples map[int][]sample, ended error) (*Result, error) {
	if len(samples) == 0 {
		return nil, ended
	}
	return r, errors.Join(ended, r.sum(slices.Sorted(maps.Keys(samples)), samples))
}

// Fill creates and fills pgbench's tables.
func (p *Plan) Fill(ctx context.Context, d *Database, pgbench Program) error {
	if _, err := within(ctx, time.Duration(p.Scale)*slowestScale+allowance, pgbench, "-i", "-q", "-s", strconv.Itoa(p.Scale), d.Name); err != nil {
		return fmt.Errorf("cannot fill the benchmark's tables: %w", err)
	}
	return nil
}

// errHangs is returned if pgbench does not end within its time limit.
var errHangs = errors.New("pgbench hung")

// allowance is the time that pgbench may take beyond its expected time: its last transactions may
// wait for a checkpoint on a slow disk. Tests change it.
var allowance = 3 * time.Minute

// slowestScale is the time limit for filling one unit of scale (about 15 MiB and their log).
const slowestScale = time.Minute

// within runs pgbench for at most limit. It returns errHangs after that.
func within(ctx context.Context, limit time.Duration, pgbench Program, args ...string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := pgbench.Run(bounded, args...)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w and was stopped after %v; to see what it waits for, run it again and query pg_stat_activity on the server meanwhile", errHangs, limit.Round(time.Second))
	}
	return out, err
}

// Work runs one step with a number of clients in a filled database. It returns the transactions
// per second. It can be repeated.
func (p *Plan) Work(ctx context.Context, d *Database, pgbench Program, clients int) (float64, error) {
	s, err := p.step(ctx, d, pgbench, clients)
	return s.tps, err
}

func (p *Plan) step(ctx context.Context, d *Database, pgbench Program, clients int) (s sample, err error) {
	args := []string{"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, max(p.Room.CPUs, 1))), "-T", strconv.Itoa(int(math.Ceil(p.Step.Seconds()))), "--log", "--log-prefix=" + pgbench.LogPrefix()}
	if p.ReadOnly {
		args = append(args, "-S")
	}
	out, runErr := within(ctx, 2*p.Step+allowance, pgbench, append(args, d.Name)...)
	var took []float64
	logErr := pgbench.Log(func(in io.Reader) (err error) {
		more, err := latencies(in)
		took = append(took, more...)
		return err
	})
	if err := errors.Join(runErr, logErr); err != nil {
		return s, err
	}
	if s.tps, err = transactions(out); err != nil {
		return s, err
	}
	if len(took) == 0 {
		return s, errors.New("pgbench logged no transaction")
	}
	s.p50, s.p99, s.mean = stats.Quantile(took, 0.5), stats.Quantile(took, 0.99), stats.Mean(took)
	return s, nil
}

var (
	rate   = text.LazyRegexp(`(?m)^tps = ([0-9.]+) \((without initial connection time|excluding connections establishing)\)`)
	failed = text.LazyRegexp(`(?m)^number of failed transactions: ([1-9][0-9]*)`)
)

// transactions returns the rate in pgbench's output, without connection time, per second.
func transactions(out string) (float64, error) {
	if f := failed().FindStringSubmatch(out); f != nil {
		return 0, fmt.Errorf("%s transactions of pgbench failed", f[1])
	}
	m := rate().FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("the output of pgbench has no tps: %.200q", out)
	}
	tps, err := strconv.ParseFloat(m[1], 64)
	if err != nil || !(tps > 0) || math.IsInf(tps, 0) {
		return 0, fmt.Errorf("pgbench printed an invalid rate: %s transactions per second", m[1])
	}
	return tps, nil
}

// latencies returns the third column of pgbench's log, which is in microseconds (PostgreSQL,
// pgbench, "Per-Transaction Logging"), in seconds. "failed" and "skipped" transactions have no
// time.
func latencies(log io.Reader) (out []float64, err error) {
	in := bufio.NewScanner(log)
	for n := 1; in.Scan(); n++ {
		f := bytes.Fields(in.Bytes())
		// Six columns, or eight with the lag of a schedule and the retries. PostgreSQL 17's
		// aggregated log has 15; its third column is a sum.
		if len(f) < 6 || len(f) > 8 {
			return nil, fmt.Errorf("pgbench's log:%d: %.80q has %s, want 6 to 8", n, in.Text(), text.Count(len(f), "column"))
		}
		if string(f[2]) == "failed" || string(f[2]) == "skipped" {
			continue
		}
		us, err := strconv.ParseUint(string(f[2]), 10, 53)
		if err != nil {
			return nil, fmt.Errorf("pgbench's log:%d: %.20q is not a time in microseconds", n, f[2])
		}
		out = append(out, float64(us)*1e-6)
	}
	return out, in.Err()
}

// sum computes the series, the curves and the verdict.
func (r *Result) sum(order []int, samples map[int][]sample) error {
	kind := "tpcb"
	if r.ReadOnly {
		kind = "select"
	}
	tps, p50, p99 := evidence.Line{Name: kind}, evidence.Line{Name: "median"}, evidence.Line{Name: "p99"}
	best := 0
	for i, c := range order {
		of := func(pick func(sample) float64) []float64 {
			var out []float64
			for _, s := range samples[c] {
				out = append(out, pick(s))
			}
			return out
		}
		name := fmt.Sprintf("postgres:%s-c%d", kind, c)
		rates, tails := evidence.Series{Name: name, Unit: "1/s", More: true}, evidence.Series{Name: name + "-p99", Unit: "ms"}
		for _, s := range samples[c] {
			if err := errors.Join(rates.Add(s.tps), tails.Add(1000*s.p99)); err != nil {
				return err
			}
		}
		r.Series = append(r.Series, rates, tails)
		s := Step{Clients: c, TPS: stats.Median(rates.Samples), Spread: stats.Spread(rates.Samples), P50S: stats.Median(of(func(s sample) float64 { return s.p50 })),
			P99S: stats.Median(of(func(s sample) float64 { return s.p99 })), MeanS: stats.Median(of(func(s sample) float64 { return s.mean }))}
		r.Steps = append(r.Steps, s)
		if s.TPS > r.Steps[best].TPS {
			best = i
		}
		x := float64(c)
		tps.Points = append(tps.Points, [2]float64{x, s.TPS})
		p50.Points, p99.Points = append(p50.Points, [2]float64{x, 1000 * s.P50S}), append(p99.Points, [2]float64{x, 1000 * s.P99S})
	}
	clients := evidence.Axis{Name: "clients", Scale: evidence.Log}
	r.Curves = []evidence.Curve{
		{Name: "transactions by clients", X: clients, Y: evidence.Axis{Name: "transactions", Unit: "1/s", Scale: evidence.Linear}, Lines: []evidence.Line{tps}},
		{Name: "latency by clients", X: clients, Y: evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Linear}, Lines: []evidence.Line{p50, p99}},
	}
	b := r.Steps[best]
	r.Text = fmt.Sprintf("%.0f transactions a second with %s, p99 %.1f ms", b.TPS, text.Count(b.Clients, "client"), 1000*b.P99S)
	if b.Spread > noisy {
		r.Text = fmt.Sprintf("no verdict: the rounds differ by %.0f %% with %s", 100*b.Spread, text.Count(b.Clients, "client"))
	}
	if r.InCache != "" {
		r.Text += ", in memory"
	}
	r.Text = r.Cut.Text(r.Text)
	return nil
}

// noisy is the spread above which no verdict is given.
const noisy = 0.25

// String returns the step and the reason as part of a sentence.
func (f Failed) String() string {
	return fmt.Sprintf("%s: %s", text.Count(f.Clients, "client"), strings.TrimSpace(f.Why))
}
