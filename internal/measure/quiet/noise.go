package quiet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	internalunit "fettle.dev/fettle/internal/unit"
)

// Noise is how unevenly a CPU does a fixed piece of work.
type Noise struct {
	CPU int `json:"cpu"`
	// Steps is the size of a piece. Figures of pieces of different sizes are not comparable.
	Steps int `json:"piece_steps"`
	// Pieces is the number of measured pieces of work. PieceS is the undisturbed time of one: the
	// 5 % quantile of all.
	Pieces int     `json:"pieces"`
	PieceS float64 `json:"piece_s"`
	// MeanPercent is how much longer than undisturbed a piece takes on average, P99Percent 1 time
	// in 100, and WorstPercent at worst.
	MeanPercent  float64 `json:"mean_percent"`
	P99Percent   float64 `json:"p99_percent"`
	WorstPercent float64 `json:"worst_percent"`
	// WaitPercent is the share of the time in which the work waited because another task ran on
	// the CPU.
	WaitPercent float64 `json:"wait_percent"`
}

// Piece is a fixed piece of work: a number of steps of work.
type Piece int

// Limits of a piece of work: its time, undisturbed, is from half of mostPiece to mostPiece.
const (
	mostPiece  = time.Millisecond
	firstPiece = Piece(1 << 12)
)

// Calibrate returns a piece of 0.5 to 1 ms on a CPU. Measurements that are to be compared need the
// same piece: a longer one is disturbed more often, and less by each disturbance.
func Calibrate(cpu int) (p Piece, err error) {
	failed := pinned(cpu, func() {
		firstPiece.warmUp()
		for p = firstPiece; p.undisturbed() < mostPiece/2; p *= 2 {
		}
	})
	return p, failed
}

// warmUp brings the CPU to its frequency.
func (p Piece) warmUp() {
	for begun := time.Now(); time.Since(begun) < 10*mostPiece; {
		work(p)
	}
}

// undisturbed returns the shortest of a few times of the piece.
func (p Piece) undisturbed() time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 5 {
		begun := time.Now()
		work(p)
		least = min(least, time.Since(begun))
	}
	return least
}

// Measure measures the noise of a CPU for a time. Other programs and the kernel are noise; so is a
// frequency that changes.
func (p Piece) Measure(ctx context.Context, cpu int, lasting time.Duration) (n *Noise, err error) {
	if failed := pinned(cpu, func() { n, err = p.measure(ctx, lasting) }); failed != nil {
		return nil, failed
	}
	if n != nil {
		n.CPU = cpu
	}
	return n, err
}

// pinned runs do in a thread on a CPU.
func pinned(cpu int, do func()) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, whose affinity is changed, ends with the goroutine.
		runtime.LockOSThread()
		err := Pin(internalunit.CPUs(cpu))
		switch {
		case err == nil:
			do()
		case errors.Is(err, unix.EINVAL): // sched_setaffinity(2)
			err = fmt.Errorf("cannot measure on CPU %d: the control group of this process does not have it; choose others with --cpus", cpu)
		default:
			err = fmt.Errorf("cannot measure on CPU %d: %w", cpu, err)
		}
		done <- err
	}()
	return <-done
}

// Pin restricts the calling thread to CPUs.
func Pin(cpus internalunit.CPUSet) error {
	var set unix.CPUSet
	for _, n := range cpus.Numbers() {
		set.Set(n)
	}
	return unix.SchedSetaffinity(0, &set)
}

func (p Piece) measure(ctx context.Context, lasting time.Duration) (*Noise, error) {
	p.warmUp()
	waited, begun := waiting(), time.Now()
	times := make([]float64, 0, lasting/mostPiece*2+16)
	for time.Since(begun) < lasting || len(times) < 20 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		at := time.Now()
		work(p)
		times = append(times, time.Since(at).Seconds())
	}
	n := describe(times)
	n.Steps = int(p)
	n.WaitPercent = 100 * min(1, (waiting()-waited).Seconds()/time.Since(begun).Seconds())
	return n, nil
}

// work is a fixed piece of work in registers: it depends on the CPU alone.
func work(p Piece) {
	x := uint64(88172645463325252)
	for range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	runtime.KeepAlive(x)
}

// waiting returns how long the calling thread has waited for a CPU (sched-stats.rst), or 0 where
// the kernel does not count it.
func waiting() time.Duration {
	b, err := os.ReadFile("/proc/thread-self/schedstat")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 2 {
		return 0
	}
	ns, _ := strconv.ParseInt(f[1], 10, 64)
	return time.Duration(ns)
}

// describe summarizes the times of pieces of work.
func describe(times []float64) *Noise {
	undisturbed := stats.Quantile(times, 0.05)
	percent := func(t float64) float64 { return max(0, 100*(t/undisturbed-1)) }
	return &Noise{
		Pieces: len(times), PieceS: undisturbed, MeanPercent: percent(stats.Mean(times)),
		P99Percent: percent(stats.Quantile(times, 0.99)), WorstPercent: percent(slices.Max(times)),
	}
}

// Comparison compares the noise without and with the quiet state. It is measured in the order
// without, with, with, without, so a steady drift of the machine cancels.
type Comparison struct {
	// Without and With are the two measurements of each state.
	Without [2]*Noise `json:"without"`
	With    [2]*Noise `json:"with"`
	// Ratio is the noise with the quiet state, relative to that without; both are geometric means.
	// Interval is its 95 % confidence interval.
	Ratio    float64    `json:"ratio"`
	Interval [2]float64 `json:"interval"`
	// Changed reports whether the interval excludes 1.
	Changed bool   `json:"changed"`
	Text    string `json:"text"`
	// Invalid is why With is not of the quiet state; "" if it is.
	Invalid string `json:"invalid,omitempty"`
}

// Invalidate marks figures that are not of the quiet state.
func (c *Comparison) Invalidate(why string) {
	c.Changed, c.Invalid, c.Text = false, why, "not of the quiet state, because "+why+": "+c.Text
}

// leastNoise is the noise in percent below which differences do not count: the resolution of the
// clock.
const leastNoise = 0.01

// Compare compares the measurements. Two of each state give only a rough interval: by Student's t
// with 2 degrees of freedom, for logarithms with equal variances.
func Compare(without, with [2]*Noise) *Comparison {
	c := &Comparison{Without: without, With: with}
	log := func(n *Noise) float64 { return math.Log(max(n.MeanPercent, leastNoise)) }
	a, b := [2]float64{log(without[0]), log(without[1])}, [2]float64{log(with[0]), log(with[1])}
	difference := (b[0]+b[1])/2 - (a[0]+a[1])/2
	variance := ((a[0]-a[1])*(a[0]-a[1])/2 + (b[0]-b[1])*(b[0]-b[1])/2) / 2
	half := stats.StudentQuantile(0.975, 2) * math.Sqrt(variance)
	c.Ratio, c.Interval = math.Exp(difference), [2]float64{math.Exp(difference - half), math.Exp(difference + half)}
	c.Changed = c.Interval[0] > 1 || c.Interval[1] < 1
	mean := func(logs [2]float64) string { return internalunit.Digits(math.Exp((logs[0]+logs[1])/2)) + " %" }
	c.Text = fmt.Sprintf("noise of CPU %d: %s without and %s with the quiet state: %s times, 95 %% interval %s to %s", without[0].CPU, mean(a), mean(b),
		internalunit.Digits(c.Ratio), internalunit.Digits(c.Interval[0]), internalunit.Digits(c.Interval[1]))
	if !c.Changed {
		c.Text += ", which includes no change"
	}
	c.Text = text.PrintableLine(c.Text)
	return c
}
