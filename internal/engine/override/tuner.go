package override

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Tuner is another program that tunes this machine.
type Tuner struct {
	Name string `json:"name"`
	// Exclusive is true if tune and daemon refuse to run while this tuner is in force: it sets the
	// same settings and writes them repeatedly. See Conflicts.
	Exclusive bool   `json:"exclusive"`
	Unit      string `json:"unit"`
	Enabled   bool   `json:"enabled"` // starts at boot
	Running   bool   `json:"running"`
	Stays     bool   `json:"-"` // it keeps a process, so Running is meaningful
	PID       int    `json:"pid,omitempty"`
	Profile   string `json:"profile,omitempty"` // active profile according to its own files
	Sets      string `json:"sets"`
	HandOver  string `json:"hand_over"` // the command that stops and disables it
	// BusNames are the D-Bus names that start it when a client uses one, also if its unit is
	// disabled.
	BusNames []string `json:"bus_names,omitempty"`
	// Operator is the program that starts the tuner in a container and selects its profile; nil if
	// a unit of the machine starts it.
	Operator *Operator `json:"operator,omitempty"`
}

// InForce reports whether the tuner runs now or will run at the next boot.
func (t Tuner) InForce() bool { return t.Running || t.Enabled }

// tuner describes one known program.
type tuner struct {
	name, unit string
	comm       string // process name, at most 15 bytes (TASK_COMM_LEN); "": it keeps no process
	exclusive  bool
	// partly is true if the tuner is exclusive only towards plans that write a setting in may.
	partly   bool
	files    []string // state files; the first existing one is read
	init     string   // an old System V init script
	sets     string
	handOver string
	names    []string // see Tuner.BusNames
	// may lists patterns of kernel files that the tuner may write in addition to those in its
	// files. * matches any characters; nil means any file.
	may []string
}

// powerProfiles are the D-Bus names of desktop power profiles: the old and the new one.
var powerProfiles = []string{"net.hadess.PowerProfiles", "org.freedesktop.UPower.PowerProfiles"}

// energy lists the kernel files for energy preference, boost and the frequency governor.
var energy = []string{
	"/sys/devices/system/cpu/cpu*/scaling_*", "/sys/devices/system/cpu/cpu*/energy_perf*", "/sys/devices/system/cpu/cpufreq/boost",
	"/sys/devices/system/cpu/*_pstate/*", "/sys/firmware/acpi/platform_profile",
}

// tlpMay lists the kernel files that TLP may write per device, or by default (TLP 1.9, func.d).
var tlpMay = append([]string{
	"/proc/sys/vm/laptop_mode", "/proc/sys/vm/dirty_*_centisecs", "/proc/sys/fs/xfs/*", "/proc/sys/kernel/nmi_watchdog",
	"/sys/power/mem_sleep", "/sys/module/pcie_aspm/parameters/policy", "/sys/module/snd_*/parameters/power_save*",
	"/sys/*/queue/scheduler", "/sys/*/link_power_management_policy", "/sys/*/power/control", "/sys/*/power/autosuspend*",
	"/sys/*/power_dpm_*", "/sys/*/gt_*_freq_mhz",
}, energy...)

