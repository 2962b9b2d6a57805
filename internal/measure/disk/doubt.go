package disk

import (
	"cmp"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// Doubt is a reason why a figure may not describe the disk.
type Doubt struct {
	Kind DoubtKind `json:"kind"`
	Text string    `json:"text"`
}

// DoubtKind is the kind of a doubt.
type DoubtKind string

// Kinds of doubts.
const (
	Cached     DoubtKind = "cached"       // a cache of this machine was measured
	Unproven   DoubtKind = "unproven"     // it is unknown whether a cache took part
	Contended  DoubtKind = "contended"    // other processes used the disk
	Few        DoubtKind = "few"          // too few requests for the percentile
	Shallow    DoubtKind = "shallow"      // fewer requests in flight than requested
	NotCached  DoubtKind = "not-cached"   // the page cache lacked data that it should have had
	Memory     DoubtKind = "memory"       // the file system is in memory
	Noisy      DoubtKind = "noisy"        // the repeats differ
	Refused    DoubtKind = "no-direct-io" // the file system does not support direct I/O
	Incomplete DoubtKind = "incomplete"   // interrupted: repeats are missing
)

// Limits for accepting a figure.
const (
	fromStorage = 0.9 // share of the data read that must come from storage
	fromMixed   = 0.5 // the same, for cells that read their own writes
	leftBehind  = 0.1 // share of the data that direct I/O may leave in the page cache
	really      = 0.8 // share of the requested depth that must be reached
)

// doubts returns the doubts about one sample.
func doubts(c Cell, p *Place, v *Sample) (out []Doubt) {
	add := func(kind DoubtKind, format string, args ...any) {
		out = append(out, Doubt{kind, text.Sprintf(format, args...)})
	}
	moved, read := int64(0), int64(0)
	if v.Read != nil {
		read = v.Read.Bytes
		moved += read
	}
	if v.Write != nil {
		moved += v.Write.Bytes
	}
	share := 1.0
	if read > 0 {
		share = float64(v.StorageBytes) / float64(read)
	}
	resident := 0.0
	if v.Resident != nil {
		resident = *v.Resident * float64(p.SizeBytes) / float64(max(min(moved, p.SizeBytes), 1))
	}
	enough := fromStorage
	if c.Cache == Cold && c.writes() {
		enough = fromMixed
	}
	switch {
	case c.Cache == Warm:
		if share > 1-fromStorage {
			add(NotCached, "%.0f %% of the data came from storage, not from the page cache", 100*share)
		}
		return out
	case p.Storage.Class == fact.ClassMemory:
		add(Memory, "the directory is in memory (%s): there is no disk to measure", p.Storage.Type)
		return out
	case c.Cache == Direct && p.NoDirect != "":
		add(Refused, "%s: measured through the page cache", p.NoDirect)
	case share < enough && p.Storage.Device == "":
		add(Unproven, "file system %s: unknown whether a cache served part of the requests", cmp.Or(p.Storage.Type, "of unknown type"))
	case share < enough:
		add(Cached, "only %.0f %% of the data came from storage, so a cache was measured", 100*share)
	case c.Cache == Direct && resident > leftBehind:
		add(Cached, "direct I/O became buffered I/O: %.0f %% of the data is in the page cache", 100*min(resident, 1))
	}
	if by := contention(c, v); by != "" {
		add(Contended, "%s during the measurement", by)
	}
	if c.Cache == Log && v.Sync.N < enoughSyncs {
		add(Few, "%s in %.0f s; a 99th percentile needs %d", text.Count(v.Sync.N, "sync"), v.Write.RuntimeS, enoughSyncs)
	}
	if c.Depth > 1 && v.InFlight < really*float64(c.Depth) {
		add(Shallow, "%.1f requests were in flight instead of %d", v.InFlight, c.Depth)
	}
	return out
}
