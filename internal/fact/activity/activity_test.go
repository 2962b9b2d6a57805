package activity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

const (
	container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	group     = "/system.slice/web.service"
)

// before is a machine at the first reading.
var before = map[string]string{
	"/proc/stat":                      "cpu  1000 0 0 9000 0 0 0 0 0 0\ncpu0 1000 0 0 9000 0 0 0 0 0 0\nctxt 100\nprocs_running 1\nprocs_blocked 0\n",
	"/proc/pressure/cpu":              "some avg10=0.00 avg60=0.00 avg300=4.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"/proc/pressure/memory":           "nonsense",
	"/proc/vmstat":                    "nr_free_pages 1\npswpin 50\npswpout 0\noom_kill 3\n",
	"/proc/diskstats":                 "8 0 sda 100 0 0 1000 0 0 0 0 0 1000 1000\n8 1 sda1 100 0 0 1000 0 0 0 0 0 1000 1000\n8 16 sdb 100 0 0 0 0 0 0 0 0 0 0\n",
	"/sys/block/sda/":                 "",
	"/sys/block/sdb/":                 "",
	"/proc/net/netstat":               "TcpExt: ListenOverflows\nTcpExt: 5\n",
	"/proc/net/tcp":                   "0: 0100007F:1F90 00000000:0000 0A 00000000:00000081 0 0 0 0 1\n",
	"/proc/uptime":                    "100.00 90.00\n",
	"/sys/fs/cgroup/cpu/limited/":     "",
	"/sys/fs/cgroup/cpu/a/cpu.stat":   "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
	"/sys/fs/cgroup/cpu/b/x/cpu.stat": "nr_periods 100\nnr_throttled 10\nthrottled_time 1000000000\n",
	"/sys/fs/cgroup/unified" + group + "/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"/sys/fs/cgroup/unified/cgroup.controllers":       "",
	"/proc/10/stat":                         "10 (web) S 1 1 1 0 -1 0 0 0 0 0 100 0 0 0 20 0 2 0 500 0 10 0\n",
	"/proc/10/cgroup":                       "0::" + group + "\n",
	"/proc/10/io":                           "rchar: 5\nread_bytes: 1000\nwrite_bytes: 0\n",
	"/proc/10/task/10/schedstat":            "0 1000000000 1\n",
	"/proc/10/task/11/schedstat":            "0 0 1\n",
	"/proc/10/task/10/syscall":              waitsForMutex,
	"/proc/10/task/11/syscall":              waitsForMutex,
	"/sys/fs/cgroup/pids/full/pids.current": "1\n",
	"/sys/fs/cgroup/pids/full/pids.max":     "10\n",
	"/proc/30/stat":                         "30 (kworker/0:0) I 2 0 0 0 -1 2097152 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0\n",
	"/proc/30/status":                       "FDSize:\t4\n",
	"/proc/30/limits":                       "Max open files            1                    1                    files     \n",
	"/proc/30/fd/0":                         "", // the kernel's threads have none; this one is not read
	"/proc/20/stat":                         "20 (old) S 1 1 1 0 -1 0 0 0 0 0 900 0 0 0 20 0 1 0 600 0 10 0\n",
}

