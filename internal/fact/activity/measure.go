package activity

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// kind is how a measure is calculated from its counters.
type kind int

const (
	rate  kind = iota // increase per second
	share             // increase relative to another counter's increase
	gauge             // current value, relative to another one if there is one
)

// measure is one value of a Sample.
type measure struct {
	// name is the name with its unit.
	name  string
	kind  kind
	of    string // the counter or gauge
	by    string // the other counter or gauge
	scale float64
	file  string // file with the counters
	// top is the number of items to keep, highest values first; 0 keeps all.
	top int
}

// measures lists the measures of the whole machine.
var measures = []measure{
	{"cpu_busy_percent", share, "cpu.busy", "cpu.total", 100, "/proc/stat", 1},
	{"cpu_steal_percent", share, "cpu.steal", "cpu.total", 100, "/proc/stat", 1},
	{"cpu_iowait_percent", share, "cpu.iowait", "cpu.total", 100, "/proc/stat", 1},
	{"cpu_softirq_percent", share, "cpu.softirq", "cpu.total", 100, "/proc/stat", 1},
	{"cpus", gauge, "cpus", "", 1, "/proc/stat", 0},
	{"tasks_runnable_per_cpu", gauge, "procs_running", "cpus", 1, "/proc/stat", 0},
	{"tasks_blocked", gauge, "procs_blocked", "", 1, "/proc/stat", 0},
	{"context_switches_per_s", rate, "ctxt", "", 1, "/proc/stat", 0},
	{"run_queue_waiting_tasks", rate, "sched.delay", "", 1, "/proc/schedstat", 0},
	{"cpu_some_percent", rate, "pressure.cpu.some", "", 100, "/proc/pressure/cpu", 0},
	{"cpu_some_avg300_percent", gauge, "pressure.cpu.some.avg300", "", 1, "/proc/pressure/cpu", 0},
	{"cpu_full_percent", rate, "pressure.cpu.full", "", 100, "/proc/pressure/cpu", 0},
	{"memory_some_percent", rate, "pressure.memory.some", "", 100, "/proc/pressure/memory", 0},
	{"memory_some_avg300_percent", gauge, "pressure.memory.some.avg300", "", 1, "/proc/pressure/memory", 0},
	{"memory_full_percent", rate, "pressure.memory.full", "", 100, "/proc/pressure/memory", 0},
	{"io_some_percent", rate, "pressure.io.some", "", 100, "/proc/pressure/io", 0},
	{"io_some_avg300_percent", gauge, "pressure.io.some.avg300", "", 1, "/proc/pressure/io", 0},
	{"io_full_percent", rate, "pressure.io.full", "", 100, "/proc/pressure/io", 0},
	{"swap_in_pages_per_s", rate, "swap.in", "", 1, "/proc/vmstat", 0},
	{"swap_out_pages_per_s", rate, "swap.out", "", 1, "/proc/vmstat", 0},
	{"major_faults_per_s", rate, "major_faults", "", 1, "/proc/vmstat", 0},
	{"direct_reclaims_per_s", rate, "reclaims", "", 1, "/proc/vmstat", 0},
	{"oom_kills_per_s", rate, "oom_kills", "", 1, "/proc/vmstat", 0},
	{"disk_utilization_percent", rate, "disk.busy", "", 100, "/proc/diskstats", 8},
	{"disk_await_ms", share, "disk.wait", "disk.ios", 1000, "/proc/diskstats", 8},
	{"disk_queue", rate, "disk.queue", "", 1, "/proc/diskstats", 8},
	{"softnet_dropped_per_s", rate, "softnet.dropped", "", 1, "/proc/net/softnet_stat", 0},
	{"softnet_squeezed_per_s", rate, "softnet.squeezed", "", 1, "/proc/net/softnet_stat", 0},
	{"net_dropped_percent", share, "net.dropped", "net.packets", 100, "/proc/net/dev", 8},
	{"net_errors_per_s", rate, "net.errors", "", 1, "/proc/net/dev", 8},
	{"tcp_retransmitted_percent", share, "tcp.retransmitted", "tcp.sent", 100, "/proc/net/snmp", 0},
	{"tcp_retransmitted_per_s", rate, "tcp.retransmitted", "", 1, "/proc/net/snmp", 0},
	{"listen_overflows_per_s", rate, "listen.overflows", "", 1, "/proc/net/netstat", 0},
	{"listen_waiting", gauge, "listen.waiting", "", 1, "/proc/net/tcp", 4},
	{"conntrack_used_percent", gauge, "conntrack.used", "conntrack.limit", 100, "/proc/sys/net/netfilter/nf_conntrack_count", 0},
	{"conntrack_dropped_per_s", rate, "conntrack.dropped", "", 1, "/proc/net/stat/nf_conntrack", 0},
	{"files_used_percent", gauge, "files.used", "files.limit", 100, "/proc/sys/fs/file-nr", 0},
	{"tasks_used_percent", gauge, "tasks.used", "tasks.limit", 100, "/proc/loadavg", 0},
}

// cgroupMeasures lists the measures of cgroups.
var cgroupMeasures = []measure{
	{"cgroup_throttled_percent", share, "cgroup.throttled", "cgroup.periods", 100, cgroupRoot, 8},
	{"cgroup_throttled_s_per_s", rate, "cgroup.throttled_s", "", 1, cgroupRoot, 8},
	{"cgroup_oom_kills_per_s", rate, "cgroup.oom_kills", "", 1, cgroupRoot, 8},
	{"cgroup_memory_limit_hits_per_s", rate, "cgroup.memory_limit_hits", "", 1, cgroupRoot, 8},
	{"cgroup_memory_some_percent", rate, "pressure.memory.some", "", 100, cgroupRoot, 8},
	{"cgroup_io_some_percent", rate, "pressure.io.some", "", 100, cgroupRoot, 8},
	{"cgroup_cpu_some_percent", rate, "pressure.cpu.some", "", 100, cgroupRoot, 8},
	{"cgroup_pids_percent", gauge, "cgroup.pids", "cgroup.pids_limit", 100, cgroupRoot, 8},
}

