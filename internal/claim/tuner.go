package claim

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Tuner is another program that tunes this machine.
type Tuner struct {
	Name string `json:"name"`
	// Exclusive: tune and daemon refuse next to it (one tuner at a time); it
	// holds the same settings and writes them again.
	Exclusive bool `json:"exclusive"`
	// Only are the settings that it holds, of a tuner that leaves all others alone:
	// it conflicts with a plan that writes one of them. Empty: it may hold any.
	Only     []string `json:"only,omitempty"`
	Unit     string   `json:"unit"`
	Enabled  bool     `json:"enabled"` // starts at boot
	Running  bool     `json:"running"`
	PID      int      `json:"pid,omitempty"`
	Profile  string   `json:"profile,omitempty"` // what it has in force by its own files
	Sets     string   `json:"sets"`
	HandOver string   `json:"hand_over"` // the command that takes it out of force
}

// Conflicts reports whether it may overwrite a setting.
func (t Tuner) Conflicts(s setting.Setting) bool {
	return t.Exclusive && (len(t.Only) == 0 || slices.Contains(t.Only, s.String()))
}

// InForce is true if it acts now or will act at the next boot.
func (t Tuner) InForce() bool { return t.Running || t.Enabled }

// tuner is what is known of one program.
type tuner struct {
	name, unit string
	comm       string // of its process, at most 15 bytes (TASK_COMM_LEN); empty: it does not stay
	exclusive  bool
	only       []string
	files      []string // its own state: the first that exists says what is in force
	init       string   // a System V script of old
	sets       string
	handOver   string
}

var tuners = []tuner{
	{
		name: "TuneD", unit: "tuned.service", comm: "tuned", exclusive: true,
		files: []string{"/etc/tuned/active_profile"}, sets: "sysctl, sysfs, disks, CPUs, network devices, boot parameters: whatever its profile names",
		handOver: "tuned-adm off; systemctl disable --now tuned",
	},
	{
		name: "power-profiles-daemon", unit: "power-profiles-daemon.service", comm: "power-profiles-daemon", exclusive: true,
		files: []string{"/var/lib/power-profiles-daemon/state.ini"}, sets: "energy preference, platform profile, boost",
		handOver: "systemctl disable --now power-profiles-daemon",
	},
	{
		// numad 0.5 moves processes and their memory, which no profile sets; of the
		// kernel's settings it writes khugepaged's scan, and balancing by the kernel
		// moves the same pages.
		name: "numad", unit: "numad.service", comm: "numad", exclusive: true,
		only: []string{"sysctl:kernel.numa_balancing", "sysfs:/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"},
		sets: "NUMA placement of processes, kernel.numa_balancing, transparent huge page scanning", handOver: "systemctl disable --now numad",
	},
	{
		name: "tuned-ppd", unit: "tuned-ppd.service", comm: "tuned-ppd",
		files: []string{"/etc/tuned/ppd_base_profile"}, sets: "switches TuneD's profile for the desktop's power menu", handOver: "systemctl disable --now tuned-ppd",
	},
	{
		name: "TLP", unit: "tlp.service", sets: "governor, energy preference, disk and USB power saving, by power source",
		handOver: "systemctl disable --now tlp",
	},
	{
		name: "saptune", unit: "saptune.service", sets: "sysctl, limits and block devices by SAP notes", handOver: "saptune service takedown",
	},
	{
		name: "auto-cpufreq", unit: "auto-cpufreq.service", comm: "auto-cpufreq", sets: "governor, energy preference, boost",
		handOver: "systemctl disable --now auto-cpufreq",
	},
	{
		name: "bpftune", unit: "bpftune.service", comm: "bpftune", sets: "network sysctls, by what it watches", handOver: "systemctl disable --now bpftune",
	},
	{
		name: "cpupower", unit: "cpupower.service", sets: "governor and frequency limits, once at boot", handOver: "systemctl disable --now cpupower",
	},
	{
		name: "irqbalance", unit: "irqbalance.service", comm: "irqbalance", sets: "the CPU affinity of interrupts", handOver: "systemctl disable --now irqbalance",
	},
	{
		name: "ktune", unit: "ktune.service", init: "ktune", sets: "sysctls and I/O schedulers of RHEL 6", handOver: "service ktune stop; chkconfig ktune off",
	},
}

// Tuners lists the other tuners that are enabled or running, the exclusive ones
// first. A process counts if it runs as root among the machine's own processes,
// not in a container's. The error says that processes could not be listed (a
// copy holds none): then Running is not known, the rest holds.
func Tuners(ctx context.Context, h *host.Host) ([]Tuner, error) {
	r := &reader{host: h, claims: &Claims{}}
	running, err := r.processes(ctx)
	var out []Tuner
	for _, t := range tuners {
		found := Tuner{Name: t.name, Exclusive: t.exclusive, Only: t.only, Unit: t.unit, Sets: t.sets, HandOver: t.handOver}
		found.PID = running[t.comm[:min(15, len(t.comm))]]
		found.Running = found.PID != 0
		found.Enabled = r.unitEnabled(t.unit) && !r.ours(t.unit)
		if t.init != "" {
			links, _ := host.Glob(h.Files, "/etc/rc[35].d/S[0-9][0-9]"+t.init)
			found.Enabled = found.Enabled || len(links) > 0
		}
		if !found.InForce() {
			continue
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

// ours: the unit's name is only an alias of fettle's own unit, which stands in
// for TuneD's where the package is absent.
func (r *reader) ours(unit string) bool {
	real, err := r.host.Files.Resolve(r.unitFile(unit))
	return err == nil && strings.HasPrefix(path.Base(real), "fettle")
}

// stateOf is the profile in a state file: its first line, or Profile= of the
// power-profiles daemon's.
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

// rootOfMachine says of /proc/PID/status that the process is root's and has one
// PID only (NSpid, since Linux 4.1): it is not inside a container's namespace.
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

// processes maps the names of root's processes in the machine's PID namespace
// to the lowest PID that has each, for the names in the table.
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
		return out, fmt.Errorf("running tuners: %w", host.ErrNotRecorded)
	}
	return out, nil
}

// processName is a process's name if it is one of the wanted: by comm, or for a
// script that its interpreter was called with, by the script's name.
func (r *reader) processName(dir string, wanted map[string]bool) string {
	b, err := r.host.Files.ReadFile(dir + "/comm")
	if err != nil {
		return "" // gone meanwhile
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
