package setting

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// sysfs is the kind of attributes below /sys. The canonical name is the path
// without symbolic links: /sys/block/sda/queue/scheduler and
// /sys/class/block/sda/queue/scheduler are the same setting.
type sysfs struct{ host *host.Host }

func (k sysfs) Resolve(s Setting) (Setting, error) {
	if err := below("/sys/", s.Name); err != nil {
		return Setting{}, err
	}
	p := path.Clean(s.Name)
	real, err := k.host.Files.Resolve(p)
	if host.NotFound(err) {
		// Resolve the existing part, so that two names of the same missing attribute are equal.
		if dir, derr := k.host.Files.Resolve(path.Dir(p)); derr == nil {
			real, err = path.Join(dir, path.Base(p)), nil
		} else {
			real, err = p, nil
		}
	}
	if err != nil {
		return Setting{}, err
	}
	if err := below("/sys/", real); err != nil {
		return Setting{}, err
	}
	return k.alias(real), nil
}

// alias returns the canonical setting for a second path of a kernel variable. A disk's
// read-ahead is also an attribute of its bdi (block/blk-sysfs.c, mm/backing-dev.c). The
// default huge page pool (mm/hugetlb.c) and some module parameters are also sysctls.
func (k sysfs) alias(p string) Setting {
	if dev, ok := strings.CutPrefix(p, "/sys/devices/virtual/bdi/"); ok && path.Base(p) == "read_ahead_kb" {
		if q, err := k.host.Files.Resolve("/sys/dev/block/" + path.Dir(dev) + "/queue/read_ahead_kb"); err == nil {
			return Setting{"sysfs", q}
		}
	}
	if pool, ok := strings.CutPrefix(p, hugePools); ok {
		size, attribute, _ := strings.Cut(pool, "/")
		if attribute == "nr_hugepages_mempolicy" {
			attribute, p = "nr_hugepages", hugePools+size+"/nr_hugepages"
		}
		if (attribute == "nr_hugepages" || attribute == "nr_overcommit_hugepages") && size == DefaultHugePage(k.host) {
			return Setting{"sysctl", "vm." + attribute}
		}
	}
	for name, parameter := range sysctlParameters {
		if p == parameter && exists(k.host, procSys+swapSeparators(name)) {
			return Setting{"sysctl", name}
		}
	}
	return Setting{"sysfs", p}
}

const hugePools = "/sys/kernel/mm/hugepages/hugepages-"

// sysctlParameters maps module parameters to sysctls of the same variable
// (net/netfilter/nf_conntrack_standalone.c; kernel/panic.c, core_param; net/sunrpc/xprtsock.c).
var sysctlParameters = map[string]string{
	"net.netfilter.nf_conntrack_buckets": "/sys/module/nf_conntrack/parameters/hashsize",
	"kernel.panic":                       "/sys/module/kernel/parameters/panic",
	"kernel.panic_on_warn":               "/sys/module/kernel/parameters/panic_on_warn",
	"kernel.panic_print":                 "/sys/module/kernel/parameters/panic_print",
	"sunrpc.udp_slot_table_entries":      "/sys/module/sunrpc/parameters/udp_slot_table_entries",
	"sunrpc.tcp_slot_table_entries":      "/sys/module/sunrpc/parameters/tcp_slot_table_entries",
	"sunrpc.tcp_max_slot_table_entries":  "/sys/module/sunrpc/parameters/tcp_max_slot_table_entries",
}

// Read returns the active word of a choice: "madvise" for "always [madvise] never".
func (k sysfs) Read(_ context.Context, s Setting) (Value, error) {
	if err := below("/sys/", s.Name); err != nil {
		return Value{}, err
	}
	b, err := k.host.Files.ReadFile(s.Name)
	if err != nil {
		return absentOr(err)
	}
	return Text(ActiveWord(strings.TrimSuffix(string(b), "\n"))), nil
}

// ActiveWord returns the bracketed word of a text, or the whole text unless exactly one word
// is in brackets.
func ActiveWord(text string) string {
	active := ""
	for _, w := range strings.Fields(text) {
		if len(w) > 2 && w[0] == '[' && w[len(w)-1] == ']' {
			if active != "" {
				return text
			}
			active = w[1 : len(w)-1]
		}
	}
	if active == "" {
		return text
	}
	return active
}

func (k sysfs) Write(_ context.Context, s Setting, v Value) error {
	if v.Absent {
		return fmt.Errorf("%s: kernel attributes cannot be removed", s)
	}
	real, err := k.host.Files.Resolve(s.Name)
	if err != nil {
		return err
	}
	if err := below("/sys/", real); err != nil {
		return err
	}
	return k.host.Files.Store(real, line(v.Text))
}

func (k sysfs) Equal(a, b Value) bool { return equalFields(a.Text, b.Text) }

