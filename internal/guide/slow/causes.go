package slow

// candidate is a possible cause of slowness.
type candidate struct {
	id    string
	title string
	// measure is the value to compare: the cause is present above limit.
	measure string
	limit   float64
	source  string
	// and names another value of the same item that must be at least 1, because few events prove
	// nothing; "" for none.
	and string
	// waits are measures of waiting; the first known one counts. Without any the cause is never
	// the reason.
	waits []wait
	// explains lists the causes that follow from this one.
	explains []string
	// uses is the resource by which consumers are sorted.
	uses resource
	// last marks a cause listed after all others, because the others may explain it: a lock
	// is held longer if its holder waits.
	last bool
	next string
}

// wait is a measure of waiting. Its value times percent is the share of time, in percent, in which
// a task waited. Shares below least are ignored.
type wait struct {
	measure        string
	percent, least float64
}

const (
	psi       = "Linux, Documentation/accounting/psi.rst"
	sixty     = "Brendan Gregg, Linux Performance Analysis in 60,000 Milliseconds"
	snmp      = "Linux, Documentation/networking/snmp_counter.rst"
	fettles   = "; the limit is fettle's"
	topCgroup = "systemd-cgtop"
)

var (
	waitsCPU = []wait{{"cpu_some_percent", 1, 10}, {"run_queue_waiting_tasks", 100, 100}}
	waitsMem = []wait{{"memory_some_percent", 1, 1}}
	waitsIO  = []wait{{"io_some_percent", 1, 10}, {"disk_queue", 100, 100}}
)

