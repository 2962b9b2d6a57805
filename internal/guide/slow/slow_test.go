package slow

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact/activity"
)

// sample returns a sample of two seconds; names may have an item behind a blank.
func sample(values map[string]float64) *activity.Sample {
	s := &activity.Sample{DurationS: 2, UptimeS: 86400}
	for name, v := range values {
		name, item, _ := strings.Cut(name, " ")
		s.Values = append(s.Values, activity.Value{Name: name, Item: item, Value: &v})
	}
	slices.SortFunc(s.Values, func(a, b activity.Value) int { return strings.Compare(a.Item, b.Item) })
	return s
}

func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]float64
		reason string
		causes string // ids, ! for those with measured waiting
	}{
		{"an idle machine", map[string]float64{"cpu_busy_percent": 3, "cpu_some_percent": 1}, "", ""},
		{"at a limit, not above", map[string]float64{"cpu_steal_percent": 10}, "", ""},
		{"steal, and the run queues that follow", map[string]float64{"cpu_steal_percent": 31, "cpu_some_percent": 98}, "cpu-steal", "cpu-steal! cpu!"},
		{"a busy neighbor", map[string]float64{"cpu_some_percent": 98, "cpu_busy_percent": 100}, "cpu", "cpu!"},
		{"a kernel without pressure", map[string]float64{"run_queue_waiting_tasks": 4}, "cpu", "cpu!"},
		{"pressure counts before the run queues", map[string]float64{"cpu_some_percent": 20, "run_queue_waiting_tasks": 4}, "", ""},
		{"a throttled cgroup on idle CPUs", map[string]float64{"cgroup_throttled_percent /a": 90, "cgroup_throttled_s_per_s /a": .8, "cpu_some_percent": 95, "cpu_busy_percent": 20}, "cpu-throttled", "cpu-throttled! cpu!"},
		{"a throttled cgroup on busy CPUs", map[string]float64{"cgroup_throttled_percent /a": 90, "cgroup_throttled_s_per_s /a": .8, "cpu_some_percent": 95, "cpu_busy_percent": 99}, "cpu", "cpu! cpu-throttled!"},
		{"a busy neighbor, and a throttled cgroup that waits more", map[string]float64{"cgroup_throttled_percent /a": 98.6, "cgroup_throttled_s_per_s /a": 1.5, "cpu_some_percent": 88.3, "cpu_busy_percent": 100}, "cpu", "cpu! cpu-throttled!"},
		{"the cgroup that waited most", map[string]float64{"cgroup_throttled_percent /a": 100, "cgroup_throttled_s_per_s /a": .01, "cgroup_throttled_percent /b": 60, "cgroup_throttled_s_per_s /b": 1.2}, "cpu-throttled", "cpu-throttled!"},
		{"a throttled cgroup that hardly waits", map[string]float64{"cgroup_throttled_percent /a": 50, "cgroup_throttled_s_per_s /a": .01}, "", "cpu-throttled"},
		{"swapping", map[string]float64{"swap_in_pages_per_s": 900, "memory_some_percent": 60, "io_some_percent": 70, "disk_utilization_percent vda": 99}, "swap", "swap! disk! io! memory!"},
		{"a cgroup at its memory limit", map[string]float64{"cgroup_memory_some_percent /a": 23, "cgroup_memory_limit_hits_per_s /a": 34, "swap_in_pages_per_s": 1360, "memory_some_percent": 20, "io_some_percent": 23, "disk_utilization_percent vda": 62},
			"memory-limit", "memory-limit! disk! io! swap! memory!"},
		{"a cgroup that waits for memory, and another at its limit", map[string]float64{"cgroup_memory_some_percent /a": 23, "cgroup_memory_limit_hits_per_s /b": 34, "memory_some_percent": 20}, "memory", "memory!"},
		{"a cgroup at its limit that does not wait", map[string]float64{"cgroup_memory_some_percent /a": 3, "cgroup_memory_limit_hits_per_s /a": 340}, "", ""},
		{"swap in use without waiting", map[string]float64{"swap_in_pages_per_s": 900, "memory_some_percent": 0}, "", "swap"},
		{"memory pressure with OOM kills", map[string]float64{"memory_some_percent": 60, "oom_kills_per_s": .5, "io_some_percent": 70}, "memory", "memory! io! oom!"},
		{"a slow disk", map[string]float64{"disk_utilization_percent dm-0": 100, "disk_await_ms dm-0": 200, "io_some_percent": 80}, "disk", "disk! io!"},
		{"a busy disk for which nothing waits", map[string]float64{"disk_utilization_percent nvme0n1": 100, "io_some_percent": 2}, "", "disk"},
		{"a disk on a kernel without pressure", map[string]float64{"disk_utilization_percent sda": 100, "disk_queue sda": 12}, "disk", "disk!"},
		{"a network file system", map[string]float64{"io_some_percent": 80}, "io", "io!"},
		{"a full listen queue", map[string]float64{"listen_overflows_per_s": 3, "listen_waiting 8080": 129}, "listen-queue", "listen-queue!"},
		{"SYNs sent again to a full listen queue", map[string]float64{"listen_overflows_per_s": 27, "listen_waiting 8080": 5, "tcp_retransmitted_percent": 36, "tcp_retransmitted_per_s": 7}, "listen-queue", "listen-queue! tcp-retransmitted"},
		{"a mutex", map[string]float64{"lock_waiting_threads web (pid 1)": 39, "lock_waiting_threads other (pid 2)": 7, "cpu_some_percent": 2}, "lock", "lock!"},
		{"no contention", map[string]float64{"lock_waiting_threads web (pid 1)": 4}, "", ""},
		{"a mutex whose holder waits for a disk", map[string]float64{"lock_waiting_threads web (pid 1)": 39, "disk_utilization_percent sda": 90, "io_some_percent": 40}, "disk", "disk! lock! io!"},
		{"a listen queue that was full", map[string]float64{"listen_overflows_per_s": 3}, "", "listen-queue"},
		{"retransmits never are the reason", map[string]float64{"tcp_retransmitted_percent": 20, "tcp_retransmitted_per_s": 30, "cpu_some_percent": 5}, "", "tcp-retransmitted"},
		{"one retransmit of a few segments", map[string]float64{"tcp_retransmitted_percent": 20, "tcp_retransmitted_per_s": .5}, "", ""},
		{"limits", map[string]float64{"files_used_percent": 95, "tasks_used_percent": 90, "process_files_percent web (pid 1)": 100, "cgroup_pids_percent /a": 99, "conntrack_used_percent": 99, "conntrack_dropped_per_s": 2},
			"", "conntrack-dropped conntrack-used files-used process-files tasks-used cgroup-pids"},
	} {
		d := Diagnose(sample(c.values))
		var ids []string
		for _, cause := range d.Causes {
			id := cause.ID
			if cause.Reason {
				id += "!"
			}
			ids = append(ids, id)
		}
		if got := strings.Join(ids, " "); got != c.causes || d.Reason != c.reason {
			t.Errorf("%s: reason %q of %q, want %q of %q", c.name, d.Reason, got, c.reason, c.causes)
		}
		if says := strings.Contains(d.Headline.Lines[0], "Most likely reason"); says != (c.reason != "") {
			t.Errorf("%s: %q", c.name, d.Headline.Lines)
		}
		if lines := d.Lines(); len(lines) > 8 || (len(lines) == 0) != (len(d.Causes) == 0) {
			t.Errorf("%s: %q", c.name, lines)
		}
	}
}

