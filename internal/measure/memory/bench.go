package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/stats"
)

// Schema names the JSON form of Result.
const Schema = "fettle/bench-memory/v1"

// Runner takes a sample.
type Runner func(context.Context, Task) (Sample, error)

// Fresh returns a Runner that takes each sample in a new process: argv, with the task as JSON as
// the last argument. A single process gives the same medians (within 3 % in ten pairs of 512 MiB).
// But a thread bound to CPUs stays bound, and if memory runs out, the kernel should kill the new
// process.
func Fresh(x host.Exec, argv ...string) Runner {
	return func(ctx context.Context, v Task) (s Sample, err error) {
		text, err := json.Marshal(v)
		if err != nil {
			return s, err
		}
		res, err := x.Run(ctx, host.Command{Argv: append(slices.Clone(argv), string(text)), Timeout: 30 * time.Minute, DiesWithCaller: true})
		if err != nil {
			return s, err
		}
		if res.ExitCode != 0 {
			return s, fmt.Errorf("the measuring process failed with exit code %d: %s", res.ExitCode, strings.TrimSpace(string(res.Stderr)))
		}
		if err := json.Unmarshal(res.Stdout, &s); err != nil {
			return s, fmt.Errorf("invalid output of the measuring process %.200q: %w", res.Stdout, err)
		}
		return s, nil
	}
}