// candidates is the table of causes. Among causes with the same id the first one that can be
// measured counts. Causes that explain others precede them.
var candidates = []candidate{
	{id: "cpu-steal", title: "CPU steal", measure: "cpu_steal_percent", limit: 10,
		source: "Scout APM, Understanding CPU Steal Time (2013)",
		waits:  []wait{{"cpu_steal_percent", 1, 10}}, explains: []string{"cpu"}, uses: cpu,
		next: "vmstat 1"},
	{id: "cpu-throttled", title: "throttling by a CPU limit", measure: "cgroup_throttled_percent", limit: 25,
		source: "kubernetes-mixin, alert CPUThrottlingHigh; Linux, Documentation/scheduler/sched-bwc.rst",
		waits:  []wait{{"cgroup_throttled_s_per_s", 100, 10}}, uses: cpu,
		next: topCgroup},
	{id: "memory-limit", title: "memory pressure (some) at the memory limit", measure: "cgroup_memory_some_percent", limit: 10, and: "cgroup_memory_limit_hits_per_s",
		source: "Linux, Documentation/admin-guide/cgroup-v2.rst, memory.max and memory.high" + fettles,
		waits:  []wait{{"cgroup_memory_some_percent", 1, 10}}, explains: []string{"swap", "memory", "disk", "io", "oom"}, uses: memoryLimit,
		next: topCgroup + " -m"},
	{id: "swap", title: "pages read from swap", measure: "swap_in_pages_per_s", limit: 10,
		source: sixty + " (vmstat)" + fettles,
		waits:  waitsMem, explains: []string{"memory", "disk", "io"}, uses: memory,
		next: "ps -eo pid,rss,args --sort=-rss"},
	{id: "memory", title: "memory pressure (some)", measure: "memory_some_percent", limit: 10,
		source: psi + fettles,
		waits:  waitsMem, explains: []string{"disk", "io", "oom"}, uses: memory,
		next: "ps -eo pid,rss,args --sort=-rss"},
	{id: "oom", title: "processes killed for lack of memory", measure: "oom_kills_per_s", limit: 0,
		source: "Linux, Documentation/admin-guide/cgroup-v2.rst",
		waits:  waitsMem, uses: memory,
		next: "journalctl -k -g oom"},
	{id: "disk", title: "disk utilization", measure: "disk_utilization_percent", limit: 60,
		source: sixty + " (iostat)",
		waits:  waitsIO, explains: []string{"io"}, uses: disk,
		next: "iostat -xz 1"},
	{id: "io", title: "I/O pressure (some)", measure: "io_some_percent", limit: 10,
		source: psi + fettles,
		waits:  waitsIO[:1], uses: disk,
		next: "iostat -xz 1"},
	{id: "listen-queue", title: "connections dropped by a full listen queue", measure: "listen_overflows_per_s", limit: 0,
		source: snmp + ", TcpExtListenOverflows",
		waits:  []wait{{"listen_waiting", 100, 100}}, explains: []string{"tcp-retransmitted"}, uses: listeners,
		next: "ss -ltnp"},
	{id: "cpu", title: "CPU pressure (some)", measure: "cpu_some_percent", limit: 50,
		source: psi + fettles,
		waits:  waitsCPU, uses: cpu,
		next: "pidstat 1"},
	{id: "cpu", title: "tasks waiting in run queues", measure: "run_queue_waiting_tasks", limit: 1,
		source: sixty + " (vmstat, r)" + fettles,
		waits:  waitsCPU[1:], uses: cpu,
		next: "pidstat 1"},
	{id: "lock", title: "threads waiting for one mutex", measure: "lock_waiting_threads", limit: 4,
		source: "Linux, futex(2) and proc_pid_syscall(5)" + fettles,
		waits:  []wait{{"lock_waiting_threads", 100, 500}}, uses: locks, last: true,
		next: "gdb -p PID -batch -ex 'thread apply all bt'"},
	{id: "softnet", title: "packets dropped by full backlogs of CPUs", measure: "softnet_dropped_per_s", limit: 0,
		source: "Linux, Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog",
		next:   "fettle why net.core.netdev_max_backlog"},
	{id: "net-dropped", title: "packets dropped by a network device", measure: "net_dropped_percent", limit: 1,
		source: "Linux, Documentation/networking/statistics.rst" + fettles,
		next:   "ip -s link"},
	{id: "tcp-retransmitted", title: "TCP segments retransmitted", measure: "tcp_retransmitted_percent", limit: 3, and: "tcp_retransmitted_per_s",
		source: "IBM Tivoli Monitoring, TCP segments retransmitted >= 3 %; " + snmp,
		next:   "ss -ti"},
	{id: "conntrack-dropped", title: "packets dropped by connection tracking", measure: "conntrack_dropped_per_s", limit: 0,
		source: "Linux, Documentation/networking/nf_conntrack-sysctl.rst",
		next:   "fettle check --explain T14"},
	{id: "conntrack-used", title: "use of the table of connections", measure: "conntrack_used_percent", limit: 80,
		source: "Linux, Documentation/networking/nf_conntrack-sysctl.rst" + fettles,
		next:   "fettle check --explain T14"},
	{id: "files-used", title: "use of the limit of file handles", measure: "files_used_percent", limit: 80,
		source: "Linux, Documentation/admin-guide/sysctl/fs.rst" + fettles,
		next:   "fettle check --explain T13"},
	{id: "process-files", title: "use of the limit of open files", measure: "process_files_percent", limit: 80,
		source: "getrlimit(2), RLIMIT_NOFILE" + fettles,
		next:   "lsof -p PID"},
	{id: "tasks-used", title: "use of the limit of threads", measure: "tasks_used_percent", limit: 80,
		source: "Linux, Documentation/admin-guide/sysctl/kernel.rst, threads-max and pid_max" + fettles,
		next:   "ps -eo nlwp,pid,args --sort=-nlwp"},
	{id: "cgroup-pids", title: "use of the limit of tasks in a cgroup", measure: "cgroup_pids_percent", limit: 80,
		source: "Linux, Documentation/admin-guide/cgroup-v2.rst, pids.max" + fettles,
		next:   topCgroup},
}
