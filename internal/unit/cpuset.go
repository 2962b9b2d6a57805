package unit

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxCPUs is one more than the highest possible CPU number of any kernel: the
// maximum of NR_CPUS (arch/x86/Kconfig, NR_CPUS_RANGE_END with MAXSMP, and
// arch/powerpc/Kconfig).
const MaxCPUs = 8192

// CPUSet is a set of CPU numbers from 0 to MaxCPUs-1. The zero value is the
// empty set. Only AddRange modifies a set.
type CPUSet struct {
	words []uint64 // bit c%64 of word c/64 is CPU c; the last word is not 0
}

// CPUs returns the set of the given CPUs. It panics on numbers outside 0..MaxCPUs-1, so pass
// only constants or checked numbers.
func CPUs(numbers ...int) CPUSet {
	var s CPUSet
	for _, c := range numbers {
		s.AddRange(c, c)
	}
	return s
}

// AddRange adds the CPUs from first to last inclusive, or none if last is smaller. Copies of
// the set may share memory, so add before copying.
func (s *CPUSet) AddRange(first, last int) {
	if last < first {
		return
	}
	if first < 0 || last >= MaxCPUs {
		panic(fmt.Sprintf("unit: CPUs %d-%d outside 0..%d", first, last, MaxCPUs-1))
	}
	for len(s.words) <= last/64 {
		s.words = append(s.words, 0)
	}
	for i := first / 64; i <= last/64; i++ {
		w := ^uint64(0)
		if i == first/64 {
			w &= ^uint64(0) << (first % 64)
		}
		if i == last/64 {
			w &= ^uint64(0) >> (63 - last%64)
		}
		s.words[i] |= w
	}
}

func trimmed(words []uint64) CPUSet {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return CPUSet{words}
}

// Has reports whether CPU c is in the set.
func (s CPUSet) Has(c int) bool {
	return c >= 0 && c/64 < len(s.words) && s.words[c/64]&(1<<(c%64)) != 0
}

// Len returns the number of CPUs.
func (s CPUSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set is empty.
func (s CPUSet) IsEmpty() bool { return len(s.words) == 0 }

// Max returns the highest CPU, or -1 if the set is empty.
func (s CPUSet) Max() int {
	if s.IsEmpty() {
		return -1
	}
	return len(s.words)*64 - 1 - bits.LeadingZeros64(s.words[len(s.words)-1])
}

// Numbers lists the CPUs in ascending order.
func (s CPUSet) Numbers() []int {
	numbers := make([]int, 0, s.Len())
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			numbers = append(numbers, i*64+bits.TrailingZeros64(w))
		}
	}
	return numbers
}

// Equal reports whether both sets contain the same CPUs.
func (s CPUSet) Equal(t CPUSet) bool { return slices.Equal(s.words, t.words) }

// Union returns the CPUs in either set.
func (s CPUSet) Union(t CPUSet) CPUSet {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return trimmed(words)
}

// Intersect returns the CPUs in both sets.
func (s CPUSet) Intersect(t CPUSet) CPUSet {
	words := slices.Clone(s.words[:min(len(s.words), len(t.words))])
	for i := range words {
		words[i] &= t.words[i]
	}
	return trimmed(words)
}

// Minus returns the CPUs of s that are not in t.
func (s CPUSet) Minus(t CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for i := range min(len(s.words), len(t.words)) {
		words[i] &^= t.words[i]
	}
	return trimmed(words)
}

// Invert returns the CPUs of all that are not in s. all is the set of online or possible CPUs.
func (s CPUSet) Invert(all CPUSet) CPUSet { return all.Minus(s) }

// String formats the set as the kernel does in /sys/devices/system/cpu/online (%*pbl in
// lib/vsprintf.c): ascending, two or more consecutive numbers as first-last. The empty set is
// "".
func (s CPUSet) String() string {
	var b strings.Builder
	for c, last := 0, s.Max(); c <= last; c++ {
		if !s.Has(c) {
			continue
		}
		first := c
		for s.Has(c + 1) {
			c++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if c > first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(c))
		}
	}
	return b.String()
}

// Words formats the set for a sentence: "CPU 1", "CPUs 1-3,9", "no CPUs".
func (s CPUSet) Words() string {
	switch s.Len() {
	case 0:
		return "no CPUs"
	case 1:
		return "CPU " + s.String()
	}
	return "CPUs " + s.String()
}

// Mask formats the set as a hexadecimal mask in groups of eight digits, highest
// CPUs first: "00000001,0000000f" is 0-3,32. The empty set is "00000000".
func (s CPUSet) Mask() string {
	var b strings.Builder
	for top := max(s.Max(), 0) / 32; top >= 0; top-- {
		var group uint32
		if i := top / 2; i < len(s.words) {
			group = uint32(s.words[i] >> (32 * (top % 2)))
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%08x", group)
	}
	return b.String()
}