// Averages since boot never are the reason.
func TestCopy(t *testing.T) {
	s := &activity.Sample{UptimeS: 864000}
	for name, v := range map[string]float64{"cpu_steal_percent": 31, "cpu_some_percent": 98} {
		s.Values = append(s.Values, activity.Value{Name: name, SinceBoot: &v})
	}
	d := Diagnose(s)
	if d.Reason != "" || len(d.Causes) != 2 || d.Causes[0].Reason || d.Causes[1].Reason || !strings.Contains(d.Headline.Lines[0], "since boot") {
		t.Errorf("%+v", d)
	}
	if d = Diagnose(&activity.Sample{}); d.Reason != "" || len(d.Causes) > 0 {
		t.Errorf("%+v", d)
	}
}

// The sentence has the value, the limit, and the same over a longer time.
func TestEvidence(t *testing.T) {
	steal, before, cpus, avg := 31.0, 2.134, 98.44, 28.0
	s := &activity.Sample{DurationS: 2.004, Values: []activity.Value{
		{Name: "cpu_steal_percent", Value: &steal, SinceBoot: &before},
		{Name: "cpu_some_percent", Value: &cpus, SinceBoot: &before},
		{Name: "cpu_some_avg300_percent", Value: &avg},
	}}
	d := Diagnose(s)
	if want := "Most likely reason that this machine is slow: CPU steal 31 % in the last 2 s (limit 10 %; since boot: 2.13 %)"; d.Headline.Lines[0] != want {
		t.Errorf("%q", d.Headline.Lines)
	}
	if f := d.Headline.Figures; f["cpu_steal_percent"] != 31 || f["cpu_steal_limit_percent"] != 10 || f["cpu_steal_since_boot_percent"] != before || f["sample_s"] != 2 || len(f) != 4 {
		t.Errorf("%v", f)
	}
	if c := d.Causes[1]; c.Because != "cpu-steal" || *c.Avg300 != avg || *c.SinceBoot != before {
		t.Errorf("%+v", c)
	}
}