// Result is the result of a bench.
type Result struct {
	Schema    string                 `json:"schema"`        // fettle/bench-memory/v1
	Cut       *evidence.Interruption `json:"cut,omitempty"` // set if the bench ended early
	Series    []evidence.Series      `json:"series"`
	SizeBytes int64                  `json:"size_bytes"` // of each mapping
	Reads     int64                  `json:"reads"`      // per sample
	Rounds    int                    `json:"rounds"`
	Seed      uint64                 `json:"seed"` // of the random order
	// THP is the machine's mode of transparent huge pages: always, madvise, never.
	THP         string       `json:"transparent_huge_pages,omitempty"`
	Cells       []Summary    `json:"cells"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Left        []LeftOut    `json:"not_measured,omitempty"`
	Records     []Record     `json:"visits"`
	Text        string       `json:"verdict"`
}

// JSONBody marks the body of a run.
func (Result) JSONBody() {}

// Summary is the result of a cell: medians over the rounds.
type Summary struct {
	Cell         string  `json:"cell"`
	Touch        float64 `json:"touch_cpu_s_per_gib"`
	TouchSpread  float64 `json:"touch_spread_ratio"`
	Random       float64 `json:"random_cpu_ns"`
	RandomSpread float64 `json:"random_spread_ratio"`
	Faults       float64 `json:"page_faults_per_gib"`
	Huge         float64 `json:"share_in_pages_of_the_size"` // minimum of all rounds
	Placed       float64 `json:"share_on_the_node"`          // minimum of all rounds
}

// Comparison compares two cells by the ratios within the rounds.
type Comparison struct {
	Cell    string  `json:"cell"`
	Against string  `json:"against"`
	Measure Measure `json:"measure"`
	// Speed is the factor by which the cell is faster; a value below 1 means slower.
	Speed float64 `json:"speed_ratio"`
	// Interval is a simultaneous 95 % confidence interval of all comparisons; absent with too few
	// rounds.
	Interval *[2]float64 `json:"speed_interval_ratio,omitempty"`
	Text     string      `json:"verdict"`
}

// Record is the sample of a cell in a round.
type Record struct {
	Round int    `json:"round"`
	Cell  string `json:"cell"`
	Sample
}

// least is the minimum share of a mapping on the requested pages and node.
const least = 0.9

// Run measures every cell once per round. Each round has a new random order, so that other activity
// affects all cells alike. A cell that does not get the requested pages is omitted from then on.
// progress is called before each sample. If ctx ends, Run returns the completed rounds and the error.
func (p *Plan) Run(ctx context.Context, run Runner, seed uint64, progress func(done, all int, c Cell)) (*Result, error) {
	r := &Result{Schema: Schema, SizeBytes: p.Bytes, Reads: p.Reads, Rounds: p.Rounds, Seed: seed, THP: p.THP, Left: slices.Clone(p.Left), Records: []Record{}}
	if len(p.Cells) == 0 {
		return nil, p.nothing()
	}
	order := rand.New(rand.NewPCG(seed, 0))
	cells := slices.Clone(p.Cells)
	for round := range p.Rounds {
		reads := order.Uint64()
		now := slices.Clone(cells)
		order.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
		for i, c := range now {
			if progress != nil {
				progress(round*len(now)+i, p.Rounds*len(now), c)
			}
			s, err := run(ctx, p.Task(c, reads))
			if ctx.Err() != nil && round == 0 {
				return nil, ctx.Err()
			}
			if ctx.Err() != nil {
				// Cells are compared within rounds.
				r.Records = slices.DeleteFunc(r.Records, func(v Record) bool { return v.Round == round })
				r.Cut, r.Rounds = &evidence.Interruption{Done: round, Planned: p.Rounds, Of: "rounds"}, round
				return r.summed(cells, ctx.Err())
			}
			why := ""
			if err != nil {
				why = err.Error()
			} else {
				why = s.unfit(c)
			}
			if why != "" {
				r.Left = append(r.Left, LeftOut{c.String(), why})
				cells = slices.DeleteFunc(cells, func(o Cell) bool { return o == c })
				continue
			}
			r.Records = append(r.Records, Record{round, c.String(), s})
		}
		if done := round + 1; p.Finished != nil && len(cells) > 0 && done < p.Rounds {
			if err := p.finished(*r, cells, done); err != nil {
				r.Cut, r.Rounds = &evidence.Interruption{Done: done, Planned: p.Rounds, Of: "rounds"}, done
				return r.summed(cells, err)
			}
		}
	}
	return r.summed(cells, nil)
}

// finished passes the result of the first done rounds to Finished.
func (p *Plan) finished(r Result, cells []Cell, done int) error {
	r.Records, r.Left = slices.Clone(r.Records), slices.Clone(r.Left)
	r.Cut, r.Rounds = &evidence.Interruption{Done: done, Planned: p.Rounds, Of: "rounds"}, done
	found, err := r.summed(cells, nil)
	if err != nil {
		return err
	}
	return p.Finished(found)
}

// summed computes the result of the cells that all rounds measured. It returns the result with
// ended, the error that ended the bench.
func (r *Result) summed(cells []Cell, ended error) (*Result, error) {
	if len(cells) == 0 {
		return nil, errors.Join(ended, fmt.Errorf("no cell could be measured: %s: %s", r.Left[0].Cell, r.Left[0].Why))
	}
	// In the plan's order, not that of the samples.
	for _, c := range cells {
		if err := r.sum(c); err != nil {
			return nil, err
		}
	}
	r.compare(cells)
	r.Text = r.Cut.Text(r.text())
	return r, ended
}

// Work returns a function that takes one sample for a cell and a measure ("thp-random"). That
// function returns the CPU time of the measure in seconds. The order of the reads is always the
// same. The caller reserves huge pages.
func Work(f *fact.Facts, run Runner, name string) (func(context.Context) (float64, error), error) {
	cell, measure, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	p, err := Make(f, Asked{Cells: []Cell{cell}})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (float64, error) { return p.once(ctx, run, measure) }, nil
}

func (p *Plan) once(ctx context.Context, run Runner, m Measure) (float64, error) {
	s, err := run(ctx, p.Task(p.Cells[0], 1))
	if err != nil {
		return 0, err
	}
	if why := s.unfit(p.Cells[0]); why != "" {
		return 0, fmt.Errorf("%s: %s", p.Cells[0], why)
	}
	if m == Touch {
		return s.TouchCPUS, nil
	}
	return s.RandomCPUS, nil
}

// unfit returns the reason why a sample does not count, or "".
func (s Sample) unfit(c Cell) string {
	switch {
	case s.Huge < least && c.Pages == Small:
		return fmt.Sprintf("still %.0f %% of the memory is in huge pages", 100*(1-s.Huge))
	case s.Huge < least:
		return fmt.Sprintf("only %.0f %% of the memory is in pages of this size (/proc/self/smaps); free memory is fragmented, or the process has no permission to use these pages", 100*s.Huge)
	case s.Placed < least:
		return fmt.Sprintf("only %.0f %% of the memory is on the requested node (/proc/self/numa_maps)", 100*s.Placed)
	case !(s.TouchCPUS > 0) || !(s.RandomCPUS > 0):
		return "the run was too short to measure"
	}
	return ""
}

// Value returns a measure of the sample: CPU seconds per GiB, or CPU nanoseconds per read.
func (s Sample) Value(v Task, m Measure) float64 {
	if m == Touch {
		return s.TouchCPUS / (float64(v.Bytes) / (1 << 30))
	}
	return s.RandomCPUS / float64(v.Reads) * 1e9
}

// values returns the values of a cell by round.
func (r *Result) values(cell string, m Measure) map[int]float64 {
	out := map[int]float64{}
	for _, v := range r.Records {
		if v.Cell == cell {
			out[v.Round] = v.Value(Task{Bytes: r.SizeBytes, Reads: r.Reads}, m)
		}
	}
	return out
}

func (r *Result) sum(c Cell) error {
	name := c.String()
	of := map[Measure][]float64{}
	for _, m := range []Measure{Touch, Random} {
		s := evidence.Series{Name: "memory:" + name + "-" + string(m), Unit: m.Unit()}
		byRound := r.values(name, m)
		for round := range r.Rounds {
			if err := s.Add(byRound[round]); err != nil {
				return err
			}
		}
		r.Series = append(r.Series, s)
		of[m] = s.Samples
	}
	sum := Summary{Cell: name, Touch: stats.Median(of[Touch]), TouchSpread: stats.Spread(of[Touch]), Random: stats.Median(of[Random]), RandomSpread: stats.Spread(of[Random]), Huge: 1, Placed: 1}
	var faults []float64
	for _, v := range r.Records {
		if v.Cell == name {
			faults = append(faults, float64(v.Faults)/(float64(r.SizeBytes)/(1<<30)))
			sum.Huge, sum.Placed = min(sum.Huge, v.Huge), min(sum.Placed, v.Placed)
		}
	}
	sum.Faults = stats.Median(faults)
	r.Cells = append(r.Cells, sum)
	return nil
}

// compare compares each kind of pages with 4 KiB, and remote memory with local memory of
// the same kind.
func (r *Result) compare(cells []Cell) {
	type pair struct{ cell, against Cell }
	var pairs []pair
	for _, c := range cells {
		base := Cell{Small, c.Place}
		if c.Place == Remote {
			base = Cell{c.Pages, Local}
		}
		if c != base && slices.Contains(cells, base) {
			pairs = append(pairs, pair{c, base})
		}
	}
	// Bonferroni: at most 5 % of runs have a wrong verdict.
	alpha := 0.05 / float64(2*len(pairs))
	for _, p := range pairs {
		for _, m := range []Measure{Random, Touch} {
			mine, theirs := r.values(p.cell.String(), m), r.values(p.against.String(), m)
			var logs []float64
			for round := range r.Rounds {
				logs = append(logs, math.Log(theirs[round]/mine[round]))
			}
			c := Comparison{Cell: p.cell.String(), Against: p.against.String(), Measure: m, Speed: math.Exp(stats.Median(logs))}
			if i := stats.MedianInterval(logs, alpha); !math.IsInf(i.High, 1) {
				c.Interval = &[2]float64{math.Exp(i.Low), math.Exp(i.High)}
			}
			c.Text = c.verdict()
			r.Comparisons = append(r.Comparisons, c)
		}
	}
}

func (c Comparison) verdict() string {
	switch {
	case c.Interval == nil:
		return fmt.Sprintf("%.2f times as fast, but too few rounds for a verdict", c.Speed)
	case c.Interval[0] > 1:
		return fmt.Sprintf("%.2f times as fast [%.2f, %.2f]", c.Speed, c.Interval[0], c.Interval[1])
	case c.Interval[1] < 1:
		return fmt.Sprintf("takes %.2f times as long [%.2f, %.2f]", 1/c.Speed, 1/c.Interval[1], 1/c.Interval[0])
	}
	return fmt.Sprintf("cannot tell [%.2f, %.2f]", c.Interval[0], c.Interval[1])
}

// text sums up the result in one line.
func (r *Result) text() string {
	var said []string
	for _, c := range r.Comparisons {
		said = append(said, fmt.Sprintf("%s of %s %s", c.Measure, c.Cell, c.Text))
	}
	if len(said) > 0 {
		return strings.Join(said, "; ")
	}
	for _, c := range r.Cells {
		said = append(said, fmt.Sprintf("%s: %.0f ns a random read, %.2f s of CPU to touch a GiB", c.Cell, c.Random, c.Touch))
	}
	return strings.Join(said, "; ")
}
