package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// Record kinds and schema of a result.
const (
	Schema     = "fettle/bench-network/v1"
	RecordKind = "bench-network"
)

// Result is the result of a bench.
type Result struct {
	Schema string                 `json:"schema"`
	Cut    *evidence.Interruption `json:"cut,omitempty"` // set if the bench ended early
	Series []evidence.Series      `json:"series"`
	Peer   string                 `json:"peer"`                // address
	Name   string                 `json:"peer_name,omitempty"` // host name
	Local  End                    `json:"local"`
	Remote End                    `json:"remote"`
	ForS   float64                `json:"duration_s"` // of a cell
	Bytes  int64                  `json:"most_bytes"` // of a cell
	EveryS float64                `json:"probe_interval_s"`
	Path   *Path                  `json:"path,omitempty"`
	Cells  []Summary              `json:"cells"`
	Text   string                 `json:"verdict"`
}

// JSONBody marks the body of a run.
func (Result) JSONBody() {}

// Summary is the result of a cell.
type Summary struct {
	Cell    string   `json:"cell"`
	Runs    int      `json:"runs"`
	Figures []Figure `json:"figures"`
	// Limit is what bounds the throughput; only of send and receive.
	Limit *Limit `json:"limit,omitempty"`
}

// Figure is one measured quantity.
type Figure struct {
	Name string `json:"name"` // with the unit at its end
	// Value is the median of the runs, or their mean for shares, which are counts.
	Value float64 `json:"value"`
	// Interval is a 95 % confidence interval of Value. It is absent with too few runs.
	Interval *[2]float64 `json:"interval,omitempty"`
}

// The quantities of the cells.
const (
	goodput      = "goodput_bit_s"
	cpuHere      = "cpu_here_s_per_gbit"
	cpuThere     = "cpu_peer_s_per_gbit"
	retransmits  = "retransmitted_share"
	loadedRTT    = "tcp_rtt_s"
	idleRTT      = "tcp_min_rtt_s"
	rwndShare    = "receive_window_limited_share"
	sndbufShare  = "send_buffer_limited_share"
	cpuShareHere = "cpu_here_share" // of one processor, by this program
	cpuSharePeer = "cpu_peer_share" // the same at the peer
	softirqHere  = "interrupts_here_share"
	softirqPeer  = "interrupts_peer_share"
	busyHere     = "machine_here_share" // mean of all processors
	busyPeer     = "machine_peer_share"
	mssBytes     = "mss_bytes"
	cwndBytes    = "congestion_window_bytes"
	rate         = "rate_per_s"
	p50          = "p50_s"
	p99          = "p99_s"
	p999         = "p99_9_s"
	jitterUp     = "jitter_send_s"
	jitterDown   = "jitter_receive_s"
	lossUp       = "lost_send_share"
	lossDown     = "lost_receive_share"
	orderUp      = "reordered_send_share"
	orderDown    = "reordered_receive_share"
	addedP50     = "added_p50_s"
	addedP99     = "added_p99_s"
	idleP50      = "idle_p50_s"
	loadP50      = "loaded_p50_s"
	loadP99      = "loaded_p99_s"
)

// shares are counts divided by counts, often 0 in most runs: their mean is meant.
var shares = []string{retransmits, lossUp, lossDown, orderUp, orderDown}

// Bench measures a plan with a peer.
type Bench struct {
	Client   *Client
	Plan     Plan
	Progress func(done, all int, c Cell) // before each run; may be nil
	// Finished, if not nil, is called with the result so far after each round except the last. An
	// error ends the bench.
	Finished func(*Result) error

	path Path
}

// sample are the values of a run by quantity.
type sample map[string]float64

// Run measures every cell once a round, in the reverse order every second round. If ctx ends, Run
// returns the completed rounds and the error.
func (b *Bench) Run(ctx context.Context) (*Result, error) {
	c, p := b.Client, &b.Plan
	r := &Result{Schema: Schema, Peer: c.Peer.String(), Name: c.Name, Local: c.Local, Remote: c.Remote, ForS: p.For.Seconds(), Bytes: p.Bytes, EveryS: p.Every.Seconds()}
	path, err := c.path(ctx)
	if err != nil {
		return nil, err
	}
	r.Path, b.path = &path, path
	samples := map[Cell][]sample{}
	for round := range Rounds {
		order := slices.Clone(p.Cells)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		got := map[Cell]sample{}
		for i, cell := range order {
			if b.Progress != nil {
				b.Progress(round*len(order)+i, Rounds*len(order), cell)
			}
			s, err := b.once(ctx, cell, round)
			if err != nil && round == 0 {
				return nil, fmt.Errorf("%s: %w", cell.Name(), err)
			}
			if err != nil {
				r.Cut = &evidence.Interruption{Done: round, Planned: Rounds, Of: "rounds"}
				return b.sum(r, samples, fmt.Errorf("%s: %w", cell.Name(), err))
			}
			got[cell] = s
		}
		for cell, s := range got {
			samples[cell] = append(samples[cell], s)
		}
		if done := round + 1; b.Finished != nil && done < Rounds {
			by := *r
			by.Cut = &evidence.Interruption{Done: done, Planned: Rounds, Of: "rounds"}
			if _, err := b.sum(&by, samples, nil); err != nil {
				return nil, err
			}
			if err := b.Finished(&by); err != nil {
				return &by, err
			}
		}
	}
	return b.sum(r, samples, nil)
}

