package fact

import (
	"io/fs"
	"slices"
	"strings"
)

// Services describes the units that systemd starts, and other tuning programs. It is read from
// files. A unit is enabled if a .wants or .requires directory has a link to it, below
// /etc/systemd/system, /run or a vendor directory.
type Services struct {
	Init         Fact[string]   `json:"init"` // name of process 1
	EnabledUnits Fact[[]string] `json:"enabled_units"`
	MaskedUnits  Fact[[]string] `json:"masked_units"`
	// RunningUnits are the services that have a control group.
	RunningUnits Fact[[]string] `json:"running_units"`
	ProcessCount Fact[int64]    `json:"process_count"`
	Tuner        Set[Tuner]     `json:"tuner"`
	// TunedProfile is the profile that TuneD would apply (/etc/tuned/active_profile).
	TunedProfile Fact[string] `json:"tuned_profile"`
	TunedMode    Fact[string] `json:"tuned_mode"` // auto or manual
}

// Tuner is a program that changes the same settings as fettle.
type Tuner struct {
	Installed Fact[bool] `json:"installed"` // its unit file exists
	Enabled   Fact[bool] `json:"enabled"`
	Running   Fact[bool] `json:"running"`
}

// knownTuners lists other tuning programs: name, process name as truncated by the kernel (15
// bytes, TASK_COMM_LEN), and unit.
var knownTuners = []struct{ name, comm, unit string }{
	{"tuned", "tuned", "tuned.service"},
	{"tuned-ppd", "tuned-ppd", "tuned-ppd.service"},
	{"power-profiles-daemon", "power-profiles-", "power-profiles-daemon.service"},
	{"numad", "numad", "numad.service"},
	{"irqbalance", "irqbalance", "irqbalance.service"},
	{"systemd-oomd", "systemd-oomd", "systemd-oomd.service"},
	{"earlyoom", "earlyoom", "earlyoom.service"},
	{"tlp", "tlp", "tlp.service"},
	{"thermald", "thermald", "thermald.service"},
	{"bpftune", "bpftune", "bpftune.service"},
	{"ksmtuned", "ksmtuned", "ksmtuned.service"},
	{"saptune", "saptune", "saptune.service"},
	{"system76-power", "system76-power", "com.system76.PowerDaemon.service"},
	{"auto-cpufreq", "auto-cpufreq", "auto-cpufreq.service"},
	{"fettle", "fettle", "fettle.service"},
}

// unitDirs are the unit directories, highest precedence first (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

func collectServices(r *reader, f *Facts) {
	s := &f.Services
	comms, processes := processNames(r)
	s.Init = r.str("/proc/1/comm")
	s.ProcessCount = processes
	enabled, masked, n := enabledUnits(r)
	s.EnabledUnits, s.MaskedUnits = withNote(n, enabled), withNote(n, masked)
	s.RunningUnits = runningUnits(r)
	s.Tuner.source = "/proc/*/comm"
	for _, t := range knownTuners {
		item := s.Tuner.add(t.name)
		item.Installed = unitExists(r, t.unit)
		item.Enabled = convert(s.EnabledUnits, func(units []string) bool { return slices.Contains(units, t.unit) })
		item.Running = convert(processes, func(int64) bool { return comms[t.comm] })
		item.Running.source = "/proc/*/comm"
	}
	s.TunedProfile = r.mayBeEmpty("/etc/tuned/active_profile")
	s.TunedMode = r.mayBeEmpty("/etc/tuned/profile_mode")
}

// processNames returns the names of all processes, and their number. Copies have none.
func processNames(r *reader) (map[string]bool, Fact[int64]) {
	names, n := r.dir("/proc")
	comms := map[string]bool{}
	count := int64(0)
	for _, pid := range names {
		if digits(pid) != len(pid) {
			continue
		}
		if comm, cn := r.text("/proc/" + pid + "/comm"); cn.known() {
			if comm == "fettle" && !isDaemon(r, pid) {
				comm = "" // another verb, such as this one
			}
			comms[comm] = true
			count++
		} // otherwise the process has ended
	}
	if n.known() && count == 0 {
		n.unknown = "this copy contains no processes (/proc)"
	}
	n.source = "/proc"
	return comms, withNote(n, count)
}

// isDaemon reports whether a fettle process is its daemon.
func isDaemon(r *reader, pid string) bool {
	cmdline, n := r.text("/proc/" + pid + "/cmdline")
	return n.known() && slices.Contains(strings.Split(cmdline, "\x00"), "daemon")
}

// enabledUnits reads the links created by systemctl enable.
func enabledUnits(r *reader) (enabled, masked []string, n note) {
	found, hidden := map[string]bool{}, map[string]bool{}
	n = note{source: unitDirs[0]}
	anyDir := false
	for _, dir := range unitDirs {
		list, err := r.files.ReadDir(dir)
		dn := noteOf(dir, err)
		if dn.unknown != "" && dir == unitDirs[0] {
			return nil, nil, dn
		}
		anyDir = anyDir || dn.known()
		for _, d := range list {
			name := d.Name()
			switch {
			case strings.HasSuffix(name, ".wants"), strings.HasSuffix(name, ".requires"):
				units, _ := r.dir(dir + "/" + name)
				for _, u := range units {
					found[u] = true
				}
			case d.Type()&fs.ModeSymlink != 0:
				if to, err := r.files.Readlink(dir + "/" + name); err == nil && to == "/dev/null" {
					hidden[name] = true
				}
			}
		}
	}
	for u := range hidden {
		delete(found, u)
	}
	n.absent = !anyDir // no systemd
	return sortedNames(found), sortedNames(hidden), n
}

// runningUnits lists the units that have a control group; systemd removes it when the last
// process ends. In cgroup v1 they are in the hierarchy "systemd".
func runningUnits(r *reader) Fact[[]string] {
	var last note
	for _, dir := range []string{"/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"} {
		names, n := r.dir(dir)
		if n.known() {
			units := []string{}
			for _, name := range names {
				if strings.HasSuffix(name, ".service") {
					units = append(units, name)
				}
			}
			return Known(units, dir)
		}
		if last.unknown == "" {
			last = n
		}
	}
	return Fact[[]string]{note: last}
}

func unitExists(r *reader, name string) Fact[bool] {
	unknown := note{}
	for _, dir := range unitDirs[1:] {
		p := dir + "/" + name
		_, err := r.files.Lstat(p)
		if err == nil {
			return Known(true, p)
		}
		if n := noteOf(p, err); n.unknown != "" {
			unknown = n
		}
	}
	if unknown.unknown != "" {
		return Fact[bool]{note: unknown}
	}
	return Known(false, "/usr/lib/systemd/system/"+name)
}
