// Package memory measures the effect of the page size and of the NUMA node on first touch
// and on random access. It requests pages per mapping and changes no setting of the machine.
package memory

import (
	"fmt"
	"slices"
	"strings"
)

// Pages is a kind of pages.
type Pages string

// The kinds of pages.
const (
	Small     Pages = "4k"         // MADV_NOHUGEPAGE
	THP       Pages = "thp"        // MADV_HUGEPAGE
	HugeTLB2M Pages = "hugetlb-2m" // MAP_HUGETLB, reserved pages
	HugeTLB1G Pages = "hugetlb-1g"
)

// Sizes of pages in bytes.
const (
	small = 4 << 10
	huge  = 2 << 20
	giant = 1 << 30
)

// Page returns the size of one page in bytes.
func (p Pages) Page() int64 {
	switch p {
	case Small:
		return small
	case HugeTLB1G:
		return giant
	}
	return huge
}

// reserved reports whether the pages need to be reserved before they can be mapped.
func (p Pages) reserved() bool { return p == HugeTLB2M || p == HugeTLB1G }

// Place is the node of the memory relative to the CPU.
type Place string

// Places of memory.
const (
	Anywhere Place = ""       // the machine has one node
	Local    Place = "local"  // the CPU's own
	Remote   Place = "remote" // furthest from the CPU
)

// Cell is one kind of memory to measure.
type Cell struct {
	Pages Pages `json:"pages"`
	Place Place `json:"place,omitempty"`
}

// String returns the name of a cell: "thp", "4k-remote".
func (c Cell) String() string {
	if c.Place == Remote {
		return string(c.Pages) + "-remote"
	}
	return string(c.Pages)
}

// Measure is one of the two measures of a cell.
type Measure string

// The measures: CPU seconds per GiB, and CPU nanoseconds per read.
const (
	Touch  Measure = "touch"
	Random Measure = "random"
)

// Unit returns the unit of a measure.
func (m Measure) Unit() string {
	if m == Touch {
		return "s/GiB"
	}
	return "ns"
}

// ParseName parses the name of a cell and a measure: "thp-random".
func ParseName(name string) (Cell, Measure, error) {
	for _, pages := range []Pages{Small, THP, HugeTLB2M, HugeTLB1G} {
		for _, place := range []Place{Anywhere, Remote} {
			for _, m := range []Measure{Touch, Random} {
				if c := (Cell{pages, place}); name == c.String()+"-"+string(m) {
					return c, m, nil
				}
			}
		}
	}
	return Cell{}, "", fmt.Errorf("unknown memory cell %q; want 4k, thp, hugetlb-2m or hugetlb-1g, then optionally -remote (another NUMA node), then -touch or -random, such as thp-random", name)
}

// ParseCells parses a list of cells: "4k,thp".
func ParseCells(text string) ([]Cell, error) {
	var out []Cell
	for name := range strings.SplitSeq(text, ",") {
		c, _, err := ParseName(strings.TrimSpace(name) + "-" + string(Touch))
		if err != nil {
			return nil, fmt.Errorf("%q: want a comma-separated list of 4k, thp, hugetlb-2m and hugetlb-1g, each optionally with -remote", name)
		}
		if slices.Contains(out, c) {
			return nil, fmt.Errorf("%s is listed twice", c)
		}
		out = append(out, c)
	}
	return out, nil
}
