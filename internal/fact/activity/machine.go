package activity

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// source is a kernel file with counters, and its parser.
type source struct {
	path  string
	parse func(string, counters) error
}

// machineSources lists the files with counters of the whole machine. Those below /proc/net
// belong to this process's network namespace.
var machineSources = []source{
	{"/proc/stat", parseStat},
	{"/proc/schedstat", parseSchedstat},
	{"/proc/pressure/cpu", parsePressure("cpu", "")},
	{"/proc/pressure/memory", parsePressure("memory", "")},
	{"/proc/pressure/io", parsePressure("io", "")},
	{"/proc/vmstat", parseKeyed(vmEvents, "", 1)},
	{"/proc/diskstats", parseDiskstats},
	{"/proc/net/softnet_stat", parseSoftnet},
	{"/proc/net/dev", parseNetDev},
	{"/proc/net/snmp", parseSNMP("Tcp", map[string]string{"OutSegs": "tcp.sent", "RetransSegs": "tcp.retransmitted"})},
	{"/proc/net/netstat", parseSNMP("TcpExt", map[string]string{"ListenOverflows": "listen.overflows"})},
	{"/proc/net/stat/nf_conntrack", parseConntrack},
	{"/proc/sys/net/netfilter/nf_conntrack_count", parseFirst("conntrack.used", "")},
	{"/proc/sys/net/netfilter/nf_conntrack_max", parseFirst("conntrack.limit", "")},
	{"/proc/sys/fs/file-nr", parseFileNr},
	{"/proc/loadavg", parseLoadavg},
	{"/proc/sys/kernel/threads-max", parseFirst("threads.limit", "")},
	{"/proc/sys/kernel/pid_max", parseFirst("pids.limit", "")},
	{"/proc/uptime", parseFirst("uptime", "")},
}

// snapshot holds counters and the time at which they were read.
type snapshot struct {
	at time.Time
	counters
	// unknown holds, for each file that could not be read, the reason. absent holds the files that
	// the kernel does not have.
	unknown map[string]string
	absent  map[string]bool
}

func newSnapshot(h *host.Host) *snapshot {
	return &snapshot{at: h.Clock.Now(), counters: counters{}, unknown: map[string]string{}, absent: map[string]bool{}}
}

// read adds the counters of a file.
func (s *snapshot) read(h *host.Host, from source) {
	f := h.File(from.path)
	switch {
	case f.Unknown != "" && strings.Contains(f.Unknown, "operation not supported"):
		s.absent[from.path] = true // pressure is disabled at boot: psi=0
	case f.Unknown != "":
		s.unknown[from.path] = f.Unknown
	case !f.Exists:
		s.absent[from.path] = true
	default:
		got := counters{}
		if err := from.parse(f.Text, got); err != nil {
			s.unknown[from.path] = fmt.Sprintf("%s: %v", from.path, err)
			return
		}
		for k, v := range got { // tcp and tcp6 may have the same port
			s.counters[k] += v
		}
	}
}

// readMachine reads the counters of the whole machine.
func readMachine(h *host.Host) *snapshot {
	s := newSnapshot(h)
	for _, from := range machineSources {
		s.read(h, from)
	}
	tasks, pids := s.counters[counter{"threads.limit", ""}], s.counters[counter{"pids.limit", ""}]
	if tasks > 0 && pids > 0 { // each thread has its own id, so the lower limit counts
		s.set("tasks.limit", min(tasks, pids))
	}
	disks, err := h.Files.ReadDir("/sys/block")
	if err != nil {
		return s
	}
	for k := range s.counters { // a partition is counted in its disk
		if strings.HasPrefix(k.name, "disk.") && !slices.ContainsFunc(disks, func(d fs.DirEntry) bool { return d.Name() == strings.ReplaceAll(k.item, "/", "!") }) {
			delete(s.counters, k)
		}
	}
	return s
}
