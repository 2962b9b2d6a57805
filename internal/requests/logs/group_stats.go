package logs

import (
	"math"
	"math/bits"
)

// Stats holds the figures of one group; durations are in microseconds. It has the size of a
// cache line: with hundreds of thousands of groups, each request waits for only one cache miss.
type Stats struct {
	tag     uint32 // last quarter of the key's 128-bit hash
	hist    histogram
	Count   uint64 // requests
	Sum     uint64
	squares uint64 // lower half of the sum of squares
	Min     uint64
	Max     uint64
	upper   uint64 // upper half
	Errors  uint32 // answers of 500 and above
	Untimed uint32 // requests without a duration
}

// Timed returns the number of requests with a duration.
func (s *Stats) Timed() uint64 { return s.Count - uint64(s.Untimed) }

// Mean returns the mean duration, in microseconds.
func (s *Stats) Mean() float64 {
	if s.Timed() == 0 {
		return math.NaN()
	}
	return float64(s.Sum) / float64(s.Timed())
}

// Deviation returns the population standard deviation of the durations, in microseconds. It is
// STD.DEV in "Puppetmaster Performance Tuning with mod_mem_cache".
func (s *Stats) Deviation() float64 {
	n := s.Timed()
	if n == 0 {
		return math.NaN()
	}
	// Compute n*squares - sum^2 in 192 bits: floating point would lose the digits that cancel.
	hi, lo := bits.Mul64(s.Sum, s.Sum)
	ahi, alo := bits.Mul64(s.squares, n)
	ahi += s.upper * n
	dlo, borrow := bits.Sub64(alo, lo, 0)
	dhi, _ := bits.Sub64(ahi, hi, borrow)
	return math.Sqrt(float64(dhi)*0x1p64+float64(dlo)) / float64(n)
}

// Sample holds a request's contribution to its groups.
type Sample struct {
	took   int64 // microseconds; negative: no duration
	bucket uint16
	failed bool
}

// Sample returns the sample of a request. took is in microseconds; negative means no duration.
// The sample can be added to any table with the same percentiles option.
func (t *Table) Sample(took int64, failed bool) Sample {
	x := Sample{took: took, failed: failed}
	if t.wide {
		x.bucket = bucket(uint64(max(took, 0)))
	}
	return x
}

func (s *Stats) add(x Sample) {
	s.Count++
	if x.failed {
		s.Errors++
	}
	if x.took < 0 {
		s.Untimed++
		return
	}
	d := uint64(x.took)
	s.Sum += d
	hi, lo := bits.Mul64(d, d)
	var carry uint64
	s.squares, carry = bits.Add64(s.squares, lo, 0)
	s.upper += hi + carry
	s.Min, s.Max = min(s.Min, d), max(s.Max, d)
}

func (s *Stats) merge(o *Stats) {
	s.Count += o.Count
	s.Sum += o.Sum
	s.Errors += o.Errors
	s.Untimed += o.Untimed
	var carry uint64
	s.squares, carry = bits.Add64(s.squares, o.squares, 0)
	s.upper += o.upper + carry
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
}
