package quiet

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// cores returns the files of a machine with two threads per core, by CPU.
func cores(siblings ...string) map[string]string {
	files := map[string]string{cpuDir + "/online": "0-" + string(rune('0'+len(siblings)-1)) + "\n"}
	for i, s := range siblings {
		files[cpuDir+"/cpu"+string(rune('0'+i))+"/topology/thread_siblings_list"] = s + "\n"
	}
	return files
}

func TestDivide(t *testing.T) {
	four := cores("0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7")
	for name, x := range map[string]struct {
		files                          map[string]string
		asked                          string
		smtOff                         bool
		measured, housekeeping, second string
		fails                          string
	}{
		"second threads are switched off":      {four, "", true, "1-3", "0", "4-7", ""},
		"SMT stays: the whole first core":      {four, "", false, "1-3,5-7", "0,4", "", ""},
		"chosen CPUs":                          {four, "2-3", true, "2-3", "0-1", "4-7", ""},
		"all CPUs chosen":                      {four, "0-3", true, "0-3", "", "4-7", ""},
		"a second thread cannot be chosen":     {four, "2,6", true, "", "", "", "CPU 6 is the second thread of a core"},
		"a CPU that is not there":              {four, "9", true, "", "", "", "CPU 9 is not online"},
		"one core: nothing for the rest":       {cores("0-1", "0-1"), "", false, "0-1", "", "", ""},
		"one core, its second thread off":      {cores("0-1", "0-1"), "", true, "0", "", "1", ""},
		"a guest with two CPUs of one thread":  {cores("0", "1"), "", false, "1", "0", "", ""},
		"a kernel that reports no topology":    {map[string]string{cpuDir + "/online": "0-1\n"}, "", false, "1", "0", "", ""},
		"the online CPUs cannot be determined": {map[string]string{}, "", false, "", "", "", "online CPUs are unknown"},
	} {
		c, err := divide(machine.Mounted(t, x.files), x.asked, x.smtOff)
		switch {
		case x.fails != "":
			if err == nil || !strings.Contains(err.Error(), x.fails) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || c.Measured.String() != x.measured || c.Housekeeping.String() != x.housekeeping || c.Second.String() != x.second:
			t.Errorf("%s: %v, %v, %v; %v", name, c.Measured, c.Housekeeping, c.Second, err)
		}
	}
}