var tuners = []tuner{
	{
		name: "TuneD", unit: "tuned.service", comm: "tuned", exclusive: true,
		files: []string{"/etc/tuned/active_profile"}, sets: "sysctl, sysfs, disks, CPUs, network devices, boot parameters: whatever its profile names",
		handOver: "tuned-adm off; systemctl disable --now tuned",
	},
	{
		name: "power-profiles-daemon", unit: "power-profiles-daemon.service", comm: "power-profiles-daemon", exclusive: true,
		files: []string{"/var/lib/power-profiles-daemon/state.ini"}, sets: "energy preference, platform profile, boost",
		handOver: "systemctl mask --now power-profiles-daemon", names: powerProfiles,
		may: energy,
	},
	{
		name: "numad", unit: "numad.service", comm: "numad", exclusive: true, partly: true,
		sets: "NUMA placement of processes, kernel.numa_balancing, transparent huge page scanning", handOver: "systemctl disable --now numad",
		may: []string{"/proc/sys/kernel/numa_balancing", "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"},
	},
	{
		// Its unit requires TuneD's: whatever starts it starts TuneD.
		name: "tuned-ppd", unit: "tuned-ppd.service", comm: "tuned-ppd", exclusive: true,
		files: []string{"/etc/tuned/ppd_base_profile"}, sets: "TuneD's profile, according to the desktop's power menu",
		handOver: "systemctl mask --now tuned-ppd", names: powerProfiles,
		may: []string{},
	},
	{
		name: "TLP", unit: "tlp.service", sets: "governor, energy preference, disk and USB power saving, according to the power source",
		handOver: "systemctl disable --now tlp",
		may:      tlpMay,
	},
	{
		name: "saptune", unit: "saptune.service", sets: "sysctls, limits and block devices, according to SAP notes", handOver: "saptune service takedown",
	},
	{
		name: "auto-cpufreq", unit: "auto-cpufreq.service", comm: "auto-cpufreq", sets: "governor, energy preference, boost",
		handOver: "systemctl disable --now auto-cpufreq",
		may:      energy,
	},
	{
		name: "bpftune", unit: "bpftune.service", comm: "bpftune", sets: "network sysctls, according to what it observes", handOver: "systemctl disable --now bpftune",
		may: []string{"/proc/sys/net/*"},
	},
	{
		name: "cpupower", unit: "cpupower.service", sets: "governor and frequency limits, once at boot", handOver: "systemctl disable --now cpupower",
		may: []string{},
	},
	{
		name: "irqbalance", unit: "irqbalance.service", comm: "irqbalance", sets: "the CPU affinity of interrupts", handOver: "systemctl disable --now irqbalance",
		may: []string{"/proc/irq/*/smp_affinity", "/proc/irq/*/smp_affinity_list"},
	},
	{
		name: "ktune", unit: "ktune.service", init: "ktune", sets: "sysctls and I/O schedulers of RHEL 6", handOver: "service ktune stop; chkconfig ktune off",
	},
}

// Partial reports whether an exclusive tuner sets only a few settings. It then conflicts only with
// a plan that writes one of them.
func (t Tuner) Partial() bool {
	return slices.ContainsFunc(tuners, func(k tuner) bool { return k.name == t.Name && k.partly })
}

// Conflicts reports whether the tuner in force forbids other programs to write these kernel files.
// An exclusive tuner forbids every write; a partial one (numad) only writes to files that it may
// set.
func (t Tuner) Conflicts(files []string) bool {
	i := slices.IndexFunc(tuners, func(k tuner) bool { return k.name == t.Name })
	return t.Exclusive && t.InForce() && (i < 0 || !tuners[i].partly || t.MaySet(files))
}

// MaySet reports whether the tuner may write one of these kernel files of a setting
// (setting.Kinds.KernelFiles). It ignores lines in the tuner's own files: those are claims.
func (t Tuner) MaySet(files []string) bool {
	i := slices.IndexFunc(tuners, func(k tuner) bool { return k.name == t.Name })
	if i < 0 {
		return false
	}
	if tuners[i].may == nil {
		return len(files) > 0
	}
	return slices.ContainsFunc(files, func(f string) bool {
		return slices.ContainsFunc(tuners[i].may, func(p string) bool { return wildcard(p, f) })
	})
}

// wildcard reports whether text matches a pattern whose only special character is *. * matches any
// characters, including slashes.
func wildcard(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	text, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:max(1, len(parts)-1)] {
		_, after, found := strings.Cut(text, part)
		ok, text = ok && found, after
	}
	if len(parts) == 1 {
		return ok && text == ""
	}
	return ok && strings.HasSuffix(text, parts[len(parts)-1])
}

// Phase returns whether the tuner runs, or is enabled but not running, as text. known is false if
// the machine's processes are unknown.
func (t Tuner) Phase(known bool) string {
	switch {
	case t.Running:
		return "is running"
	case known && t.Stays:
		return "is enabled but not running; it starts at the next boot"
	}
	return "is enabled"
}