// after is what has changed 2 s later.
var after = map[string]string{
	"/sys/fs/cgroup/cpu/new/cpu.stat": "nr_periods 10\nnr_throttled 5\nthrottled_time 100000000\n",
	"/proc/stat":                      "cpu  1100 0 0 9000 0 0 0 100 0 0\ncpu0 1100 0 0 9000 0 0 0 100 0 0\nctxt 300\nprocs_running 5\nprocs_blocked 0\n",
	"/proc/pressure/cpu":              "some avg10=0.00 avg60=0.00 avg300=5.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"/proc/vmstat":                    "nr_free_pages 1\npswpin 150\npswpout 0\noom_kill 1\n",
	"/proc/diskstats":                 "8 0 sda 120 0 0 1200 0 0 0 0 0 4000 5000\n8 1 sda1 120 0 0 1200 0 0 0 0 0 2000 5000\n8 16 sdb 100 0 0 0 0 0 0 0 0 0 0\n",
	"/proc/net/netstat":               "TcpExt: ListenOverflows\nTcpExt: 9\n",
	"/proc/uptime":                    "102.00 90.00\n",
	"/sys/fs/cgroup/cpu/b/x/cpu.stat": "nr_periods 120\nnr_throttled 25\nthrottled_time 4000000000\n",
	"/sys/fs/cgroup/unified" + group + "/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"/sys/fs/cgroup/pids/full/pids.current":           "9\n",
	"/proc/10/stat":                                   "10 (web) S 1 1 1 0 -1 0 0 0 0 0 250 0 0 0 20 0 2 0 500 0 10 0\n",
	"/proc/10/io":                                     "rchar: 5\nread_bytes: 5000\nwrite_bytes: 0\n",
	"/proc/10/task/11/schedstat":                      "0 3000000000 1\n",
	"/proc/10/status":                                 "Name:\tweb\nFDSize:\t4\n",
	"/proc/10/limits":                                 "Max open files            4                    4                    files     \n",
	"/proc/10/fd/0":                                   "", "/proc/10/fd/1": "", "/proc/10/fd/2": "", "/proc/10/fd/3": "-> socket:[1]",
	"/proc/20/fd/0":   "-> socket:[1]", // inherited
	"/proc/20/stat":   "20 (new) S 1 1 1 0 -1 0 0 0 0 0 20 0 0 0 20 0 1 0 10100 0 10 0\n",
	"/proc/20/cgroup": "2:cpu:/docker/" + container + "\n",
}

