// Package disk measures storage with fio: several access patterns in a balanced order. It checks
// that the disk itself was measured, and interprets the figures. It also gives the newest benchmarks
// to rules.
package disk

import (
	"fmt"
	"slices"
	"strings"
)

// Cache states how a cell's data passes the page cache.
type Cache string

// Caches of cells.
const (
	Direct Cache = "direct" // O_DIRECT: bypasses the page cache
	Cold   Cache = "cold"   // through an empty page cache
	Warm   Cache = "warm"   // from the page cache
	Log    Cache = "log"    // through the page cache, with a sync after each write
)

// Cell is one access pattern of a disk.
type Cell struct {
	Name        string `json:"name"`
	RW          string `json:"rw"` // as fio's option
	ReadPercent int    `json:"read_percent,omitempty"`
	BlockBytes  int64  `json:"block_bytes"`
	Depth       int    `json:"queue_depth"`
	Cache       Cache  `json:"cache"`
	// Unit is the unit of the cell's value: MB/s of all bytes, 1/s of all requests, or ms of
	// the 99th percentile of fdatasync.
	Unit string `json:"unit"`
	// Once reports whether the cell reads or writes the file once, however long that takes.
	Once bool `json:"once,omitempty"`

	weight int // share of the run's time
}

// More reports whether a higher value is better.
func (c Cell) More() bool { return c.Unit != "ms" }

// reads and writes report whether the cell reads or writes.
func (c Cell) reads() bool  { return c.RW != "write" }
func (c Cell) writes() bool { return c.RW != "read" && c.RW != "randread" }

// value returns the value of a sample (one measurement), in the cell's unit.
func (c Cell) value(f *Figures) float64 {
	switch c.Unit {
	case "ms":
		return 1000 * f.Sync.P99
	case "1/s":
		return f.Read.IOPS + f.Write.IOPS
	}
	return (f.Read.BytesPS + f.Write.BytesPS) / 1e6
}

// Block sizes and depths of the ladders.
var (
	blockSizes = []int64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, largestBlock}
	depths     = []int{1, 2, 4, 8, 16, 32}
)

// walBytes is the size of a write to etcd's log, as in etcd-perf.
const walBytes = 8000

// cells returns the cells of a normal run, in the order of the report.
func cells() []Cell {
	all := []Cell{
		{Name: "stream-read", RW: "read", BlockBytes: 1 << 20, Depth: 8, Cache: Direct, Unit: "MB/s", weight: 3},
		{Name: "stream-write", RW: "write", BlockBytes: 1 << 20, Depth: 8, Cache: Direct, Unit: "MB/s", weight: 3},
	}
	for _, b := range blockSizes {
		all = append(all, Cell{Name: "block-" + kib(b), RW: "read", BlockBytes: b, Depth: 1, Cache: Direct, Unit: "MB/s", weight: 1})
	}
	for _, d := range depths {
		all = append(all, Cell{Name: fmt.Sprintf("depth-%d", d), RW: "randread", BlockBytes: 4 << 10, Depth: d, Cache: Direct, Unit: "1/s", weight: 1})
	}
	return append(all,
		Cell{Name: "randrw-qd1", RW: "randrw", ReadPercent: 80, BlockBytes: 4 << 10, Depth: 1, Cache: Direct, Unit: "1/s", weight: 3},
		Cell{Name: "randrw-qd32", RW: "randrw", ReadPercent: 80, BlockBytes: 4 << 10, Depth: 32, Cache: Direct, Unit: "1/s", weight: 3},
		Cell{Name: "etcd", RW: "write", BlockBytes: walBytes, Depth: 1, Cache: Log, Unit: "ms", weight: 3},
		Cell{Name: "buffered-read", RW: "read", BlockBytes: 4 << 10, Depth: 1, Cache: Cold, Unit: "MB/s", weight: 2},
		Cell{Name: "buffered-write", RW: "write", BlockBytes: 4 << 10, Depth: 1, Cache: Cold, Unit: "MB/s", Once: true, weight: 2},
		Cell{Name: "cached-read", RW: "read", BlockBytes: 4 << 10, Depth: 1, Cache: Warm, Unit: "MB/s", weight: 1},
	)
}

// classic returns the cells of satellite-support's storage-benchmark: 4 KiB, one at a time,
// through the page cache, once over the file. Unlike that program, it begins with an empty cache
// and ends when written data is on the disk.
func classic() []Cell {
	return []Cell{
		{Name: "classic-read", RW: "read", BlockBytes: 4 << 10, Depth: 1, Cache: Cold, Unit: "MB/s", Once: true},
		{Name: "classic-write", RW: "write", BlockBytes: 4 << 10, Depth: 1, Cache: Cold, Unit: "MB/s", Once: true},
		{Name: "classic-randrw", RW: "randrw", ReadPercent: 80, BlockBytes: 4 << 10, Depth: 1, Cache: Cold, Unit: "MB/s", Once: true},
	}
}

// sustained returns the cells for sustained speed, which a disk's own cache hides at first.
func sustained() []Cell {
	return slices.DeleteFunc(cells(), func(c Cell) bool { return c.Name != "stream-write" && c.Name != "randrw-qd32" })
}

// shorthands maps alternative names of cells to names.
var shorthands = map[string]string{"read": "stream-read", "write": "stream-write", "randrw": "randrw-qd32", "randread": "depth-32", "fdatasync": "etcd"}

// Find returns a cell by name (randrw) or shorthand (read). It returns an error for an unknown one.
func Find(name string) (Cell, error) {
	if full, ok := shorthands[name]; ok {
		name = full
	}
	var names []string
	for _, c := range cells() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Cell{}, fmt.Errorf("unknown cell %q; want one of %s", name, strings.Join(names, ", "))
}

func kib(bytes int64) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%dm", bytes>>20)
	}
	return fmt.Sprintf("%dk", bytes>>10)
}