// A cpuset of version 1 never gets a CPU back that was switched off.
func TestSwitchable(t *testing.T) {
	for name, x := range map[string]struct {
		control, mounts string
		on              bool
		why             string
	}{
		"on":                       {"on\n", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", true, ""},
		"off":                      {"off\n", "", false, ""},
		"not supported":            {"notsupported\n", "", false, ""},
		"a cpuset of version 1":    {"on\n", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n", false, "SMT stays on"},
		"one that behaves as in 2": {"on\n", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset,cpuset_v2_mode 0 0\n", true, ""},
	} {
		on, why := switchable(machine.Mounted(t, map[string]string{cpuDir + "/smt/control": x.control, "/proc/self/mounts": x.mounts}))
		if on != x.on || !strings.HasPrefix(why, x.why) || (x.why == "") != (why == "") {
			t.Errorf("%s: %v, %q", name, on, why)
		}
	}
}

// One CPU does not suffice for a load of 8.
func TestCrowded(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/proc/loadavg": "8.10 9 9 1/200 4711\n"})
	if why := crowded(h, 1); !strings.Contains(why, "the load is 8.10, and they get 1 CPU") {
		t.Error(why)
	}
	for _, cpus := range []int{0, 9} { // nothing is moved, or there is room
		if why := crowded(h, cpus); why != "" {
			t.Errorf("%d: %s", cpus, why)
		}
	}
}

// planOf returns the plan of a machine's quiet state.
func planOf(t *testing.T, h *host.Host, o Options) (*State, *tune.Plan) {
	t.Helper()
	s, err := Prepare(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	e := &tune.Engine{Host: h, Kinds: table.Kinds(h), Plugins: table.All, StateDir: t.TempDir(), Main: profile.DefaultMain()}
	p, err := s.Planner(e)(t.Context(), &journal.State{})
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// written returns the values that a plan writes, in order.
func written(p *tune.Plan) (names []string, values map[string]string) {
	values = map[string]string{}
	for _, st := range p.Steps {
		if st.Action == tune.Write {
			names = append(names, st.Setting.Name)
			values[st.Setting.Name] = st.Want.Text
		}
	}
	return names, values
}

// SMT is switched off after all other values are read and written, so undo switches it on first:
// the values of a CPU are restored while it is online.
func TestPlanOfServer(t *testing.T) {
	h := machine.Unpack(t, "../../../testdata/hosts/intel-2s-bare-metal.txt")
	s, p := planOf(t, h, Options{})
	names, values := written(p)
	const smt = cpuDir + "/smt/control"
	if len(names) == 0 || names[len(names)-1] != smt || values[smt] != "off" {
		t.Errorf("last is not SMT: %v", names)
	}
	for name, want := range map[string]string{
		"kernel.numa_balancing": "0", cpuDir + "/intel_pstate/no_turbo": "1", "vm.swappiness": "0",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	for _, n := range s.Second.Numbers() {
		if at := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "/policy"+unit.CPUs(n).String()+"/") }); at >= 0 {
			t.Errorf("%s of a CPU that goes offline could not be read back", names[at])
		}
	}
}

// Before Linux 6.11 one switch has the boost of all CPUs; later each policy has its own, which the
// common one would overwrite.
func TestBoostOfEachDriver(t *testing.T) {
	files := map[string]string{
		cpuDir + "/online": "0-1\n", cpuDir + "/cpu0/": "", cpuDir + "/cpu1/": "",
		cpuDir + "/cpufreq/policy0/scaling_driver": "acpi-cpufreq\n", cpuDir + "/cpufreq/boost": "1\n",
	}
	_, values := written(second(planOf(t, machine.Mounted(t, files), Options{})))
	if values[cpuDir+"/cpufreq/boost"] != "0" {
		t.Errorf("%v", values)
	}
	files[cpuDir+"/cpufreq/policy0/boost"], files[cpuDir+"/cpufreq/policy1/boost"] = "1\n", "0\n"
	names, values := written(second(planOf(t, machine.Mounted(t, files), Options{})))
	if values[cpuDir+"/cpufreq/policy0/boost"] != "0" || slices.Contains(names, cpuDir+"/cpufreq/boost") {
		t.Errorf("%v", values)
	}
}

func second[A, B any](_ A, b B) B { return b }

// Each value of the profile has the document that describes it.
func TestProfileNamesItsSources(t *testing.T) {
	text, err := files.ReadFile("quiet/tuned.conf")
	if err != nil {
		t.Fatal(err)
	}
	section, sourced := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "["):
			section, sourced = line, false
		case strings.HasPrefix(line, "# source: "):
			sourced = true
		case line == "" || strings.HasPrefix(line, "#") || section == "[main]" || strings.HasPrefix(line, "type="):
		case !sourced:
			t.Errorf("%s %s: no source", section, line)
		case section != "[workqueue]" && section != "[scheduler]": // the next lines have the same source
			sourced = false
		}
	}
}

func TestParseTimers(t *testing.T) {
	// As systemd 246 and later print it: microseconds, null or 0 for never.
	jobs, err := parseTimers([]byte(`[{"next":1788040800000000,"left":1788040800000000,"last":1788040206846549,"passed":886209581656,"unit":"sysstat-collect.timer","activates":"sysstat-collect.service"},
{"next":null,"left":null,"last":0,"passed":0,"unit":"apport-autoreport.timer","activates":"apport-autoreport.service"}]`))
	if err != nil || len(jobs) != 2 || jobs[0].Unit != "sysstat-collect.service" || jobs[0].Due.Unix() != 1788040800 || jobs[0].Last.Unix() != 1788040206 || !jobs[1].Due.IsZero() || !jobs[1].Last.IsZero() {
		t.Errorf("%+v, %v", jobs, err)
	}
	if _, err := parseTimers([]byte("NEXT LEFT\n")); err == nil {
		t.Error("the table of systemd 239 is accepted")
	}
}

