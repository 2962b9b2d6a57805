package override

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// cmdlineFile is the running kernel's command line.
const cmdlineFile = "/proc/cmdline"

const (
	whenKernelStart  = "when the kernel starts"
	whenKernelSysctl = "by the kernel just before init starts"
)

// place is the setting that a parameter of the command line sets.
type place struct {
	name  string            // path in /sys or /proc/sys; may have wildcards
	value map[string]string // maps the parameter's value to the setting's; nil: unchanged
	// since and gone are the first kernel with the parameter and the first without it (major,
	// minor); zero for no bound.
	since, gone [2]int
	cut         func(string) string // extracts the setting's value from a longer one
}

var onOff = map[string]string{"enable": "1", "disable": "0"}

// cmdlineParameters maps the kernel's own parameters to settings, according to
// Documentation/admin-guide/kernel-parameters.txt and the code. It omits parameters whose effect
// cannot be read back (mitigations, skew_tick, audit, rcu_nocbs). "module.param=value" is handled
// separately.
var cmdlineParameters = map[string]place{
	"transparent_hugepage":       {name: "/sys/kernel/mm/transparent_hugepage/enabled"},                                                   // mm/huge_memory.c
	"transparent_hugepage_shmem": {name: "/sys/kernel/mm/transparent_hugepage/shmem_enabled"},                                             // mm/shmem.c
	"elevator":                   {name: "/sys/block/*/queue/scheduler", gone: [2]int{5, 0}},                                              // block/elevator.c
	"isolcpus":                   {name: "/sys/devices/system/cpu/isolated", cut: isolatedCPUs},                                           // kernel/sched/isolation.c
	"nohz_full":                  {name: "/sys/devices/system/cpu/nohz_full"},                                                             // the same
	"intel_pstate":               {name: "/sys/devices/system/cpu/intel_pstate/status", value: drivers},                                   // drivers/cpufreq/intel_pstate.c
	"amd_pstate":                 {name: "/sys/devices/system/cpu/amd_pstate/status", value: drivers},                                     // drivers/cpufreq/amd-pstate.c
	"cpufreq.default_governor":   {name: everyPolicy + "scaling_governor", since: [2]int{5, 9}},                                           // drivers/cpufreq/cpufreq.c
	"cpuidle.governor":           {name: "/sys/devices/system/cpu/cpuidle/current_governor"},                                              // drivers/cpuidle/cpuidle.c
	"clocksource":                {name: "/sys/devices/system/clocksource/clocksource0/current_clocksource"},                              // kernel/time/clocksource.c
	"nosmt":                      {name: "/sys/devices/system/cpu/smt/control", value: map[string]string{"": "off", "force": "forceoff"}}, // kernel/cpu.c
	"numa_balancing":             {name: "/proc/sys/kernel/numa_balancing", value: onOff},                                                 // mm/mempolicy.c
	"schedstats":                 {name: "/proc/sys/kernel/sched_schedstats", value: onOff},                                               // kernel/sched/core.c
	"nmi_watchdog":               {name: "/proc/sys/kernel/nmi_watchdog", cut: firstDigit},                                                // kernel/watchdog.c
	"nowatchdog":                 {name: "/proc/sys/kernel/watchdog", value: map[string]string{"": "0"}},                                  // the same
	"nosoftlockup":               {name: "/proc/sys/kernel/soft_watchdog", value: map[string]string{"": "0"}},                             // the same
	"watchdog_thresh":            {name: "/proc/sys/kernel/watchdog_thresh"},                                                              // the same
	"panic":                      {name: "/proc/sys/kernel/panic"},                                                                        // kernel/panic.c
	"oops":                       {name: "/proc/sys/kernel/panic_on_oops", value: map[string]string{"panic": "1"}},
	"panic_on_warn":              {name: "/proc/sys/kernel/panic_on_warn", value: map[string]string{"": "1", "1": "1", "0": "0"}},
	"norandmaps":                 {name: "/proc/sys/kernel/randomize_va_space", value: map[string]string{"": "0"}}, // mm/memory.c
	"printk.devkmsg":             {name: "/proc/sys/kernel/printk_devkmsg"},                                        // kernel/printk/printk.c

	// Old names that the kernel turns into sysctls (fs/proc/proc_sysctl.c).
	"hardlockup_all_cpu_backtrace": {name: "/proc/sys/kernel/hardlockup_all_cpu_backtrace"},
	"softlockup_all_cpu_backtrace": {name: "/proc/sys/kernel/softlockup_all_cpu_backtrace"},
	"hung_task_panic":              {name: "/proc/sys/kernel/hung_task_panic"},
	"softlockup_panic":             {name: "/proc/sys/kernel/softlockup_panic"},
}

