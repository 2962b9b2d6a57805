package rhel6

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/setting"
)

// moved maps scheduler variables to options of the scheduler plug-in. Linux 5.13 moved them from
// /proc/sys to debugfs. The keys are RHEL 6's names.
var moved = map[string]string{
	"kernel.sched_min_granularity_ns":    "sched_min_granularity_ns",
	"kernel.sched_latency_ns":            "sched_latency_ns",
	"kernel.sched_wakeup_granularity_ns": "sched_wakeup_granularity_ns",
	"kernel.sched_migration_cost":        "sched_migration_cost_ns",
	"kernel.sched_migration_cost_ns":     "sched_migration_cost_ns",
	"kernel.sched_nr_migrate":            "sched_nr_migrate",
	"kernel.sched_tunable_scaling":       "sched_tunable_scaling",
}

// goneFromScheduler lists the variables that disappeared with the old scheduler (Linux 6.6, commit
// 5e963f2bd465 sched/fair: Commit to EEVDF).
var goneFromScheduler = []string{"sched_latency_ns", "sched_wakeup_granularity_ns"}

// renamed maps sysctls of Linux 2.6.32 to their current names. Linux 4.9 removed the old names of
// connection tracking (commit adf0516845bc, netfilter: remove ip_conntrack* sysctl compat code).
var renamed = map[string]string{
	"net.ipv4.ip_conntrack_max":                               "net.netfilter.nf_conntrack_max",
	"net.ipv4.netfilter.ip_conntrack_max":                     "net.netfilter.nf_conntrack_max",
	"net.ipv4.netfilter.ip_conntrack_buckets":                 "net.netfilter.nf_conntrack_buckets",
	"net.ipv4.netfilter.ip_conntrack_checksum":                "net.netfilter.nf_conntrack_checksum",
	"net.ipv4.netfilter.ip_conntrack_generic_timeout":         "net.netfilter.nf_conntrack_generic_timeout",
	"net.ipv4.netfilter.ip_conntrack_icmp_timeout":            "net.netfilter.nf_conntrack_icmp_timeout",
	"net.ipv4.netfilter.ip_conntrack_tcp_be_liberal":          "net.netfilter.nf_conntrack_tcp_be_liberal",
	"net.ipv4.netfilter.ip_conntrack_tcp_loose":               "net.netfilter.nf_conntrack_tcp_loose",
	"net.ipv4.netfilter.ip_conntrack_tcp_timeout_close_wait":  "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
	"net.ipv4.netfilter.ip_conntrack_tcp_timeout_established": "net.netfilter.nf_conntrack_tcp_timeout_established",
	"net.ipv4.netfilter.ip_conntrack_tcp_timeout_fin_wait":    "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
	"net.ipv4.netfilter.ip_conntrack_tcp_timeout_time_wait":   "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
	"net.ipv4.netfilter.ip_conntrack_udp_timeout":             "net.netfilter.nf_conntrack_udp_timeout",
}

// removed lists sysctls of Linux 2.6.32 without a successor. The value is the reason, or "" if
// unknown.
var removed = map[string]string{
	"net.ipv4.tcp_tw_recycle":       "removed in Linux 4.12, because it dropped connections of clients behind address translation",
	"vm.nr_pdflush_threads":         "gone with pdflush: write-back has its own threads for each device",
	"kernel.sched_compat_yield":     "gone with the old behaviour of sched_yield",
	"kernel.sched_child_runs_first": "it has had no effect since Linux 6.6",
	"kernel.sched_time_avg":         "gone from the scheduler",
	"vm.scan_unevictable_pages":     "gone from the kernel; it did nothing",
	"vm.unmap_area_factor":          "gone from the kernel",
	"net.ipv4.tcp_low_latency":      "it has had no effect since Linux 4.14",
	"net.ipv4.tcp_dma_copybreak":    "gone with the offload engine of network receive",
}

// sysctls converts the lines of a sysctl file.
func (im *importer) sysctls(file, text string) error {
	lines, bad := parseSysctl(text)
	for _, l := range bad {
		im.warn(file, l.no, l.text, "not a line of the form name = value: not imported")
	}
	for _, l := range lines {
		im.sysctl(l.name, l.value, origin{file, l.no, l.text})
	}
	return nil
}