// The journal has what is needed to start a missed job, whoever undoes the transaction.
func TestJobsAreInTheJournal(t *testing.T) {
	for _, j := range []job{{Timer: "a.timer", Unit: "a.service", Due: time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)}, {Timer: "b.timer", Unit: "b.service"}} {
		en := &journal.Entry{}
		en.Setting = setting.Setting{Kind: "unit", Name: j.Timer + "/active"}
		en.Reason = setting.Reason{Text: j.reason()}
		if got, ok := jobOf(en); !ok || got != j {
			t.Errorf("%+v, want %+v", got, j)
		}
	}
	other := &journal.Entry{}
	other.Setting, other.Reason = setting.Setting{Kind: "unit", Name: "atd.service/active"}, setting.Reason{Text: stopped}
	if got, ok := jobOf(other); ok {
		t.Errorf("a service is taken for a timer: %+v", got)
	}
}

// Jobs of all crontabs that were due while cron was frozen are named.
func TestMissedByCron(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/etc/crontab":                  "SHELL=/bin/sh\n# m h dom mon dow user command\n17 * * * * root cd / && run-parts /etc/cron.hourly\n",
		"/etc/cron.d/sysstat":           "5-55/10 * * * * root sa1 1 1\nbroken\n",
		"/var/spool/cron/crontabs/anna": "@daily backup now\n0 3 * * mon-fri weekday\n*/0 * * * * no step\n",
	})
	at := func(text string) time.Time {
		when, err := time.ParseInLocation("2006-01-02 15:04:05", text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, x := range []struct{ from, to, jobs string }{
		{"2026-11-30 14:00:00", "2026-11-30 14:04:59", ""},
		{"2026-11-30 14:04:59", "2026-11-30 14:05:00", "root: sa1 1 1 14:05"},
		{"2026-11-30 14:00:30", "2026-11-30 14:30:00", "root: sa1 1 1 14:05, root: cd / && run-parts /etc/cron.hourly 14:17"},
		{"2026-11-30 23:59:59", "2026-12-01 00:01:00", "anna: backup now 00:00"},
		{"2026-12-05 02:59:00", "2026-12-05 03:00:10", ""}, // a Saturday
		{"2026-12-07 02:59:00", "2026-12-07 03:00:10", "anna: weekday 03:00"},
	} {
		var got []string
		for _, m := range missedByCron(h, at(x.from), at(x.to)) {
			got = append(got, m.Job+" "+m.Due.Local().Format("15:04"))
			if m.Started || m.Why != "cron starts it" || !strings.Contains(m.From, ":") {
				t.Errorf("%+v", m)
			}
		}
		if strings.Join(got, ", ") != x.jobs {
			t.Errorf("%s to %s: %q, want %q", x.from, x.to, got, x.jobs)
		}
	}
	if m := missedByCron(h, at("2026-11-30 10:00:00"), at("2026-11-30 14:00:00")); len(m) == 0 || !strings.Contains(m[0].Why, "forgets") {
		t.Errorf("%+v", m)
	}
}

// crontab(5): if both day fields are restricted, either suffices; Sunday is 0 and 7.
func TestCronDays(t *testing.T) {
	monday := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for line, want := range map[string]bool{
		"0 0 30 * * x": true, "0 0 29 * * x": false, "0 0 29 * mon x": true, "0 0 30 * sun x": true, "0 0 * * 7 x": false,
		"0 0 */2 * mon x": false, "0 0 * nov 1 x": true, "0 0 * 1-10 1 x": false,
	} {
		j, ok := parseCronLine(line, "root")
		if _, due := j.next(monday.Add(-time.Minute), monday); !ok || due != want {
			t.Errorf("%s: %v, %v, %+v", line, ok, due, j)
		}
	}
	if j, ok := parseCronLine("0 0 * * 7 x", "root"); !ok || !j.week.has(0) {
		t.Errorf("%+v", j)
	}
}

func FuzzCronLine(f *testing.F) {
	f.Add("17 * * * * root x", "")
	f.Add("@daily x", "anna")
	f.Add("5-55/10,3 */2 1-31 jan-dec 7 x", "anna")
	f.Add("5/9223372036854775807 * * * * x", "anna")
	f.Fuzz(func(t *testing.T, line, user string) {
		j, ok := parseCronLine(line, user)
		if ok && (j.minute == 0 || j.minute>>60 != 0 || j.hour == 0 || j.hour>>24 != 0 || j.command == "") {
			t.Errorf("%q: %+v", line, j)
		}
	})
}

func TestRefuse(t *testing.T) {
	clean := machine.Mounted(t, map[string]string{"/proc/1/comm": "systemd\n", "/proc/50/comm": "etcdctl\n"})
	if err := Refuse(clean); err != nil {
		t.Error(err)
	}
	for _, comm := range append(slices.Collect(maps.Keys(protected)), "kubelite") { // of MicroK8s
		if len(comm) > 15 {
			comm = comm[:15] // as the kernel cuts it
		}
		err := Refuse(machine.Mounted(t, map[string]string{"/proc/1/comm": "systemd\n", "/proc/812/comm": comm + "\n", "/proc/812/cgroup": "0::/system.slice/x.service\n"}))
		if err == nil || ui.Code(err) != ui.Refused || !strings.Contains(err.Error(), comm+" runs (process 812, x.service): it") {
			t.Errorf("%s: %v", comm, err)
		}
	}
}

// TestCompareCovers simulates machines: the interval contains the true ratio in 95 of 100 cases.
func TestCompareCovers(t *testing.T) {
	const n, ratio, spread = 4000, 0.5, 0.3
	r := rand.New(rand.NewPCG(29, 3))
	noise := func(level float64) *Noise { return &Noise{MeanPercent: level * math.Exp(spread*r.NormFloat64())} }
	covered := 0
	for range n {
		c := Compare([2]*Noise{noise(4), noise(4)}, [2]*Noise{noise(4 * ratio), noise(4 * ratio)})
		if c.Interval[0] <= ratio && ratio <= c.Interval[1] {
			covered++
		}
	}
	if share := float64(covered) / n; share < 0.94 || share > 0.96 {
		t.Errorf("covers in %.1f %% of the cases", 100*share)
	}
}

func TestCompareSays(t *testing.T) {
	same := func(a, b float64) [2]*Noise { return [2]*Noise{{MeanPercent: a}, {MeanPercent: b}} }
	if c := Compare(same(10, 10.1), same(1, 1.01)); !c.Changed || c.Ratio > 0.11 || strings.Contains(c.Text, "no change") {
		t.Errorf("%+v", c)
	}
	if c := Compare(same(10, 5), same(9, 6)); c.Changed || !strings.HasSuffix(c.Text, "which includes no change") {
		t.Errorf("%+v", c)
	}
	if c := Compare(same(10, 10.1), same(1, 1.01)); true {
		if c.Invalidate("it had ended"); c.Changed || c.Invalid != "it had ended" || !strings.HasPrefix(c.Text, "not of the quiet state, because it had ended: noise of CPU 0: ") {
			t.Errorf("%+v", c)
		}
	}
	// A linear drift of the logarithm cancels: without, with, with, without.
	if c := Compare(same(1, 8), same(2, 4)); math.Abs(c.Ratio-1) > 1e-9 {
		t.Errorf("%+v", c)
	}
	// Below the resolution of the clock nothing differs.
	if c := Compare(same(0, 0), same(0.001, 0)); c.Changed || c.Ratio != 1 {
		t.Errorf("%+v", c)
	}
}

func TestSummarize(t *testing.T) {
	ran := &Ran{Args: []string{"make"}, ExitCode: 3, DurationS: 2}
	killed := &Ran{Args: []string{"make"}, ExitCode: 137, Signal: "SIGKILL", DurationS: 2}
	kept := []tune.UndoneValue{{}, {}}
	one := tune.Step{Action: tune.Write}
	for name, x := range map[string]struct {
		result Result
		want   string
	}{
		"planned":                     {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}}, "1 value would be set; measured CPUs: 1-7"},
		"nothing to change":           {Result{Plan: &tune.Plan{}}, "all values are set already; measured CPUs: 1-7"},
		"nothing to change, and ran":  {Result{Plan: &tune.Plan{}, Command: ran}, "make ended with exit code 3 after 2 s\nall values are set already; measured CPUs: 1-7"},
		"ran":                         {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Command: ran, Transaction: 4, Undone: true}, "make ended with exit code 3 after 2 s\n1 value set for that time and restored (transaction 4); measured CPUs: 1-7"},
		"ran, and cannot be restored": {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Command: ran, Transaction: 4}, "make ended with exit code 3 after 2 s\nquiet: 1 value set (transaction 4) until fettle undo 4; measured CPUs: 1-7"},
		"killed":                      {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Command: killed, Transaction: 4, Undone: true}, "make was killed by signal 9 (SIGKILL) after 2 s\n1 value set for that time and restored (transaction 4); measured CPUs: 1-7"},
		"undone by another":           {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Command: ran, Transaction: 4, Undone: true, UndoneEarly: true, UndoneBy: 5}, "make ended with exit code 3 after 2 s\n1 value set (transaction 4), but not for all of that time: fettle undo (transaction 5) restored them; measured CPUs: 1-7"},
		"undone by a forgotten one":   {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Command: ran, Transaction: 4, Undone: true, UndoneEarly: true}, "make ended with exit code 3 after 2 s\n1 value set (transaction 4), but not for all of that time: fettle undo restored them; measured CPUs: 1-7"},
		"changed by another":          {Result{Plan: &tune.Plan{Steps: []tune.Step{one, one, one}}, Command: ran, Transaction: 4, Undone: true, Kept: kept}, "make ended with exit code 3 after 2 s\n3 values set for that time (transaction 4); 2 were changed by another program meanwhile and not restored; measured CPUs: 1-7"},
		"one changed by another":      {Result{Plan: &tune.Plan{Steps: []tune.Step{one, one, one}}, Command: ran, Transaction: 4, Undone: true, Kept: kept[:1]}, "make ended with exit code 3 after 2 s\n3 values set for that time (transaction 4); 1 was changed by another program meanwhile and not restored; measured CPUs: 1-7"},
		"stays":                       {Result{Plan: &tune.Plan{Steps: []tune.Step{one}}, Transaction: 4}, "quiet: 1 value set (transaction 4) until fettle undo 4; measured CPUs: 1-7"},
	} {
		r := NewResult(machine.Mounted(t, nil), &State{CPUs: CPUs{Measured: unit.CPUs(1, 2, 3, 4, 5, 6, 7)}}, x.result.Plan)
		r.Command, r.Transaction, r.Undone, r.UndoneEarly, r.UndoneBy, r.Kept = x.result.Command, x.result.Transaction, x.result.Undone, x.result.UndoneEarly, x.result.UndoneBy, x.result.Kept
		r.Summarize()
		if got := strings.Join(r.Headline.Lines, "\n"); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
		if n := r.Headline.Figures["measured_cpus"]; n != 7 {
			t.Errorf("%s: %v measured CPUs", name, n)
		}
	}
}

