package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Sample is one measurement of a cell.
type Sample struct {
	Round int       `json:"round"`
	At    time.Time `json:"time"`
	Value float64   `json:"value"` // in the cell's unit

	Read  *Side    `json:"read,omitempty"`
	Write *Side    `json:"write,omitempty"`
	Sync  *Latency `json:"fdatasync,omitempty"`
	// InFlight is the mean number of requests in flight: their rate times their mean latency
	// (Little's law).
	InFlight float64 `json:"requests_in_flight"`
	// CPU is fio's own CPU time as a ratio of one CPU.
	CPU float64 `json:"fio_cpu_ratio"`

	// StorageBytes is the number of bytes that fio read from storage (read_bytes of /proc/PID/io).
	// Without a cache this is all that it read.
	StorageBytes int64 `json:"from_storage_bytes"`
	// Resident is the share of the file in the page cache after a cell with direct I/O. It is
	// absent for other cells: counting cached pages takes more CPU time than all other work of
	// fettle for a sample.
	Resident *float64 `json:"resident_ratio,omitempty"`
	// Device is the I/O of the devices by all processes; absent if there are no devices.
	Device *Traffic `json:"device,omitempty"`
	// PerSecond holds the bytes of each second of a long sample.
	PerSecond []float64 `json:"bytes_each_second,omitempty"`

	Doubts []Doubt `json:"doubts,omitempty"`
}

// Bench is a measurement in progress.
type Bench struct {
	Engine *Engine
	Host   *host.Host
	Mode   Mode
	// Finished, if not nil, is called after each sample with the evidence so far. An error ends the
	// run.
	Finished func(*Evidence) error
	// Queue is fio's engine for cells with more than one request in flight.
	Queue string
}

// Prepare fills the files that Open has created in a place. The first call also determines the fio
// engine for several requests in flight.
func (b *Bench) Prepare(ctx context.Context, p *Place) error {
	j := Job{File: procPath(p.data), SizeBytes: p.SizeBytes, RW: "write", BlockBytes: 1 << 20, Engine: "psync", EndFsync: true, Direct: p.NoDirect == ""}
	if _, err := b.Engine.Run(ctx, j, nil); err != nil {
		return fmt.Errorf("%s: cannot write the data: %w", p.Directory, err)
	}
	if b.Queue != "" {
		return nil
	}
	var errs []error
	for _, engine := range []string{"io_uring", "libaio"} {
		j := Job{File: procPath(p.data), SizeBytes: LeastSize, RW: "randread", BlockBytes: 4 << 10, Engine: engine, Depth: 2, Runtime: 50 * time.Millisecond, Direct: p.NoDirect == ""}
		_, err := b.Engine.Run(ctx, j, nil)
		if err == nil {
			b.Queue = engine
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, fmt.Errorf("%s: %w", engine, err))
	}
	return fmt.Errorf("fio cannot use asynchronous I/O on this machine: %w", errors.Join(errs...))
}

// Number of syncs needed for a 99th percentile, and the maximum time to wait for them.
const (
	enoughSyncs = 1000
	longestLog  = 30 * time.Second
)

// long is the minimum duration of a sample that records each second.
const long = 10 * time.Second

// warmSize is the size in bytes of the part that cells read from the page cache.
const warmSize = 64 << 20

// coldWrite is the maximum size in bytes of a write through the page cache, except in mode Classic.
const coldWrite = 256 << 20

