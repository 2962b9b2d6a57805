package peers

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// against is what a took of what b took, each in the round in which it was least disturbed:
// a processor that others use too can only be slower for it, and not for both alike.
func against(a, b []time.Duration) float64 { return times(slices.Min(a), slices.Min(b)) }

func times(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// job is one way to answer a question, measured several times.
type job struct {
	name string
	run  func() *exec.Cmd
	// repeat is how often it runs in a round; 0 means once. The figures of a round are the mean:
	// those of a short run vary more.
	repeat int
	cpus   []time.Duration
	walls  []time.Duration
}

func (j *job) measure(t *testing.T) {
	t.Helper()
	n := time.Duration(max(j.repeat, 1))
	var cpu, wall time.Duration
	for range n {
		c := j.run()
		var out nothing // to /dev/null grep would stop at the first line
		var said strings.Builder
		c.Stdout, c.Stderr = &out, &said
		start := time.Now()
		if err := c.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", j.name, err, said.String())
		}
		wall += time.Since(start)
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	j.walls = append(j.walls, wall/n)
	j.cpus = append(j.cpus, cpu/n)
}

// nothing is a writer that drops what is written.
type nothing struct{}

func (*nothing) Write(p []byte) (int, error) { return len(p), nil }

func (j *job) cpu() time.Duration { return median(j.cpus) }

// seconds returns the median of the processor time and its range, in seconds. wallSeconds returns
// those of the elapsed time.
func (j *job) seconds() string     { return medianAndRange(j.cpus) }
func (j *job) wallSeconds() string { return medianAndRange(j.walls) }

func medianAndRange(d []time.Duration) string {
	return fmt.Sprintf("%.3f (%.3f-%.3f)", median(d).Seconds(), slices.Min(d).Seconds(), slices.Max(d).Seconds())
}

// maxSpread is the maximum spread of a reference with which something is compared.
const maxSpread = 0.15

// unsteady returns why a ratio to a reference would mean nothing, or "". The spread is the
// difference of the largest and the smallest value, as a share of the median.
func unsteady[T time.Duration | float64](reference []T) string {
	s := slices.Sorted(slices.Values(reference))
	if n := float64(s[len(s)-1]-s[0]) / float64(s[len(s)/2]); n > maxSpread {
		return fmt.Sprintf("no ratio: the reference varied by more than %.0f %%", 100*maxSpread)
	}
	return ""
}

// ratioText writes the ratio of a to a reference in a format, or why it has none.
func ratioText(format string, a, reference []time.Duration) string {
	if why := unsteady(reference); why != "" {
		return why
	}
	return fmt.Sprintf(format, against(a, reference))
}

// TestUnsteady: a reference that varies by more than 15 % has no ratio.
func TestUnsteady(t *testing.T) {
	for spread, steady := range map[int64]bool{0: true, 15: true, 16: false, 100: false} {
		reference := durations(100, 100, 100, 100+spread)
		if got := unsteady(reference) == ""; got != steady {
			t.Errorf("spread of %d %%: %v", spread, got)
		}
		if got := ratioText("%.1f", durations(250), reference); (got == "2.5") != steady {
			t.Errorf("spread of %d %%: %s", spread, got)
		}
	}
}

func durations(seconds ...int64) (all []time.Duration) {
	for _, s := range seconds {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}