// sysctl converts one value to the option for it on this kernel.
func (im *importer) sysctl(name, value string, from origin) {
	p, err := setting.SysctlPath(name)
	if err != nil {
		im.warn(from.file, from.line, from.text, "%v: not imported", err)
		return
	}
	name = setting.SysctlName(p)
	if strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) && len(value) > 1 {
		value = value[1 : len(value)-1]
	}
	plain, err := plainValue(value)
	if err != nil {
		im.warn(from.file, from.line, from.text, "%v: not imported", err)
		return
	}
	if option, ok := moved[name]; ok {
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			im.warn(from.file, from.line, from.text, "not a number: not imported")
			return
		}
		im.set("scheduler", option, plain, from)
		im.schedulerAt = append(im.schedulerAt, Warning{File: from.file, Line: from.line, Text: from.text, Why: option})
		return
	}
	if to, ok := renamed[name]; ok {
		im.warn(from.file, from.line, from.text, "the kernel no longer has this name: imported as %s", to)
		name = to
	}
	there, known := im.hasSysctl(name)
	if why, ok := removed[name]; ok && !there {
		im.warn(from.file, from.line, from.text, "the kernel no longer has this variable (%s): not imported", why)
		return
	}
	if strings.HasSuffix(name, ".base_reachable_time") || strings.HasSuffix(name, ".retrans_time") {
		im.warn(from.file, from.line, from.text, "TuneD accepts only %s_ms, which is in milliseconds: not imported", name)
		return
	}
	if !known && !im.noProcSys {
		im.warn(from.file, from.line, from.text, "%s does not record whether this kernel has the variable: the line is kept", im.host.Name)
	}
	if known && !there {
		im.warn(from.file, from.line, from.text, "this kernel has no %s now, but a module that is not loaded may add it: the line is kept, and verify reports it as unsupported until then", name)
	}
	im.set("sysctl", name, plain, from)
}

// hasSysctl reports whether the host's kernel has the sysctl; known is false if the host does not
// record that.
func (im *importer) hasSysctl(name string) (there, known bool) {
	p, err := setting.SysctlPath(name)
	if err != nil {
		return false, false
	}
	_, err = im.host.Files.Lstat(p)
	switch {
	case err == nil:
		return true, true
	case !errors.Is(err, fs.ErrNotExist):
		return false, false
	}
	if _, err := im.host.Files.Lstat("/proc/sys/kernel"); err != nil {
		if !im.noProcSys {
			im.noProcSys = true
			im.warn(sysctlFile, 0, "", "%s has no /proc/sys, so its kernel's sysctls are unknown", im.host.Name)
		}
		return false, false
	}
	return false, true
}

// warnScheduler adds a warning for each scheduler variable, with its replacement in the host's
// kernel.
func (im *importer) warnScheduler() {
	for _, w := range im.schedulerAt {
		option := w.Why
		name := "kernel." + option
		if there, _ := im.hasSysctl(name); there {
			continue // before Linux 5.13 the plug-in finds it in /proc/sys
		}
		why := "moved from /proc/sys to debugfs in Linux 5.13, where the scheduler plug-in writes it"
		for _, gone := range goneFromScheduler {
			if option == gone {
				why = "moved from /proc/sys to debugfs in Linux 5.13 and removed in 6.6: on later kernels its verdict is unsupported"
				if atLeast(im.release, 6, 6) {
					why = fmt.Sprintf("this kernel (%s) does not have it, because Linux 6.6 removed it with the old scheduler; kept for older kernels", oneLine(im.release))
				}
			}
		}
		if option == "sched_min_granularity_ns" {
			why = "moved from /proc/sys to debugfs in Linux 5.13, and called base_slice_ns since 6.6: the scheduler plug-in writes it"
		}
		im.warn(w.File, w.Line, w.Text, "%s", why)
	}
}

// atLeast reports whether a kernel release is at least major.minor. An unknown release is not.
func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// plainValue escapes a value so that the profile language reads it unchanged.
func plainValue(v string) (string, error) {
	switch {
	case v == "":
		return "", errors.New("an empty value")
	case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "", errors.New("a control character in the value")
	case v[0] == '#' || strings.Contains(v, " #") || strings.Contains(v, "\t#"):
		return "", errors.New("value contains # after white space, which begins a comment in a profile")
	case v[0] == '>' || v[0] == '<':
		return "", fmt.Errorf("value begins with %c, which means a comparison in a profile", v[0])
	}
	return strings.ReplaceAll(v, "${", `\${`), nil
}