// drivers maps parameter values to the modes in the P-state drivers' status file. "disable" leaves
// no file; the other words (no_hwp, hwp_only) change something else.
var drivers = map[string]string{"active": "active", "passive": "passive", "guided": "guided"}

// notModules are the prefixes of kernel command-line parameters that user space reads, such as
// systemd in systemd.unit=. They are not module names.
var notModules = map[string]bool{
	"systemd": true, "rd": true, "luks": true, "udev": true, "fsck": true, "quotacheck": true, "plymouth": true,
	"locale": true, "vconsole": true, "net": true, "ignition": true, "coreos": true, "ostree": true, "cloud-init": true,
	"console": true, "bootconfig": true,
}

// readCommandLine reads the running kernel's parameters. It does not read the boot loader's
// parameters for the next boot.
func readCommandLine(r *reader) {
	text, ok := r.file(cmdlineFile)
	if !ok {
		return
	}
	pageSize := "" // hugepagesz= precedes its hugepages=
	for _, p := range parseCommandLine(text) {
		c := Claim{
			Source: CommandLine, File: cmdlineFile, Line: 1, Text: p.text, Administrator: true,
			Value: setting.Text(p.value), When: whenKernelStart,
		}
		switch key := strings.ReplaceAll(p.key, "-", "_"); {
		case p.init:
			// The kernel ignores these lines, but libkmod (30) does not.
			c.Condition = "modprobe loads the module, because only modprobe reads the words after --"
			if p.assigned {
				r.moduleParameter(c, p)
			}
		case strings.HasPrefix(p.key, "sysctl.") || strings.HasPrefix(p.key, "sysctl/"):
			r.kernelSysctl(c, p)
		case key == "hugepagesz":
			pageSize = p.value
		case key == "hugepages":
			r.kernelHugePages(c, pageSize, p.value)
			pageSize = ""
		default:
			if known, ok := cmdlineParameters[key]; ok {
				r.kernelParameter(c, known, p)
			}
			r.moduleParameter(c, p)
		}
	}
}

// kernelSysctl follows process_sysctl_arg of fs/proc/proc_sysctl.c (since 5.8): it converts every
// dot to a slash and keeps slashes.
func (r *reader) kernelSysctl(c Claim, p parameter) {
	key := normalizeSysctl(strings.ReplaceAll(p.key[len("sysctl."):], ".", "/"))
	if key == "" || badPath(key) || !p.assigned {
		r.problem(cmdlineFile, 1, fmt.Sprintf("%q: want sysctl.KEY=VALUE", clip(p.text)))
		return
	}
	if unit.KernelBefore(r.kernelRelease(), 5, 8) {
		c.Void = "kernels before 5.8 do not read sysctl parameters"
	}
	c.When = whenKernelSysctl
	c.Setting = setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + key)}
	r.add(c, 1) // after all values that the starting kernel sets
}

func (r *reader) kernelParameter(c Claim, known place, p parameter) {
	value := p.value
	if known.cut != nil {
		value = known.cut(value)
		if value == "" {
			return
		}
	}
	if known.value != nil {
		v, ok := known.value[value]
		if !ok {
			return
		}
		value = v
	} else if !p.assigned {
		return
	}
	c.Value = setting.Text(value)
	switch {
	case known.gone != [2]int{} && !unit.KernelBefore(r.kernelRelease(), known.gone[0], known.gone[1]):
		c.Void = fmt.Sprintf("ignored since Linux %d.%d", known.gone[0], known.gone[1])
	case known.since != [2]int{} && unit.KernelBefore(r.kernelRelease(), known.since[0], known.since[1]):
		c.Void = fmt.Sprintf("ignored before Linux %d.%d", known.since[0], known.since[1])
	}
	r.addPath(c, known.name, 0)
}