// Once makes one run of a cell, and returns its deciding value and unit.
func (b *Bench) Once(ctx context.Context, cell Cell, round int) (float64, error) {
	s, err := b.once(ctx, cell, round)
	if err != nil {
		return 0, err
	}
	return s[Deciding(cell).name] * Deciding(cell).scale, nil
}

func (b *Bench) once(ctx context.Context, cell Cell, round int) (sample, error) {
	p, rtt := &b.Plan, b.Client.RTT
	run := p.run(rtt)
	switch cell.Kind {
	case Request:
		return b.requests(ctx, run, cell.Size)
	case Probes:
		t, err := b.Client.probes(ctx, run, p.Every, p.Size)
		if err != nil {
			return nil, err
		}
		return t.sample()
	case LoadUp, LoadDown:
		return b.loaded(ctx, cell, round%2 == 1)
	}
	for try := 1; ; try++ {
		s, err := b.Client.stream(ctx, b.job(cell, run), nil)
		if err != nil {
			return nil, err
		}
		v, err := s.sample(run, p.warm(rtt))
		if errors.Is(err, errNothing) && (b.path.Up.How == BlackHole || b.path.Down.How == BlackHole) {
			return nil, fmt.Errorf("nothing arrived: path MTU %s; lower the MTU of the interface, or let the ICMP messages through; --cells udp,request-1 measures the rest", b.path.words())
		}
		if !errors.Is(err, errNothing) || try == tries {
			return v, err
		}
	}
}

func (b *Bench) job(cell Cell, run time.Duration) streamJob {
	return streamJob{Down: cell.Kind == Receive || cell.Kind == LoadDown, Streams: cell.Streams, For: run, Bytes: max(b.Plan.Bytes/Rounds, int64(cell.Streams))}
}

// sample returns the values of a run of streams.
func (s *streamRun) sample(run, warm time.Duration) (sample, error) {
	bytes := s.receiver.goodput(run, warm)
	if bytes <= 0 {
		return nil, errNothing
	}
	all := 0.0
	for _, n := range s.receiver.Slots {
		all += float64(n)
	}
	v := sample{
		goodput: 8 * bytes, cpuHere: s.here.CPU / (8 * all / 1e9), cpuThere: s.there.CPU / (8 * all / 1e9),
		cpuShareHere: s.here.CPU / s.here.Wall, cpuSharePeer: s.there.CPU / s.there.Wall,
		softirqHere: s.here.Softirq, softirqPeer: s.there.Softirq, busyHere: s.here.All, busyPeer: s.there.All,
	}
	var again, segments float64
	for _, t := range s.sender.TCP {
		again, segments = again+float64(t.Retransmits), segments+float64(t.Segments)
		n := float64(len(s.sender.TCP))
		v[loadedRTT] += t.RTTS / n
		v[rwndShare] += t.RwndLimited / n
		v[sndbufShare] += t.SndbufLimited / n
		v[cwndBytes] += float64(t.Window)
		v[mssBytes] = float64(t.MSS)
		if first := v[idleRTT] == 0; first || t.MinRTTS < v[idleRTT] {
			v[idleRTT] = t.MinRTTS
		}
	}
	if segments > 0 {
		v[retransmits] = again / segments
	}
	return v, nil
}

func (b *Bench) requests(ctx context.Context, run time.Duration, size int) (sample, error) {
	r, err := b.Client.request(ctx, run, size)
	if err != nil {
		return nil, err
	}
	v := sample{rate: r.rate}
	v.setTimes(r.timesS, p99, p999)
	return v, nil
}

// setTimes sets the median, and the percentiles above which at least one value is.
func (v sample) setTimes(times []float64, percentiles ...string) {
	v[p50] = stats.Median(times)
	for i, q := range []float64{0.99, 0.999}[:len(percentiles)] {
		if float64(len(times))*(1-q) >= 1 {
			v[percentiles[i]] = stats.Quantile(times, q)
		}
	}
}

// loaded measures the round trip on the idle and on the loaded path, the loaded one first every
// second time.
func (b *Bench) loaded(ctx context.Context, cell Cell, loadedFirst bool) (sample, error) {
	p := &b.Plan
	half := p.run(b.Client.RTT) / 2
	var idle, loaded *train
	turns := []func() error{
		func() (err error) {
			idle, err = b.Client.probes(ctx, half, p.Every, p.Size)
			return err
		},
		func() (err error) {
			loaded, err = b.probesUnderLoad(ctx, cell, half)
			return err
		},
	}
	if loadedFirst {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return nil, err
		}
	}
	return addedLatency(idle, loaded)
}