// taskMeasures lists the measures of processes.
var taskMeasures = []measure{
	{"process_files_percent", gauge, "process.files", "process.files_limit", 100, "/proc", 4},
	{"lock_waiting_threads", gauge, "lock.waiting", "", 1, syscallFile, 4},
}

// Value is one measured value. If Value is nil and Unknown is "", the machine does not have it.
type Value struct {
	// Name is the name with the unit, such as cpu_steal_percent.
	Name string `json:"name"`
	// Item is the disk, network device, CPU, cgroup, port or process, or "".
	Item string `json:"item,omitempty"`
	// Value is the value in the sample. It is nil if unknown, without a sample, or if it does
	// not exist.
	Value *float64 `json:"value"`
	// SinceBoot is the average since boot.
	SinceBoot *float64 `json:"since_boot,omitempty"`
	// Total is the number of events since boot, if the value is a rate.
	Total   *float64 `json:"total,omitempty"`
	Unknown string   `json:"unknown,omitempty"`
	Source  string   `json:"source"`
}

// span is the period between two snapshots of the same files. first is nil without a sample.
type span struct {
	first, last *snapshot
	uptime      float64 // in seconds; 0 if unknown
}

// seconds returns the length of the span.
func (s span) seconds() float64 {
	if s.first == nil {
		return 0
	}
	return s.last.at.Sub(s.first.at).Seconds()
}

// values returns the values of a table of measures.
func (s span) values(table []measure) []Value {
	var out []Value
	for _, m := range table {
		var items []Value
		for k := range s.last.counters {
			if k.name == m.of {
				items = append(items, s.value(m, k.item))
			}
		}
		if len(items) == 0 && (s.last.unknown[m.file] != "" || s.last.absent[m.file]) {
			out = append(out, Value{Name: m.name, Unknown: s.last.unknown[m.file], Source: m.file})
			continue
		}
		slices.SortFunc(items, func(a, b Value) int {
			return cmp.Or(cmp.Compare(min(1, len(a.Item)), min(1, len(b.Item))), cmp.Compare(order(b), order(a)), cmp.Compare(strings.Count(b.Item, "/"), strings.Count(a.Item, "/")), cmp.Compare(a.Item, b.Item))
		})
		out = append(out, keep(items, m.top)...)
	}
	return out
}

// order returns the value by which items are sorted.
func order(v Value) float64 {
	switch {
	case v.Value != nil:
		return *v.Value
	case v.SinceBoot != nil:
		return *v.SinceBoot
	}
	return -1
}

// keep returns the machine's value and the items with the highest values above 0, at most top;
// a top of 0 means all items.
func keep(items []Value, top int) (out []Value) {
	kept := 0
	for _, v := range items {
		switch {
		case v.Item == "":
			out = append(out, v)
		case top == 0 || kept < top && order(v) > 0:
			out = append(out, v)
			kept++
		}
	}
	return out
}

func (s span) value(m measure, item string) Value {
	v := Value{Name: m.name, Item: item, Source: m.file}
	now, by := s.last.counters[counter{m.of, item}], s.last.counters[counter{m.by, item}]
	if m.kind == gauge {
		switch {
		case m.by == "":
			v.Value = known(now * m.scale)
		case by > 0:
			v.Value = known(now / by * m.scale)
		}
		return v
	}
	if m.kind == rate && s.uptime > 0 {
		v.SinceBoot = known(limited(m, now/s.uptime*m.scale))
		if m.scale == 1 {
			v.Total = known(now)
		}
	}
	if m.kind == share && by > 0 {
		v.SinceBoot = known(limited(m, now/by*m.scale))
	}
	if s.first == nil {
		return v
	}
	before, had := s.first.counters[counter{m.of, item}]
	grown, bys := now-before, by-s.first.counters[counter{m.by, item}]
	took := s.seconds()
	switch {
	case !had && item == "": // a new cgroup or disk counts from 0
		v.Unknown = "the counter appeared during the sample, so its growth is unknown"
	case grown < 0 || m.kind == share && bys < 0:
		v.Unknown = "the counter was reset during the sample"
	case m.kind == share && bys == 0: // nothing happened
		v.Value = known(0)
	case m.kind == share:
		v.Value = known(limited(m, grown/bys*m.scale))
	case took > 0:
		v.Value = known(limited(m, grown/took*m.scale))
	}
	return v
}

// limited limits shares to 100 %. They may exceed it because counters and clock are not read
// at the same time and sums are rounded.
func limited(m measure, v float64) float64 {
	if m.scale == 100 {
		return min(v, 100)
	}
	return v
}

// known returns a pointer to a number, or nil if the number is not finite.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// uptime returns the time since boot in seconds, or 0 if unknown.
func (s *snapshot) uptime() float64 { return s.counters[counter{"uptime", ""}] }

// Names returns the names of all values in a Sample.
func Names() []string {
	var out []string
	for _, table := range [][]measure{measures, cgroupMeasures, taskMeasures} {
		for _, m := range table {
			out = append(out, m.name)
		}
	}
	return out
}
