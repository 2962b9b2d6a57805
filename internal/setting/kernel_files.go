package setting

import (
	"path"
	"strings"
)

// KernelFiles implements KernelFileLister.
func (k sysctl) KernelFiles(s Setting) []string {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return nil
	}
	files := []string{p}
	for alias, name := range sysctlAliases {
		if name == s.Name {
			if p, err := SysctlPath(alias); err == nil {
				files = append(files, p)
			}
		}
	}
	if attribute, ok := strings.CutPrefix(s.Name, "vm."); ok && (attribute == "nr_hugepages" || attribute == "nr_overcommit_hugepages") {
		files = append(files, hugePools+k.defaultHugePage()+"/"+attribute)
		if attribute == "nr_hugepages" {
			files = append(files, hugePools+k.defaultHugePage()+"/nr_hugepages_mempolicy")
		}
	}
	if p, ok := sysctlParameters[s.Name]; ok {
		files = append(files, p)
	}
	return files
}

// KernelFiles implements KernelFileLister.
func (k sysfs) KernelFiles(s Setting) []string {
	if below("/sys/", s.Name) != nil {
		return nil
	}
	files := []string{s.Name}
	if disk, ok := strings.CutSuffix(s.Name, "/queue/read_ahead_kb"); ok {
		if number, err := k.host.Files.ReadFile(disk + "/dev"); err == nil {
			files = append(files, path.Join("/sys/devices/virtual/bdi", strings.TrimSpace(string(number)), "read_ahead_kb"))
		}
	}
	return files
}

// ResetByCPUHotplug reports whether the kernel discards a written value when a CPU goes
// offline or comes back, because it recomputes the value (kernel/sched/fair.c update_sysctl).
func ResetByCPUHotplug(s Setting) bool {
	dir, base := path.Split(s.Name)
	if s.Kind == "sysctl" {
		base = strings.TrimPrefix(s.Name, "kernel.sched_")
	} else if dir != "/sys/kernel/debug/sched/" {
		return false
	}
	switch base {
	case "base_slice_ns", "min_granularity_ns", "latency_ns", "wakeup_granularity_ns":
		return true
	}
	return false
}

// ResetBy describes the event after which the kernel discards a written value, or returns "".
func ResetBy(s Setting) string {
	dir, base := path.Split(s.Name)
	queue := s.Kind == "sysfs" && (strings.HasSuffix(dir, "/queue/") || strings.HasSuffix(dir, "/queue/iosched/"))
	switch {
	case ResetByCPUHotplug(s):
		return "the kernel recomputes it when a CPU goes offline or comes back"
	case queue && (base == "nr_requests" || base == "async_depth" || base == "wbt_lat_usec" || strings.HasSuffix(dir, "/iosched/")):
		return "the kernel resets it at each change of the I/O scheduler"
	case s == Setting{"sysctl", "vm.min_free_kbytes"}:
		return "the kernel recalculates it when transparent huge pages are switched on or off"
	}
	return ""
}
