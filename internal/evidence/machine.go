package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Machine is the fingerprint of a machine: its hardware, system and settings that affect
// measurements.
type Machine struct {
	Name        string `json:"name"`
	Model       string `json:"model,omitempty"`
	CPU         string `json:"cpu"`
	CPUs        int64  `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Hypervisor  string `json:"hypervisor,omitempty"` // empty on bare metal
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	// BootID identifies the boot. It is empty if unknown, and in records of older versions.
	BootID string `json:"boot_id,omitempty"`
	// Hardware is a digest of processor, memory and disks: equal on identical machines.
	Hardware string `json:"hardware_digest"`
	// Settings are the kernel settings that affect measurements, by name.
	Settings map[string]string `json:"settings"`
}

// Names of Settings in records of kubectl fettle, whose machine is a cluster.
const (
	GeneratorImage     = "generator image"
	GeneratorNamespace = "generator namespace"
)

// Fingerprint returns the fingerprint of a machine.
func Fingerprint(h *host.Host) Machine {
	f := fact.Collect(h)
	m := Machine{
		Name: f.OS.Hostname.Or(""), Model: strings.TrimSpace(f.Machine.Vendor.Or("") + " " + f.Machine.Product.Or("")),
		CPU: f.CPU.Model.Or(""), CPUs: f.CPU.Count.Or(0), MemoryBytes: f.Memory.TotalBytes.Or(0),
		Hypervisor: f.Virtualization.Hypervisor.Or(""), OS: f.OS.Name.Or(""), Kernel: f.Kernel.Release.Or(""),
		Settings: fingerprintSettings(h),
	}
	m.BootID, _ = h.BootID() // unknown on a copy
	type disk struct{ Model, Transport string }
	hardware := struct {
		Model, CPU, Microcode string
		CPUs, Memory          int64
		Disks                 map[string]disk
	}{m.Model, m.CPU, f.CPU.Microcode.Or(""), m.CPUs, m.MemoryBytes >> 28, map[string]disk{}}
	for _, name := range f.Disk.Names() {
		d := f.Disk.Get(name)
		if d.SizeBytes.Or(0) > 0 && !strings.HasPrefix(name, "loop") && !strings.HasPrefix(name, "zram") {
			hardware.Disks[name] = disk{d.Model.Or(""), d.Transport.Or("")}
		}
	}
	text, err := json.Marshal(hardware)
	if err != nil {
		panic(err) // only strings and numbers
	}
	sum := sha256.Sum256(text)
	m.Hardware = hex.EncodeToString(sum[:8])
	return m
}

// HardwareText describes the hardware, as far as known, with its digest.
func (m *Machine) HardwareText() string {
	var parts []string
	if m.Model != "" {
		parts = append(parts, m.Model)
	}
	switch {
	case m.CPU != "" && m.CPUs > 0:
		parts = append(parts, fmt.Sprintf("%d × %s", m.CPUs, m.CPU))
	case m.CPUs > 0:
		parts = append(parts, fmt.Sprintf("%d processors", m.CPUs))
	case m.CPU != "":
		parts = append(parts, m.CPU)
	}
	if m.MemoryBytes > 0 {
		parts = append(parts, unit.Size(m.MemoryBytes).Human())
	}
	digest := m.Hardware
	if digest == "" {
		digest = "no hardware digest"
	}
	return strings.TrimSpace(strings.Join(parts, ", ") + " (" + digest + ")")
}

// fingerprintFiles are patterns of the setting files in the fingerprint.
var fingerprintFiles = []string{
	"/proc/sys/vm/*", "/proc/sys/kernel/sched_*", "/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/nmi_watchdog", "/proc/sys/kernel/timer_migration",
	"/proc/sys/net/core/*", "/proc/sys/net/ipv4/tcp_*", "/proc/sys/fs/aio-max-nr", "/proc/sys/fs/file-max",
	"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag", "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
	"/sys/kernel/mm/hugepages/*/nr_hugepages",
	"/sys/block/*/queue/scheduler", "/sys/block/*/queue/nr_requests", "/sys/block/*/queue/read_ahead_kb", "/sys/block/*/queue/wbt_lat_usec", "/sys/block/*/queue/rq_affinity", "/sys/block/*/queue/nomerges",
	"/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference", "/sys/devices/system/cpu/cpufreq/boost", "/sys/devices/system/cpu/intel_pstate/no_turbo",
	"/sys/devices/system/cpu/smt/control", "/sys/devices/system/cpu/online",
}

// excluded are patterns (path.Match) of files that are not read although fingerprintFiles matches
// them.
var excluded = []string{
	// Secrets, because records are shared: tcp_fastopen_key, netdev_rss_key.
	"/proc/sys/*/*_key", "/proc/sys/net/*/*_key", "/proc/sys/*/*secret*", "/proc/sys/net/*/*secret*",
	// Reading it interrupts each CPU to sum up its counters.
	"/proc/sys/vm/stat_refresh",
	// They trigger an action when written, and contain no setting.
	"/proc/sys/vm/compact_memory", "/proc/sys/vm/drop_caches",
}

func isExcluded(file string) bool {
	return slices.ContainsFunc(excluded, func(pattern string) bool {
		is, err := path.Match(pattern, file)
		return is || err != nil
	})
}

// maxValueLength is the longest value in the fingerprint, in bytes; it excludes tables.
const maxValueLength = 200

func fingerprintSettings(h *host.Host) map[string]string {
	all := map[string]string{}
	for _, pattern := range fingerprintFiles {
		found, err := host.Glob(h.Files, pattern)
		if err != nil {
			continue // missing on this machine
		}
		for _, file := range found {
			if name := path.Base(path.Dir(path.Dir(file))); strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || isExcluded(file) {
				continue
			}
			text, err := h.Files.ReadFile(file)
			if err != nil || len(text) > maxValueLength {
				continue // write-only, or not a value
			}
			all[settingName(file)] = strings.Join(strings.Fields(string(text)), " ")
		}
	}
	return all
}

// settingName returns the setting's name for a file.
func settingName(file string) string {
	if key, found := strings.CutPrefix(file, "/proc/sys/"); found {
		return "sysctl:" + strings.ReplaceAll(key, "/", ".")
	}
	return "sysfs:" + file
}

// Differing returns the sorted names of settings that differ between two machines, or that only
// one has.
func (m Machine) Differing(n Machine) (names []string) {
	for name, value := range m.Settings {
		if other, has := n.Settings[name]; !has || other != value {
			names = append(names, name)
		}
	}
	for name := range n.Settings {
		if _, has := m.Settings[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