// measureOn samples a machine that changes from before to after within 2 s.
func measureOn(t *testing.T) *Sample {
	t.Helper()
	var s *Sample
	synctest.Test(t, func(t *testing.T) {
		h := machine.Mounted(t, before)
		go func() {
			time.Sleep(time.Second)
			machine.Write(t, h.Name, after)
		}()
		var err error
		if s, err = Measure(t.Context(), h, 2*time.Second); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

func TestMeasure(t *testing.T) {
	s := measureOn(t)
	if s.DurationS != 2 || s.UptimeS != 102 {
		t.Errorf("%v s of %v s", s.DurationS, s.UptimeS)
	}
	got, boot := map[string]float64{}, map[string]float64{}
	for _, v := range s.Values {
		name := strings.TrimSpace(v.Name + " " + v.Item)
		if v.Value != nil {
			got[name] = *v.Value
		}
		if v.SinceBoot != nil {
			boot[name] = *v.SinceBoot
		}
	}
	for name, want := range map[string]float64{
		"cpu_steal_percent": 50, "cpu_busy_percent": 50, "context_switches_per_s": 100, "tasks_runnable_per_cpu": 5,
		"cpu_some_percent": 75, "cpu_some_avg300_percent": 5, "run_queue_waiting_tasks": 1.5,
		"swap_in_pages_per_s": 50, "disk_await_ms sda": 10, "disk_utilization_percent sda": 100, "disk_queue sda": 2,
		"listen_overflows_per_s": 2, "listen_waiting 8080": 129,
		"cgroup_throttled_percent /b/x": 75, "cgroup_throttled_s_per_s /b/x": 1.5, "cgroup_throttled_percent /new": 50, "cgroup_io_some_percent " + group: 25, "cgroup_pids_percent /full": 90,
		"process_files_percent web (pid 10)": 100, "lock_waiting_threads web (pid 10)": 2,
	} {
		if v, has := got[name]; !has || v < want-1e-6 || v > want+1e-6 {
			t.Errorf("%s is %v (%t), want %v", name, v, has, want)
		}
	}
	if got, want := boot["cpu_steal_percent"], 100.0*100/10200; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("steal since boot: %v, want %v", got, want)
	}
	for _, none := range []string{"disk_utilization_percent sda1", "cgroup_throttled_percent /a", "process_files_percent kworker/0:0 (pid 30)"} {
		if _, has := got[none]; has {
			t.Errorf("%s has a value", none)
		}
	}
	for name, want := range map[string]string{"memory_some_percent": "not in the format that the kernel writes", "oom_kills_per_s": "reset", "io_some_percent": "", "conntrack_used_percent": ""} {
		v := s.Find(name)
		if v == nil || v.Value != nil || !strings.Contains(v.Unknown, want) || want == "" && v.Unknown != "" {
			t.Errorf("%s: %+v, want unknown %q", name, v, want)
		}
	}
}

func TestWho(t *testing.T) {
	s := measureOn(t)
	if len(s.Processes) != 2 || len(s.Groups) != 2 {
		t.Fatalf("%+v\n%+v", s.Processes, s.Groups)
	}
	web, fresh := s.Processes[0], s.Processes[1]
	if web.PID != 10 || web.Command != "web" || web.Unit != "web.service" || web.CPUPercent != 75 || web.CPUWaitPercent != 150 || deref(web.DiskBytesPerS) != 2000 || web.LockWaitingThreads != 2 || web.ListenWaiting != 129 {
		t.Errorf("%+v", web)
	}
	// Another process with the same id, started during the sample.
	if fresh.Command != "new" || fresh.Container != container[:12] || fresh.CPUPercent != 10 || fresh.DiskBytesPerS != nil || fresh.ListenWaiting != 0 {
		t.Errorf("%+v", fresh)
	}
	if g := s.Groups[0]; g.Cgroup != group || g.Name() != "web.service" || g.PID != 10 || g.CPUWaitPercent != 150 || deref(g.IOPressurePercent) != 25 || g.LockWaitingThreads != 2 || g.ListenWaiting != 129 || g.MemoryPressurePercent != nil {
		t.Errorf("%+v", g)
	}
	if name := s.Groups[1].Name(); name != "container "+container[:12] {
		t.Error(name)
	}
}

// A copy has averages since boot, and gauges of the moment when it was made.
func TestSinceBoot(t *testing.T) {
	files := maps.Clone(before)
	delete(files, "/proc/vmstat")
	s := SinceBoot(machine.Copy(t, files))
	if s.DurationS != 0 || s.UptimeS != 100 || len(s.Processes) > 0 {
		t.Errorf("%+v", s)
	}
	busy, pressure, swap := s.Find("cpu_busy_percent"), s.Find("cpu_some_percent"), s.Find("swap_in_pages_per_s")
	if busy.Value != nil || *busy.SinceBoot != 10 || pressure.Value != nil || *pressure.SinceBoot != 1 {
		t.Errorf("%+v %+v", busy, pressure)
	}
	if !strings.Contains(swap.Unknown, "not in this copy") {
		t.Errorf("%+v", swap)
	}
	if v := s.Find("cpu_some_avg300_percent"); v.Value == nil || *v.Value != 4 {
		t.Errorf("%+v", v)
	}
}

// A sample ends with its context.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Measure(ctx, machine.Mounted(t, before), time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// On this machine every value is known, or the kernel does not have it.
func TestThisMachine(t *testing.T) {
	s, err := Measure(t.Context(), host.Live(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Values {
		if v.Unknown != "" && !strings.Contains(v.Unknown, "only root") && !strings.Contains(v.Unknown, "during the sample") {
			t.Errorf("%s %s: %s", v.Name, v.Item, v.Unknown)
		}
	}
	if v := s.Find("cpu_busy_percent"); v.Value == nil || *v.Value < 0 || *v.Value > 100 {
		t.Errorf("%+v", v)
	}
	if len(s.Processes) == 0 || s.Partial != "" {
		t.Error(len(s.Processes), s.Partial)
	}
}

// A process that is left out makes room for the next, and still counts for its group.
func TestLeaveOut(t *testing.T) {
	var files [2]map[string]string
	for k := range files {
		files[k] = map[string]string{}
		for pid := 10; pid <= 10+kept; pid++ {
			files[k][fmt.Sprintf("/proc/%d/stat", pid)] = fmt.Sprintf("%d (p) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 500 0 0 0\n", pid, k*(20-pid))
			files[k][fmt.Sprintf("/proc/%d/cgroup", pid)] = "0::" + group + "\n"
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := machine.Mounted(t, files[0])
		r := Begin(h)
		time.Sleep(time.Second)
		machine.Write(t, h.Name, files[1])
		r.LeaveOut = func(c Consumer) bool { return c.PID == 10 }
		s := r.End()
		if p := s.Processes; len(p) != kept || p[0].PID != 11 || p[kept-1].PID != 10+kept || len(s.Groups) != 1 || s.Groups[0].PID != 10 {
			t.Errorf("%+v, %+v", p, s.Groups)
		}
	})
}