// Tuners lists the other tuners that are enabled or running, exclusive ones first. A process
// counts if it runs as root and outside of containers. If processes cannot be listed (a copy has
// none), it returns the list with an error; Running is then unknown.
func Tuners(ctx context.Context, h *host.Host) ([]Tuner, error) {
	r := &reader{host: h, claims: &Claims{}}
	running, err := r.processes(ctx)
	operator := NodeTuning(h)
	var out []Tuner
	for _, t := range tuners {
		found := Tuner{Stays: t.comm != "", Name: t.name, Exclusive: t.exclusive, Unit: t.unit, Sets: t.sets, HandOver: t.handOver, BusNames: t.names}
		found.PID = running[t.comm[:min(15, len(t.comm))]]
		found.Running = found.PID != 0
		found.Enabled = r.unitEnabled(t.unit) && !r.ours(t.unit)
		found.Enabled = found.Enabled || t.init != "" && r.initLinked(t.init)
		if !found.InForce() {
			continue
		}
		if operator != nil && t.unit == "tuned.service" && !found.Enabled {
			found.Operator, found.HandOver = operator, "change its Tuned objects: oc get tuned -n openshift-cluster-node-tuning-operator"
		}
		for _, f := range t.files {
			if text, ok := r.file(f); ok {
				found.Profile = stateOf(text)
				break
			}
		}
		out = append(out, found)
	}
	return out, err
}

// ours reports whether the unit's name is an alias of fettle's own unit. That unit replaces
// TuneD's if TuneD's package is absent.
func (r *reader) ours(unit string) bool {
	real, err := r.host.Files.Resolve(r.unitFile(unit))
	return err == nil && strings.HasPrefix(path.Base(real), "fettle")
}

// stateOf returns the profile in a state file: its first line, or the value of Profile=
// (power-profiles-daemon).
func stateOf(text string) string {
	first := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "Profile="); ok {
			return v
		}
		if first == "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") {
			first = line
		}
	}
	return first
}

// rootOfMachine evaluates /proc/PID/status. It reports whether the process belongs to root and has
// only one PID (NSpid, since Linux 4.1), that is, runs outside of containers' PID namespaces.
func rootOfMachine(status string) bool {
	for line := range strings.Lines(status) {
		switch f := strings.Fields(line); {
		case len(f) > 1 && f[0] == "Uid:" && f[1] != "0":
			return false
		case len(f) > 2 && f[0] == "NSpid:":
			return false
		}
	}
	return true
}

// processes maps process names in the table to their lowest PID. It covers root's processes in the
// machine's PID namespace.
func (r *reader) processes(ctx context.Context) (map[string]int, error) {
	wanted := map[string]bool{}
	for _, t := range tuners {
		if t.comm != "" {
			wanted[t.comm[:min(15, len(t.comm))]] = true
		}
	}
	out := map[string]int{}
	entries, err := r.host.Files.ReadDir("/proc")
	if err != nil {
		return out, fmt.Errorf("running tuners: %w", err)
	}
	pids := 0
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		pids++
		dir := "/proc/" + e.Name()
		name := r.processName(dir, wanted)
		if name == "" || out[name] != 0 && out[name] < pid {
			continue
		}
		if b, err := r.host.Files.ReadFile(dir + "/status"); err == nil && !rootOfMachine(string(b)) {
			continue
		}
		out[name] = pid
	}
	if pids == 0 {
		return out, host.NotRecorded("running tuners")
	}
	return out, nil
}

// processName returns a process's name if wanted has it, else "". The name is comm, or the
// script's name for an interpreter.
func (r *reader) processName(dir string, wanted map[string]bool) string {
	b, err := r.host.Files.ReadFile(dir + "/comm")
	if err != nil {
		return "" // has ended
	}
	comm := strings.TrimSuffix(string(b), "\n")
	if wanted[comm] {
		return comm
	}
	if !strings.HasPrefix(comm, "python") && comm != "platform-python" {
		return ""
	}
	b, err = r.host.Files.ReadFile(dir + "/cmdline")
	if err != nil {
		return ""
	}
	for _, arg := range strings.Split(string(b), "\x00")[1:] {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if base := path.Base(arg); wanted[base] {
			return base
		}
		return ""
	}
	return ""
}
