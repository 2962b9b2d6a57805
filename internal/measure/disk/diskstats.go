package disk

import (
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// Traffic is the I/O of devices by all processes (/proc/diskstats,
// Documentation/admin-guide/iostats.rst).
type Traffic struct {
	ReadBytes    int64 `json:"read_bytes"`
	Reads        int64 `json:"reads"`
	WrittenBytes int64 `json:"written_bytes"`
	Writes       int64 `json:"writes"`
}

func (t Traffic) less(u Traffic) Traffic {
	return Traffic{t.ReadBytes - u.ReadBytes, t.Reads - u.Reads, t.WrittenBytes - u.WrittenBytes, t.Writes - u.Writes}
}

// traffic returns the I/O of a storage. Reads are those of the hardware devices, since each read
// goes to one of them. Writes are those of the topmost device, since a mirror multiplies them.
// known is false if the storage has no device on this machine.
func traffic(h *host.Host, s fact.Storage) (t Traffic, known bool) {
	if len(s.Layers) == 0 {
		return t, false
	}
	text, err := h.Files.ReadFile("/proc/diskstats")
	if err != nil {
		return t, false
	}
	leaves := s.Leaves()
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		if len(w) < 10 {
			continue
		}
		var n [4]int64
		for i, at := range []int{3, 5, 7, 9} {
			if n[i], err = strconv.ParseInt(w[at], 10, 64); err != nil {
				return t, false
			}
		}
		const sector = 512
		if slices.Contains(leaves, w[2]) {
			t.Reads, t.ReadBytes, known = t.Reads+n[0], t.ReadBytes+n[1]*sector, true
		}
		if w[2] == s.Layers[0].Device {
			t.Writes, t.WrittenBytes = n[2], n[3]*sector
		}
	}
	return t, known
}

// Limits above which I/O of other processes disturbs the measurement.
const (
	disturbing = 0.10     // share of the cell's own I/O
	negligible = 1 << 20  // bytes
	fewIOs     = 20       // requests
	multiplied = 1.25     // ratio to the cell's own writes, to which the file system adds
	slack      = 16 << 20 // bytes that the file system may add
)

// contention describes I/O of other processes that disturbed a sample, or returns "".
func contention(c Cell, v *Sample) string {
	if v.Device == nil {
		return ""
	}
	d, ownReads, ownWrites := *v.Device, v.StorageBytes, int64(0)
	own, ios := int64(0), int64(0)
	if v.Read != nil {
		own, ios = own+v.Read.Bytes, ios+v.Read.IOs
	}
	if v.Write != nil {
		own, ios, ownWrites = own+v.Write.Bytes, ios+v.Write.IOs, v.Write.Bytes
	}
	much := func(bytes int64) bool { return bytes > negligible && float64(bytes) > disturbing*float64(own) }
	many := func(n int64) bool { return n > fewIOs && float64(n) > disturbing*float64(ios) }
	switch {
	case c.Cache == Warm:
		return "" // causes no disk I/O
	case much(d.ReadBytes - ownReads), !c.reads() && ownReads == 0 && many(d.Reads):
		return "other processes read from the disk"
	case !c.writes() && (much(d.WrittenBytes) || many(d.Writes)):
		return "other processes wrote to the disk"
	case c.writes() && c.Cache != Log && float64(d.WrittenBytes) > multiplied*float64(ownWrites)+slack:
		return "other processes wrote to the disk"
	}
	return ""
}