func TestDescribe(t *testing.T) {
	times := make([]float64, 100)
	for i := range times {
		times[i] = 0.001
	}
	times[7] = 0.002
	if n := describe(times); math.Abs(n.MeanPercent-1) > 1e-9 || math.Abs(n.WorstPercent-100) > 1e-9 || n.PieceS != 0.001 || n.Pieces != 100 {
		t.Errorf("%+v", n)
	}
}

// Another task on the same CPU takes half of its time, and is measured as that.
func TestMeasureSeesATask(t *testing.T) {
	online, err := unit.ParseCPUList(strings.TrimSpace(host.Live().File(cpuDir + "/online").Text))
	if err != nil {
		t.Fatal(err)
	}
	cpu := online.Max()
	stop := make(chan struct{})
	done := make(chan error)
	go func() { done <- spin(cpu, stop) }()
	piece, failed := Calibrate(cpu)
	n, err := piece.Measure(t.Context(), cpu, 300*time.Millisecond)
	close(stop)
	if spun := <-done; err != nil || failed != nil || spun != nil {
		root.Missing(t, "cannot run on CPU %d: %v, %v, %v", cpu, failed, err, spun)
	}
	if n.CPU != cpu || n.Steps != int(piece) || n.WaitPercent < 20 || n.MeanPercent < 10 {
		t.Errorf("%+v", n)
	}
}

