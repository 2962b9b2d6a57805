package disk

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

func TestPlanFillsItsTime(t *testing.T) {
	for mode, want := range map[Mode]time.Duration{Quick: 2 * time.Minute, Full: 10 * time.Minute} {
		for _, places := range []int{1, 3} {
			p := NewPlan(mode, places, 0)
			sum := time.Duration(places) * laying
			seen := map[Step]bool{}
			for _, s := range p.Steps() {
				if seen[s] {
					t.Errorf("%s: %+v twice", mode, s)
				}
				seen[s] = true
				c := p.Cells[s.Cell]
				sum += starting + time.Duration(c.weight)*p.unit
			}
			if all := len(p.Cells) * p.Repeats * places; len(seen) != all {
				t.Errorf("%s: %d steps, want %d", mode, len(seen), all)
			}
			if p.Takes() != want*time.Duration(places) || (sum-p.Takes()).Abs() > 2*time.Second*time.Duration(places) {
				t.Errorf("%s on %d: says %v, want %v, and is %v", mode, places, p.Takes(), want, sum)
			}
			if p.Repeats < 3 {
				t.Errorf("%s: %d repeats", mode, p.Repeats)
			}
		}
	}
	// A full run looks at its streams for long enough to say whether they are steady.
	full := NewPlan(Full, 1, 0)
	for _, c := range full.Cells {
		if c.weight == 3 && full.runtime(c) < long {
			t.Errorf("%s: %v", c.Name, full.runtime(c))
		}
	}
}

// TestPlanInterleaves tests that several directories are measured alternately, that none is always
// first, and that no cell is always last.
func TestPlanInterleaves(t *testing.T) {
	p := NewPlan(Quick, 2, 0)
	steps := p.Steps()
	first := map[int]int{}
	for i := 0; i < len(steps); i += 2 {
		if steps[i].Cell != steps[i+1].Cell || steps[i].Place == steps[i+1].Place {
			t.Fatalf("steps %d and %d are %+v and %+v", i, i+1, steps[i], steps[i+1])
		}
		first[steps[i].Place]++
	}
	if d := first[0] - first[1]; d < -2 || d > 2 {
		t.Errorf("first: %v", first)
	}
	if a, b := steps[0].Cell, steps[len(p.Cells)*2].Cell; a != 0 || b != len(p.Cells)-1 {
		t.Errorf("rounds begin with cells %d and %d", a, b)
	}
}

func TestFileSize(t *testing.T) {
	const gib = int64(unit.GiB)
	for _, c := range []struct {
		asked, free int64
		sharers     int
		want        int64
		fault       string
	}{
		{0, 100 * gib, 1, gib, ""},
		{0, 2 * gib, 1, gib/2 - logSize, ""},
		{0, 400 << 20, 1, 0, "a quarter of the free space is 100 MiB"},
		{0, 0, 1, 0, "a quarter of the free space is 0 B"},
		{128 << 20, 400 << 20, 2, 0, "free space until at least 1024 MiB is available"}, // a smaller one is not possible either
		{8 << 20, 400 << 20, 1, 0, "free space until at least 512 MiB is available"},
		{8 * gib, 40 * gib, 1, 8 * gib, ""},
		{8 * gib, 40 * gib, 2, 0, "exceed a quarter of the free space"},
		{8 << 20, 40 * gib, 1, 0, "--size 8 MiB is too small, minimum 64 MiB"},
		{8 << 20, 40 * gib, 1, 0, "want 64MiB to 10176MiB"},
		{1 << 10, 40 * gib, 1, 0, "--size 1 KiB is too small"},
		{20 * gib, 40 * gib, 1, 0, "(10 GiB); want a --size from 64MiB to 10176MiB"},
		{math.MaxInt64, 40 * gib, 1, 0, "exceed a quarter of the free space"},
	} {
		got, err := FileSize(c.asked, c.free, c.sharers)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%d of %d: %d, %v; want %d, %q", c.asked, c.free, got, err, c.want, c.fault)
		}
		if err == nil && (got+logSize)*int64(c.sharers)*4 > c.free {
			t.Errorf("%d of %d: more than a quarter", got, c.free)
		}
	}
}

// TestWholeBlocks tests that the file of every cell is a multiple of its block size: fio rounds
// other sizes up, and reads or writes beyond them (seen with 3.33 and 3.39).
func TestWholeBlocks(t *testing.T) {
	p := place(fact.ClassSSD, "sda")
	for _, f := range []**os.File{&p.data, &p.log} {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		*f = file
	}
	for _, mode := range []Mode{Quick, Full, Classic, Sustained} {
		for _, c := range NewPlan(mode, 1, 0).Cells {
			if j := (&Bench{Mode: mode}).job(p, c, 0, 1); j.SizeBytes%j.BlockBytes != 0 || j.SizeBytes <= 0 {
				t.Errorf("%s: %d bytes in blocks of %d", c.Name, j.SizeBytes, j.BlockBytes)
			}
		}
	}
}