// job returns fio's job for a sample.
func (b *Bench) job(p *Place, c Cell, runtime time.Duration, seed uint64) Job {
	j := Job{
		File: procPath(p.data), SizeBytes: p.SizeBytes, RW: c.RW, ReadPercent: c.ReadPercent, BlockBytes: c.BlockBytes, Depth: c.Depth, Engine: "psync",
		Direct: c.Cache == Direct && p.NoDirect == "", EndFsync: c.Cache == Cold && c.writes(), Runtime: runtime, Seed: seed, EverySecond: runtime >= long,
	}
	if c.Depth > 1 {
		j.Engine = b.Queue
	}
	switch {
	case c.Cache == Log:
		// Whole blocks only: fio rounds a size up to a block, and would write beyond the file's
		// allocated blocks.
		j.File, j.SizeBytes, j.Fdatasync, j.Engine = procPath(p.log), logSize/c.BlockBytes*c.BlockBytes, true, "sync"
	case c.Cache == Warm:
		j.SizeBytes, j.Warm = warmSize, true
	case c.Once && b.Mode != Classic:
		j.SizeBytes = min(coldWrite, p.SizeBytes)
	}
	return j
}

// Measure measures a cell once. In a long sample it calls watch each second with the bytes of each
// second so far; true ends the sample. watch may be nil.
func (b *Bench) Measure(ctx context.Context, p *Place, c Cell, runtime time.Duration, seed uint64, watch func([]float64) bool) (Sample, error) {
	v, err := b.measure(ctx, p, c, runtime, seed, watch)
	for err == nil && c.Cache == Log && v.Sync.N < enoughSyncs && v.Sync.N > 0 && runtime < longestLog {
		// Repeat for long enough: at least twice as long, since the disk may have become slower
		// meanwhile.
		longer := max(2*runtime, time.Duration(1.1*float64(runtime)*enoughSyncs/float64(v.Sync.N)))
		runtime = min(longer, longestLog)
		v, err = b.measure(ctx, p, c, runtime, seed, watch)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %s: %w", p.Directory, c.Name, err)
	}
	v.Doubts = doubts(c, p, &v)
	return v, nil
}

func (b *Bench) measure(ctx context.Context, p *Place, c Cell, runtime time.Duration, seed uint64, watch func([]float64) bool) (v Sample, err error) {
	if c.Cache == Log {
		if err := p.renew(); err != nil {
			return v, err
		}
	}
	j := b.job(p, c, runtime, seed)
	v.At = b.Host.Clock.Now().UTC()
	before, known := traffic(b.Host, p.Storage)
	var each func([]Figures) bool
	if watch != nil {
		each = func(steps []Figures) bool { return watch(perSecond(steps)) }
	}
	o, err := b.Engine.Run(ctx, j, each)
	if err != nil {
		return v, err
	}
	if after, still := traffic(b.Host, p.Storage); known && still {
		moved := after.less(before)
		v.Device = &moved
	}
	if c.Cache == Direct {
		if v.Resident, err = p.resident(); err != nil {
			return v, err
		}
	}
	v.Value, v.StorageBytes, v.PerSecond = c.value(&o.Figures), o.StorageBytes, perSecond(o.Steps)
	v.CPU = o.UserCPU + o.SystemCPU
	if c.Cache == Warm {
		v.StorageBytes = max(0, v.StorageBytes-warmSize) // without the warm-up
	}
	if c.reads() {
		v.Read = &o.Read
	}
	if c.writes() {
		v.Write = &o.Write
	}
	if c.Cache == Log {
		if o.Sync.N == 0 && o.Write.IOs > 1 {
			return v, fmt.Errorf("%s does not report the latency of fdatasync", b.Engine.Version)
		}
		v.Sync = &o.Sync
	}
	if o.Read.IOs+o.Write.IOs == 0 {
		return v, errors.New("fio did no I/O")
	}
	v.InFlight = o.Read.IOPS*o.Read.Latency.Mean + o.Write.IOPS*o.Write.Latency.Mean
	return v, nil
}

// perSecond returns the bytes per second between consecutive steps, by fio's own clock.
func perSecond(steps []Figures) (out []float64) {
	at, bytes := 0.0, int64(0)
	for _, s := range steps {
		now, all := max(s.Read.RuntimeS, s.Write.RuntimeS), s.Read.Bytes+s.Write.Bytes
		if now-at < 0.5 {
			continue // the last step, at the end of the job
		}
		out = append(out, float64(all-bytes)/(now-at))
		at, bytes = now, all
	}
	return slices.Clip(out)
}