// A container may have other CPUs than the machine. The kernel answers as for a CPU that does not exist.
func TestMeasureElsewhere(t *testing.T) {
	if _, err := Calibrate(1023); err == nil || !strings.HasSuffix(err.Error(), "choose others with --cpus") {
		t.Error(err)
	}
}

// What takes the time of a CPU, and of its sibling, between two readings of the counters.
func TestCounters(t *testing.T) {
	at := func(busy, idle, net string) counters {
		return read(machine.Mounted(t, map[string]string{
			"/proc/stat":       "cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 " + busy + " 0 0 " + idle + " 0 0 0 0\n",
			"/proc/interrupts": "     CPU0 CPU1\n 24:  5 " + net + " MSI 1-edge eth0-rx\nLOC:  7 10 Local timer interrupts\n",
		}))
	}
	before, after := at("100", "100", "20"), at("130", "170", "220")
	if got := busy(before, after, 1); math.Abs(got-30) > 1e-9 {
		t.Errorf("busy for %v %%", got)
	}
	if got := busy(before, before, 1); got != 0 {
		t.Errorf("busy for %v %%", got)
	}
	if got := loudest(before, after, 1, 2); got != "eth0-rx 100/s" {
		t.Error(got)
	}
	if got := loudest(before, after, 5, 2); got != "interrupts unknown" {
		t.Error(got)
	}
}