// kernelHugePages parses hugepages=N, or NODE:N,NODE:N, for one page size. An empty size means the
// default size (mm/hugetlb.c hugepages_setup).
func (r *reader) kernelHugePages(c Claim, size, value string) {
	dir := ""
	if size != "" {
		kib, ok := PageKiB(size)
		if !ok {
			r.problem(cmdlineFile, 1, fmt.Sprintf("hugepagesz=%s: not a valid page size; want a size such as 2M or 1G", clip(size)))
			return
		}
		dir = fmt.Sprintf("hugepages/hugepages-%dkB/nr_hugepages", kib)
	}
	if !strings.Contains(value, ":") {
		if dir == "" {
			r.addPath(c, "/proc/sys/vm/nr_hugepages", 0)
		} else {
			r.addPath(c, "/sys/kernel/mm/"+dir, 0)
		}
		return
	}
	if dir == "" {
		return // per-node values of the default size: no single file has them
	}
	for part := range strings.SplitSeq(value, ",") {
		node, n, ok := strings.Cut(part, ":")
		if _, err := strconv.ParseUint(node, 10, 16); !ok || err != nil {
			r.problem(cmdlineFile, 1, fmt.Sprintf("hugepages=%s: want NODE:COUNT", clip(value)))
			return
		}
		c.Value = setting.Text(n)
		r.addPath(c, "/sys/devices/system/node/node"+node+"/"+dir, 0)
	}
}

// PageKiB parses a page size with the kernel's suffixes and returns KiB (lib/cmdline.c memparse).
func PageKiB(s string) (uint64, bool) {
	if s == "" {
		return 0, false
	}
	shift := 0
	switch s[len(s)-1] | 0x20 {
	case 'k':
		shift = 10
	case 'm':
		shift = 20
	case 'g':
		shift = 30
	}
	if shift > 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 0, 32)
	return n << shift >> 10, err == nil && n > 0
}

// moduleParameter handles "module.param=value": the kernel applies it for built-in modules,
// modprobe for others.
func (r *reader) moduleParameter(c Claim, p parameter) {
	module, param, ok := strings.Cut(p.key, ".")
	if !ok || notModules[module] || module == "" || param == "" || strings.ContainsAny(p.key, "/*?[") {
		return
	}
	if !p.assigned {
		c.Value = setting.Text("1") // a boolean without a value (kernel/params.c param_set_bool)
	}
	c.When = "when the kernel starts, or when the module is loaded"
	r.addPath(c, modulePath(module, param), 0)
}

// modulePath returns the path of a module parameter; names in sysfs have underscores instead of
// dashes.
func modulePath(module, param string) string {
	u := func(s string) string { return strings.ReplaceAll(s, "-", "_") }
	return "/sys/module/" + u(module) + "/parameters/" + u(param)
}

// kernelRelease returns the output of uname -r, or "" if unknown.
func (r *reader) kernelRelease() string {
	if r.release == nil {
		b, _ := r.file("/proc/sys/kernel/osrelease")
		b = strings.TrimSpace(b)
		r.release = &b
	}
	return *r.release
}

// isolatedCPUs returns the CPU list of "isolcpus=nohz,domain,2-7", without the flags.
func isolatedCPUs(v string) string {
	for v != "" && (v[0] < '0' || v[0] > '9') {
		_, rest, _ := strings.Cut(v, ",")
		v = rest
	}
	return v
}

// firstDigit returns the 0 or 1 in a list such as "nopanic,1".
func firstDigit(v string) string {
	for f := range strings.SplitSeq(v, ",") {
		if f == "0" || f == "1" {
			return f
		}
	}
	return ""
}

// parameter is one word of the kernel's command line.
type parameter struct {
	key, value string
	assigned   bool // has an equals sign
	init       bool // follows "--": for init, not the kernel
	text       string
}

// parseCommandLine splits as lib/cmdline.c next_arg does. Words end at white space outside double
// quotes. Quotes around the value or the word are removed. Words after "--" are marked as init's.
func parseCommandLine(text string) []parameter {
	var out []parameter
	init := false
	isSpace := func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0xa0 }
	for i := 0; i < len(text); {
		if isSpace(text[i]) || text[i] == 0 {
			i++
			continue
		}
		start, quoted, equals := i, false, -1
		for ; i < len(text) && text[i] != 0 && (quoted || !isSpace(text[i])); i++ {
			switch text[i] {
			case '"':
				quoted = !quoted
			case '=':
				if equals < 0 && i > start {
					equals = i
				}
			}
		}
		word := text[start:i]
		if word == "--" {
			init = true
			continue
		}
		p := parameter{text: word, key: word, assigned: equals >= 0, init: init}
		if p.assigned {
			p.key, p.value = text[start:equals], unquote(text[equals+1:i])
			if strings.HasPrefix(p.key, `"`) {
				p.key, p.value = p.key[1:], strings.TrimSuffix(p.value, `"`)
			}
		} else {
			p.key = unquote(word)
		}
		if p.key != "" {
			out = append(out, p)
		}
	}
	return out
}

// unquote removes an opening double quote and the closing one.
func unquote(s string) string {
	if rest, ok := strings.CutPrefix(s, `"`); ok {
		return strings.TrimSuffix(rest, `"`)
	}
	return s
}