func TestWho(t *testing.T) {
	bytes := 1e6
	s := sample(map[string]float64{"cpu_some_percent": 98, "io_some_percent": 50})
	s.Groups = []activity.Consumer{{Cgroup: "/batch.service", Unit: "batch.service", CPUPercent: 150, CPUWaitPercent: 10}, {Cgroup: "/web.service", Unit: "web.service", CPUPercent: 20, CPUWaitPercent: 300, DiskBytesPerS: &bytes}}
	s.Processes = []activity.Consumer{{PID: 7, Command: "burn", CPUPercent: 100}, {PID: 8, Command: "web", CPUWaitPercent: 200}}
	who := Diagnose(s).Who
	if len(who) != 2 || who[0].Role != "uses" || who[0].Group.Unit != "batch.service" || who[0].Process.PID != 7 || who[1].Role != "waits" || who[1].Group.Unit != "web.service" || who[1].Process.PID != 8 {
		t.Errorf("%+v", who)
	}
	s = sample(map[string]float64{"listen_overflows_per_s": 3, "listen_waiting 8080": 5})
	s.Processes = []activity.Consumer{{PID: 7, Command: "web", ListenWaiting: 5}}
	if d := Diagnose(s); d.Who[0].Process.PID != 7 || d.Lines()[0] != "does not accept connections: web (pid 7), 5 in the queue" {
		t.Errorf("%+v", d.Who)
	}
	s = sample(map[string]float64{"lock_waiting_threads web (pid 7)": 39})
	s.Processes = []activity.Consumer{{PID: 7, Command: "web", LockWaitingThreads: 39}}
	if d := Diagnose(s); d.Who[0].Process.PID != 7 || !strings.HasPrefix(d.Causes[0].Next, "gdb -p 7 ") || !strings.Contains(d.Headline.Lines[0], "one mutex of web (pid 7): 39 in the last 2 s (limit 4)") {
		t.Errorf("%+v", d)
	}
	s = sample(map[string]float64{"cgroup_memory_some_percent /small": 50, "cgroup_memory_limit_hits_per_s /small": 9})
	s.Groups = []activity.Consumer{{Cgroup: "/big", MemoryBytes: 1e9}, {Cgroup: "/small", MemoryBytes: 1e6, MemoryPressurePercent: &bytes}}
	if who = Diagnose(s).Who; len(who) != 1 || who[0].Group.Cgroup != "/small" {
		t.Errorf("%+v", who)
	}
	s = sample(map[string]float64{"io_some_percent": 50, "disk_utilization_percent sda": 99, "disk_await_ms sda": 300})
	if text := Diagnose(s).Headline; !strings.Contains(text.Lines[0], "99 %, 300 ms a request, in the last 2 s") || text.Figures["disk_await_ms"] != 300 {
		t.Errorf("%+v", text)
	}
	other := sample(map[string]float64{"cpu_some_percent": 98, "disk_utilization_percent sda": 99, "disk_await_ms sda": 300})
	if lines := Diagnose(other).Lines(); !strings.HasSuffix(lines[0], ": disk utilization of sda 99 %, 300 ms a request (limit 60 %)") {
		t.Errorf("%q", lines)
	}
	other = sample(map[string]float64{"cpu_some_percent": 98, "io_some_percent": 50, "disk_utilization_percent sda": 99, "oom_kills_per_s": 2, "conntrack_used_percent": 90, "files_used_percent": 85})
	if lines := Diagnose(other).Lines(); len(lines) != 5 || !strings.HasPrefix(lines[3], "above their limits too: ") || strings.Count(lines[3], "; ") != 1 {
		t.Errorf("%q", lines)
	}
	s.Groups = []activity.Consumer{{Cgroup: "/web.service", Unit: "web.service", DiskBytesPerS: &bytes}}
	if who = Diagnose(s).Who; len(who) != 1 || who[0].Measure != "disk_bytes_per_s" || who[0].Group.Unit != "web.service" {
		t.Errorf("%+v", who)
	}
}

// Each cause has a source and a command, and what it measures exists.
func TestTable(t *testing.T) {
	measured := map[string]bool{}
	for _, name := range activity.Names() {
		measured[name] = true
	}
	ids := map[string]bool{}
	for _, c := range candidates {
		ids[c.id] = true
	}
	command := regexp.MustCompile(`^[a-z-]+( \S+)*$`)
	for _, c := range candidates {
		names := []string{c.measure}
		if c.and != "" {
			names = append(names, c.and)
		}
		for _, w := range c.waits {
			names = append(names, w.measure)
		}
		for _, name := range names {
			if !measured[name] {
				t.Errorf("%s: nothing measures %s", c.id, name)
			}
		}
		for _, id := range c.explains {
			if !ids[id] {
				t.Errorf("%s explains %s, which is no cause", c.id, id)
			}
		}
		if c.source == "" || !command.MatchString(c.next) {
			t.Errorf("%s: source %q, next %q", c.id, c.source, c.next)
		}
	}
}