// boundTasks are tasks with their CPUs.
type boundTasks struct {
	host.Sched
	cpus   map[int]unit.CPUSet
	kernel map[int]bool
}

func (b boundTasks) Task(tid int) (host.Task, error) {
	return host.Task{TaskID: host.TaskID{TID: tid, Start: 7}, Kernel: b.kernel[tid]}, nil
}

func (b boundTasks) Affinity(id host.TaskID) (unit.CPUSet, error) {
	cpus, has := b.cpus[id.TID]
	if !has {
		return cpus, host.ErrEnded
	}
	return cpus, nil
}

// A kernel thread of another CPU is not what takes the time of the measured one. A process with its
// main thread there may be.
func TestMayRunOn(t *testing.T) {
	h := machine.Mounted(t, nil)
	h.Sched = boundTasks{
		cpus:   map[int]unit.CPUSet{7: unit.CPUs(0), 8: unit.CPUs(0), 9: unit.CPUs(1)},
		kernel: map[int]bool{7: true, 9: true},
	}
	for pid, want := range map[int]bool{7: false, 8: true, 9: true, 10: true} { // 10 has ended
		if got := mayRunOn(h, 1, pid); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
}

func TestBusiest(t *testing.T) {
	all := []activity.Consumer{{PID: 8, Command: "qemu", CPUPercent: 50}, {PID: 9, Command: "make", CPUPercent: 60}, {PID: 10, Command: "idle"}}
	if got := busiest(all); got != "make (pid 9) 60 %, qemu (pid 8) 50 %" {
		t.Error(got)
	}
	if got := busiest(all[2:]); got != "they ended meanwhile" {
		t.Error(got)
	}
}

func TestCheckPrints(t *testing.T) {
	percent := 2.125
	c := &Check{CPUs: "1", Noise: &Noise{CPU: 1, PieceS: 0.001, MeanPercent: 3.2, P99Percent: 19, WorstPercent: 85}, Reasons: []Reason{
		{Name: "other tasks", Percent: &percent, Found: "make (pid 12) 85 %", Remedy: "moves tasks to CPU 0"}, {Name: "steal", Found: "x"},
	}, Limits: []string{"this machine is a guest"}}
	c.Headline = c.summarize()
	if got := (&Check{CPUs: "1-3"}).measured(1); got != "CPU 1, the first of 1-3" {
		t.Error(got)
	}
	var out bytes.Buffer
	s := ui.NewScreen(&out, &out)
	s.Width = 80
	c.Print(s)
	for _, want := range []string{"CPU 1: work of 1 ms takes 3.2 % longer", "2 reasons for noise, worst first; fettle quiet removes or reduces 1\n", "2.12 %", "cannot", "· limit: this machine is a guest"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 81 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