// Coupled lists the settings that a write to an attribute changes too.
func (k sysfs) Coupled(s Setting) []Setting {
	dir, base := path.Dir(s.Name), path.Base(s.Name)
	switch {
	case base == "scheduler" && path.Base(dir) == "queue":
		// block/elevator.c elevator_switch: a new scheduler brings its own attributes
		// and queue depth, and turns write-back throttling off or on.
		out := globSettings(k.host, dir+"/iosched/*", "sysfs")
		for _, a := range []string{"nr_requests", "wbt_lat_usec", "async_depth"} {
			if p := dir + "/" + a; exists(k.host, p) {
				out = append(out, Setting{"sysfs", p})
			}
		}
		return out
	case base == "scaling_governor":
		// cpufreq: a new governor brings its own tunables; intel_pstate and
		// amd-pstate fix the energy preference under "performance".
		var out []Setting
		for _, a := range []string{"energy_performance_preference", "scaling_setspeed", "scaling_min_freq", "scaling_max_freq"} {
			if p := dir + "/" + a; exists(k.host, p) {
				out = append(out, Setting{"sysfs", p})
			}
		}
		for _, sub := range []string{"conservative", "ondemand", "schedutil"} {
			out = append(out, globSettings(k.host, dir+"/"+sub+"/*", "sysfs")...)
			out = append(out, globSettings(k.host, "/sys/devices/system/cpu/cpufreq/"+sub+"/*", "sysfs")...)
		}
		return out
	case strings.HasPrefix(s.Name, hugePools) && base == "nr_hugepages":
		// mm/hugetlb.c: a pool changes its share on each node.
		return globSettings(k.host, "/sys/devices/system/node/node*/hugepages/"+path.Base(dir)+"/nr_hugepages", "sysfs")
	case strings.HasPrefix(s.Name, "/sys/devices/system/node/node") && base == "nr_hugepages":
		return []Setting{k.alias("/sys/kernel/mm/hugepages/" + path.Base(dir) + "/nr_hugepages")}
	case strings.HasPrefix(s.Name, "/sys/kernel/mm/transparent_hugepage/") && (base == "enabled" || base == "shmem_enabled"):
		// mm/khugepaged.c set_recommended_min_free_kbytes raises the reserve when huge pages
		// are turned on, and recalculates it when they are turned off. This applies to the
		// global switch, the switch of each size, and shmem.
		return []Setting{{"sysctl", "vm.min_free_kbytes"}}
	case s.Name == "/sys/devices/system/cpu/cpufreq/boost", s.Name == "/sys/devices/system/cpu/intel_pstate/no_turbo":
		// drivers/cpufreq: the highest frequency changes with it, per policy.
		out := globSettings(k.host, "/sys/devices/system/cpu/cpufreq/policy*/boost", "sysfs")
		return append(out, globSettings(k.host, "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", "sysfs")...)
	case base == "boost" && strings.HasPrefix(path.Base(dir), "policy"):
		return globSettings(k.host, dir+"/scaling_max_freq", "sysfs")
	case s.Name == "/sys/devices/system/cpu/intel_pstate/min_perf_pct", s.Name == "/sys/devices/system/cpu/intel_pstate/max_perf_pct":
		// drivers/cpufreq/intel_pstate.c: the minimum and the maximum limit each other.
		return globSettings(k.host, dir+"/m[ai][xn]_perf_pct", "sysfs")
	case s.Name == "/sys/devices/system/cpu/intel_pstate/status", s.Name == "/sys/devices/system/cpu/amd_pstate/status":
		return globSettings(k.host, "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "sysfs")
	}
	return nil
}

func exists(h *host.Host, p string) bool {
	_, err := h.Files.Lstat(p)
	return err == nil
}

func (sysfs) Lifetime() Lifetime { return Runtime }

// Restore implements Restorer for files that are written one word at a time and read as a
// list. It writes each word of the old value that is missing now.
func (k sysfs) Restore(ctx context.Context, s Setting, had Value) error {
	refused := k.Write(ctx, s, had)
	if refused == nil || had.Absent {
		return refused
	}
	now, err := k.Read(ctx, s)
	if err != nil {
		return refused
	}
	then, present := strings.Fields(had.Text), strings.Fields(now.Text)
	missing := slices.DeleteFunc(slices.Clone(then), func(w string) bool { return slices.Contains(present, w) })
	switch base := path.Base(s.Name); {
	case base == "cgroup.subtree_control":
		for i := range missing {
			missing[i] = "+" + missing[i]
		}
		for _, w := range present {
			if !slices.Contains(then, w) {
				missing = append(missing, "-"+w)
			}
		}
	case base == "trace_options", s.Name == "/sys/kernel/debug/sched/features", s.Name == "/sys/kernel/debug/sched_features":
	default:
		return refused
	}
	for _, w := range missing {
		if err := k.Write(ctx, s, Text(w)); err != nil {
			return err
		}
	}
	return nil
}
