package disk

import (
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/unit"
)

// Mode is the kind of a run.
type Mode string

// The modes.
const (
	Quick     Mode = "quick"     // two minutes per directory
	Full      Mode = "full"      // ten minutes per directory
	Classic   Mode = "classic"   // the cells of storage-benchmark
	Sustained Mode = "sustained" // until the speed is steady
)

// Plan describes the measurements of a run.
type Plan struct {
	Mode    Mode   `json:"mode"`
	Cells   []Cell `json:"cells"`
	Repeats int    `json:"repeats"`
	Places  int    `json:"directories"`
	// BudgetS is the total time in seconds per directory, or per cell in mode Sustained.
	BudgetS float64 `json:"budget_s"`
	// unit is the duration of a sample of a cell with weight 1.
	unit time.Duration
}

const (
	quick = 2 * time.Minute
	full  = 10 * time.Minute
	// starting is the time that a sample takes in addition to its I/O: the start of fio and its threads.
	starting = 300 * time.Millisecond
	// laying is the time for writing the files beforehand: 1 GiB at 100 MB/s.
	laying = 10 * time.Second
)

// NewPlan plans a run on several directories. budget is for mode Sustained.
func NewPlan(mode Mode, places int, budget time.Duration) Plan {
	p := Plan{Mode: mode, Places: places, Repeats: 3, Cells: cells()}
	total := quick
	switch mode {
	case Full:
		p.Repeats, total = 4, full
	case Classic:
		p.Cells = classic()
		return p
	case Sustained:
		p.Cells, p.Repeats, p.unit, p.BudgetS = sustained(), 1, budget, budget.Seconds()
		return p
	}
	weights := 0
	for _, c := range p.Cells {
		weights += c.weight
	}
	left := total - laying - time.Duration(len(p.Cells)*p.Repeats)*starting
	p.unit, p.BudgetS = (left / time.Duration(weights*p.Repeats)).Round(10*time.Millisecond), total.Seconds()
	return p
}

// runtime returns the duration of a sample of a cell, or 0 for one pass over the file.
func (p Plan) runtime(c Cell) time.Duration {
	switch {
	case c.Once:
		return 0
	case p.Mode == Sustained:
		return p.unit
	}
	return time.Duration(c.weight) * p.unit
}

// Takes returns the plan's expected duration, or 0 if unknown.
func (p Plan) Takes() time.Duration {
	switch p.Mode {
	case Classic:
		return 0
	case Sustained:
		return time.Duration(len(p.Cells)*p.Places) * p.unit
	}
	return time.Duration(p.Places) * time.Duration(p.BudgetS*float64(time.Second))
}

// Step is one sample in the plan.
type Step struct{ Round, Cell, Place int }

// Steps returns the samples in order. Each round has all cells, every second round in reverse. Each
// cell measures all directories in turn, starting with a different one each time. Background load
// therefore affects all directories alike.
func (p Plan) Steps() (steps []Step) {
	for round := range p.Repeats {
		order := make([]int, len(p.Cells))
		for i := range order {
			order[i] = i
		}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, cell := range order {
			for i := range p.Places {
				steps = append(steps, Step{round, cell, (i + round + cell) % p.Places})
			}
		}
	}
	return steps
}

// Sizes of the files.
const (
	usualSize = 1 << 30
	LeastSize = 64 << 20 // minimum size of the measured file, in bytes
	logSize   = 64 << 20 // of the second file, for the log cells
	// largestBlock is the largest block size of the ladder. File sizes are multiples of it.
	largestBlock = 4 << 20
)

// SizeError is returned for an invalid file size. Possible is a valid size in bytes.
type SizeError struct {
	Possible int64
	Err      error
}

func (e *SizeError) Error() string { return e.Err.Error() }
func (e *SizeError) Unwrap() error { return e.Err }

// FileSize returns the size of a directory's file in bytes: asked, or 1 GiB if asked is 0. It is
// at most a quarter of the free space, divided by the number of directories on the file system.
// The error names the possible sizes.
func FileSize(asked, freeBytes int64, sharers int) (int64, error) {
	share := int64(max(sharers, 1))
	most := max(freeBytes/4/share-logSize, 0)
	want := asked
	if want == 0 {
		want = min(usualSize, most)
	}
	want, most = want/largestBlock*largestBlock, most/largestBlock*largestBlock
	human := func(bytes int64) string {
		if bytes >= 1<<20 && bytes < 10<<30 {
			return fmt.Sprintf("%d MiB", bytes>>20)
		}
		return unit.Size(bytes).Human()
	}
	switch {
	case most < LeastSize:
		return 0, fmt.Errorf("a quarter of the free space is %s, but the measurement needs %s (file of %s, log of %s); free space until at least %s is available",
			human(max(freeBytes/4/share, 0)), human(LeastSize+logSize), human(LeastSize), human(logSize), human(4*share*(LeastSize+logSize)))
	case want < LeastSize:
		return 0, &SizeError{LeastSize, fmt.Errorf("--size %s is too small, minimum %s: blocks of up to %s would be served from the disk's cache; want %s to %s",
			human(asked), human(LeastSize), human(largestBlock), unit.Size(LeastSize), unit.Size(most))}
	case want > most:
		return 0, &SizeError{most, fmt.Errorf("a file of %s and a log of %s exceed a quarter of the free space (%s); want a --size from %s to %s",
			human(want), human(logSize), human(freeBytes/4/share), unit.Size(LeastSize), unit.Size(most))}
	}
	return want, nil
}
