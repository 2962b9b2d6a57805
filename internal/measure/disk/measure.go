package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Visit is one measurement of a cell.
type Visit struct {
	Round int       `json:"round"`
	At    time.Time `json:"time"`
	Value float64   `json:"value"` // in the cell's unit

	Read  *Side    `json:"read,omitempty"`
	Write *Side    `json:"write,omitempty"`
	Sync  *Latency `json:"fdatasync,omitempty"`
	// InFlight is the number of requests that really were under way: their rate times
	// their mean time (Little's law).
	InFlight float64 `json:"requests_in_flight"`
	// CPU is fio's own use of one CPU, as a ratio.
	CPU float64 `json:"fio_cpu_ratio"`

	// StorageBytes are those that fio fetched from storage (read_bytes of
	// /proc/PID/io); without a cache they are those that it read.
	StorageBytes int64 `json:"from_storage_bytes"`
	// Resident is how much of the file was in the page cache after a cell that goes past
	// it; of the others it is not asked: to count the pages of a file that is in the cache
	// takes more time of a CPU than all else that fettle does with a visit.
	Resident *float64 `json:"resident_ratio,omitempty"`
	// Device is what the devices did for all processes; absent where there are none.
	Device *Traffic `json:"device,omitempty"`
	// PerSecond are the bytes of each second, of a visit that is long enough.
	PerSecond []float64 `json:"bytes_each_second,omitempty"`

	Doubts []Doubt `json:"doubts,omitempty"`
}

// Bench measures.
type Bench struct {
	Engine *Engine
	Host   *host.Host
	Mode   Mode
	// Finished is called after each visit with what there is by then, if not nil; an
	// error ends the run.
	Finished func(*Evidence) error
	// Queue is the engine of fio for cells with more than one request in flight.
	Queue string
}

// Prepare makes a place's files and writes the data, so that there is something to
// read; the first time it looks which engine of fio keeps many requests in flight.
func (b *Bench) Prepare(ctx context.Context, p *Place) error {
	if err := p.Open(); err != nil {
		return err
	}
	j := Job{File: path(p.data), SizeBytes: p.SizeBytes, RW: "write", BlockBytes: 1 << 20, Engine: "psync", EndFsync: true, Direct: p.NoDirect == ""}
	if _, err := b.Engine.Run(ctx, j, nil); err != nil {
		return fmt.Errorf("%s: the data cannot be written: %w", p.Directory, err)
	}
	if b.Queue != "" {
		return nil
	}
	var errs []error
	for _, engine := range []string{"io_uring", "libaio"} {
		j := Job{File: path(p.data), SizeBytes: leastSize, RW: "randread", BlockBytes: 4 << 10, Engine: engine, Depth: 2, Runtime: 50 * time.Millisecond, Direct: p.NoDirect == ""}
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
	return fmt.Errorf("fio can keep no requests in flight here: %w", errors.Join(errs...))
}

// Enough syncs for a 99th percentile, and the longest time that is waited for them.
const (
	enoughSyncs = 1000
	longestLog  = 30 * time.Second
)

// long is the length from which a visit is looked at second by second.
const long = 10 * time.Second

// warmSize is how much of the file the cells take that read from the page cache.
const warmSize = 64 << 20

// coldWrite is how much is written through the page cache at once, unless asked for
// otherwise.
const coldWrite = 256 << 20

// job is fio's of a visit.
func (b *Bench) job(p *Place, c Cell, runtime time.Duration, seed uint64) Job {
	j := Job{
		File: path(p.data), SizeBytes: p.SizeBytes, RW: c.RW, ReadPercent: c.ReadPercent, BlockBytes: c.BlockBytes, Depth: c.Depth, Engine: "psync",
		Direct: c.Cache == Direct && p.NoDirect == "", EndFsync: c.Cache == Cold && c.writes(), Runtime: runtime, Seed: seed, EverySecond: runtime >= long,
	}
	if c.Depth > 1 {
		j.Engine = b.Queue
	}
	switch {
	case c.Cache == Log:
		// Whole blocks: fio rounds a size up to one, and would write past the blocks that
		// the file has.
		j.File, j.SizeBytes, j.Fdatasync, j.Engine = path(p.log), logSize/c.BlockBytes*c.BlockBytes, true, "sync"
	case c.Cache == Warm:
		j.SizeBytes, j.Warm = warmSize, true
	case c.Once && b.Mode != Classic:
		j.SizeBytes = min(coldWrite, p.SizeBytes)
	}
	return j
}

// Visit measures a cell once. watch is called each second of a long one with the
// bytes of each second so far, and ends it by true; it may be nil.
func (b *Bench) Visit(ctx context.Context, p *Place, c Cell, runtime time.Duration, seed uint64, watch func([]float64) bool) (Visit, error) {
	v, err := b.visit(ctx, p, c, runtime, seed, watch)
	for err == nil && c.Cache == Log && v.Sync.N < enoughSyncs && v.Sync.N > 0 && runtime < longestLog {
		// Once more, for long enough; at least twice as long, for the disk may have
		// become slower meanwhile.
		longer := max(2*runtime, time.Duration(1.1*float64(runtime)*enoughSyncs/float64(v.Sync.N)))
		runtime = min(longer, longestLog)
		v, err = b.visit(ctx, p, c, runtime, seed, watch)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %s: %w", p.Directory, c.Name, err)
	}
	v.Doubts = doubts(c, p, &v)
	return v, nil
}

func (b *Bench) visit(ctx context.Context, p *Place, c Cell, runtime time.Duration, seed uint64, watch func([]float64) bool) (v Visit, err error) {
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
		v.StorageBytes = max(0, v.StorageBytes-warmSize) // what warmed it
	}
	if c.reads() {
		v.Read = &o.Read
	}
	if c.writes() {
		v.Write = &o.Write
	}
	if c.Cache == Log {
		if o.Sync.N == 0 && o.Write.IOs > 1 {
			return v, fmt.Errorf("%s does not say how long fdatasync takes", b.Engine.Version)
		}
		v.Sync = &o.Sync
	}
	if o.Read.IOs+o.Write.IOs == 0 {
		return v, errors.New("fio did no I/O")
	}
	v.InFlight = o.Read.IOPS*o.Read.Latency.Mean + o.Write.IOPS*o.Write.Latency.Mean
	return v, nil
}

// perSecond are the bytes per second between one step and the next, by fio's own
// clock.
func perSecond(steps []Figures) (out []float64) {
	at, bytes := 0.0, int64(0)
	for _, s := range steps {
		now, all := max(s.Read.RuntimeS, s.Write.RuntimeS), s.Read.Bytes+s.Write.Bytes
		if now-at < 0.5 {
			continue // the last one, which ends with the job
		}
		out = append(out, float64(all-bytes)/(now-at))
		at, bytes = now, all
	}
	return slices.Clip(out)
}