// probesUnderLoad sends a train while streams fill the path.
func (b *Bench) probesUnderLoad(ctx context.Context, cell Cell, run time.Duration) (*train, error) {
	warm := max(run/4, 4*b.Client.RTT)
	j := b.job(cell, warm+run+tail)
	j.Bytes = math.MaxInt64 / 2 // the time bounds it: the path must be full while it is probed
	t := b.Client.newTrain(b.Plan.Every, b.Plan.Size)
	defer t.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	_, err := b.Client.stream(ctx, j, func() {
		go func() {
			select {
			case <-time.After(warm):
				sent <- t.send(ctx, run)
			case <-ctx.Done():
				sent <- ctx.Err()
			}
		}()
	})
	if err == nil {
		err = <-sent
	}
	if err == nil {
		err = t.finish(ctx)
	}
	return t, err
}

// addedLatency compares a train on the loaded path with one on the idle path.
func addedLatency(idle, loaded *train) (sample, error) {
	for _, t := range []*train{idle, loaded} {
		if _, err := t.sample(); err != nil {
			return nil, err
		}
	}
	v := sample{idleP50: stats.Median(idle.rttsS), loadP50: stats.Median(loaded.rttsS)}
	v[addedP50] = v[loadP50] - v[idleP50]
	if n := min(len(idle.rttsS), len(loaded.rttsS)); n >= 100 {
		v[loadP99] = stats.Quantile(loaded.rttsS, 0.99)
		v[addedP99] = v[loadP99] - stats.Quantile(idle.rttsS, 0.99)
	}
	return v, nil
}

// Decision is the quantity of a cell that a comparison uses.
type Decision struct {
	name  string
	scale float64 // from the quantity's unit to Unit
	Unit  string
	More  bool // higher is better
}

// Deciding returns the quantity that decides a cell.
func Deciding(c Cell) Decision {
	switch c.Kind {
	case Request, Probes:
		return Decision{p50, 1e3, "ms", false}
	case LoadUp, LoadDown:
		return Decision{addedP50, 1e3, "ms", false}
	}
	return Decision{goodput, 1e-6, "Mbit/s", true}
}

// sum computes the result of the samples. It returns the result with ended, the error that ended
// the bench.
func (b *Bench) sum(r *Result, samples map[Cell][]sample, ended error) (*Result, error) {
	r.Series, r.Cells = nil, nil
	for _, cell := range b.Plan.Cells {
		of := samples[cell]
		if len(of) == 0 {
			continue
		}
		d := Deciding(cell)
		s := evidence.Series{Name: "network:" + cell.Name(), Unit: d.Unit, More: d.More}
		sum := Summary{Cell: cell.Name(), Runs: len(of)}
		for _, name := range quantities {
			values := make([]float64, 0, len(of))
			for _, run := range of {
				if v, has := run[name]; has && !(v < 0 && name != addedP50 && name != addedP99) {
					values = append(values, v)
				}
			}
			if len(values) < len(of) || len(values) == 0 {
				continue // unknown in a run
			}
			sum.Figures = append(sum.Figures, figure(name, values))
			for _, v := range values {
				if name == d.name {
					if err := s.Add(v * d.scale); err != nil {
						return nil, err
					}
				}
			}
		}
		r.Series = append(r.Series, s)
		r.Cells = append(r.Cells, sum)
	}
	r.limits(b.Client.host, b.Plan.Cells)
	r.Text = r.Cut.Text(r.text())
	return r, ended
}

// quantities are all quantities in the order of a summary.
var quantities = []string{
	goodput, retransmits, loadedRTT, idleRTT, rwndShare, sndbufShare, cwndBytes, mssBytes, cpuHere, cpuThere, cpuShareHere, cpuSharePeer,
	softirqHere, softirqPeer, busyHere, busyPeer, rate, p50, p99, p999, jitterUp, jitterDown, lossUp, lossDown, orderUp, orderDown,
	addedP50, addedP99, idleP50, loadP50, loadP99,
}

// figure sums up the values of the runs.
func figure(name string, values []float64) Figure {
	if slices.Contains(shares, name) {
		f := Figure{Name: name, Value: stats.Mean(values)}
		if n := float64(len(values)); n >= 3 {
			half := stats.StudentQuantile(0.975, n-1) * stats.SD(values) / math.Sqrt(n)
			f.Interval = &[2]float64{max(0, f.Value-half), f.Value + half}
		}
		return f
	}
	f := Figure{Name: name, Value: stats.Median(values)}
	if i := stats.MedianInterval(values, 0.05); !math.IsInf(i.High, 0) && !math.IsInf(i.Low, 0) {
		f.Interval = &[2]float64{i.Low, i.High}
	}
	return f
}

// Figure returns a quantity of the cell.
func (s *Summary) Figure(name string) (f Figure, ok bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return f, false
	}
	return s.Figures[i], true
}

// value returns the value of a quantity, or NaN.
func (s *Summary) value(name string) float64 {
	if f, ok := s.Figure(name); ok {
		return f.Value
	}
	return math.NaN()
}
