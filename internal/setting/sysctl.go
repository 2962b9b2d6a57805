package setting

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// sysctl is a file below /proc/sys. Its canonical name separates with dots; a
// dot inside a component (a VLAN interface) is written as a slash, as sysctl(8)
// and sysctl.d(5) have it: net.ipv4.conf.eth0/100.rp_filter.
type sysctl struct{ host *host.Host }

const procSys = "/proc/sys/"

// SysctlPath is the file of a sysctl by either spelling: the first separator
// decides whether dots or slashes separate (sysctl.d(5)).
func SysctlPath(name string) (string, error) {
	if key, ok := strings.CutPrefix(name, procSys); ok {
		name = key
	} else if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' {
		name = swapSeparators(name)
	}
	for _, c := range strings.Split(name, "/") {
		if c == ".." {
			return "", fmt.Errorf("sysctl %q: %w %s", name, ErrOutside, procSys)
		}
		if c == "" || c == "." {
			return "", fmt.Errorf("sysctl %q: not a name below /proc/sys", name)
		}
	}
	return procSys + name, nil
}

// SysctlName is the canonical name of a path below /proc/sys.
func SysctlName(path string) string {
	return swapSeparators(strings.TrimPrefix(path, procSys))
}

func swapSeparators(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, s)
}

// sysctlAliases are second names of one kernel variable: mm/hugetlb.c has the
// same handler behind both (the mempolicy variant only places differently).
var sysctlAliases = map[string]string{
	"vm.nr_hugepages_mempolicy": "vm.nr_hugepages",
}

func (k sysctl) Resolve(s Setting) (Setting, error) {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Setting{}, err
	}
	name := SysctlName(p)
	if main, ok := sysctlAliases[name]; ok {
		name = main
	}
	return Setting{"sysctl", name}, nil
}

func (k sysctl) Read(_ context.Context, s Setting) (Value, error) {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Value{}, err
	}
	b, err := k.host.Files.ReadFile(p)
	if err != nil {
		return absentOr(err)
	}
	return Text(strings.TrimSuffix(string(b), "\n")), nil
}

// line is what is written for a value. An empty one is an empty line: the kernel
// takes no notice of a write of no bytes (fs/read_write.c, proc_sys_write).
func line(text string) []byte {
	if text == "" {
		return []byte("\n")
	}
	return []byte(text)
}

func (k sysctl) Write(_ context.Context, s Setting, v Value) error {
	if v.Absent {
		return fmt.Errorf("%s: the kernel's variables cannot be removed", s)
	}
	if strings.Contains(v.Text, "\n") {
		return fmt.Errorf("%s: a value of several lines cannot be written", s)
	}
	p, err := SysctlPath(s.Name)
	if err != nil {
		return err
	}
	return k.host.Files.Store(p, line(v.Text))
}

func (k sysctl) Equal(a, b Value) bool { return equalFields(a.Text, b.Text) }

// sysctlPairs are two spellings of one limit: writing one zeroes the other
// (mm/page-writeback.c dirty_*_handler, mm/util.c overcommit_*_handler).
var sysctlPairs = map[string]string{
	"vm.dirty_bytes":            "vm.dirty_ratio",
	"vm.dirty_ratio":            "vm.dirty_bytes",
	"vm.dirty_background_bytes": "vm.dirty_background_ratio",
	"vm.dirty_background_ratio": "vm.dirty_background_bytes",
	"vm.overcommit_ratio":       "vm.overcommit_kbytes",
	"vm.overcommit_kbytes":      "vm.overcommit_ratio",
}

// SysctlTwin names the other spelling of a limit: vm.dirty_bytes for
// vm.dirty_ratio. Only one of the two is in force, the one written last.
func SysctlTwin(name string) (string, bool) {
	twin, ok := sysctlPairs[name]
	return twin, ok
}

func (k sysctl) Coupled(s Setting) []Setting {
	if other, ok := sysctlPairs[s.Name]; ok {
		return []Setting{{"sysctl", other}}
	}
	switch s.Name {
	case "vm.nr_hugepages":
		// The pool of the default size, node by node.
		return k.glob("/sys/devices/system/node/node*/hugepages/hugepages-"+k.defaultHugePage()+"/nr_hugepages", "sysfs")
	case "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding":
		// net/ipv4/devinet.c inet_forward_change: every device follows.
		// A router accepts no redirects, and a host does.
		out := k.glob("/proc/sys/net/ipv4/conf/*/forwarding", "sysctl")
		return append(out, Setting{"sysctl", "net.ipv4.ip_forward"}, Setting{"sysctl", "net.ipv4.conf.all.accept_redirects"})
	case "net.ipv4.tcp_congestion_control":
		// net/ipv4/tcp_cong.c tcp_set_default_congestion_control: the default
		// is allowed to everybody.
		return []Setting{{"sysctl", "net.ipv4.tcp_allowed_congestion_control"}}
	case "net.ipv6.conf.all.forwarding":
		return k.glob("/proc/sys/net/ipv6/conf/*/forwarding", "sysctl")
	case "net.ipv6.conf.all.disable_ipv6":
		return k.glob("/proc/sys/net/ipv6/conf/*/disable_ipv6", "sysctl")
	case "kernel.watchdog":
		// kernel/watchdog.c lockup_detector_update_enable: off means that both
		// read 0, and it reads 1 while one of them is on.
		return []Setting{{"sysctl", "kernel.soft_watchdog"}, {"sysctl", "kernel.nmi_watchdog"}}
	case "kernel.soft_watchdog", "kernel.nmi_watchdog":
		return []Setting{{"sysctl", "kernel.watchdog"}}
	case "kernel.perf_event_max_sample_rate":
		return []Setting{{"sysctl", "kernel.perf_cpu_time_max_percent"}}
	case "kernel.perf_cpu_time_max_percent":
		return []Setting{{"sysctl", "kernel.perf_event_max_sample_rate"}}
	}
	return nil
}

func (k sysctl) glob(pattern, kind string) []Setting { return globSettings(k.host, pattern, kind) }

func globSettings(h *host.Host, pattern, kind string) []Setting {
	paths, err := host.Glob(h.Files, pattern)
	if err != nil {
		return nil
	}
	out := make([]Setting, 0, len(paths))
	for _, p := range paths {
		name := p
		if kind == "sysctl" {
			name = SysctlName(p)
		}
		out = append(out, Setting{kind, name})
	}
	return out
}

// defaultHugePage is the directory suffix of the default huge page size, such
// as "2048kB" (Hugepagesize in /proc/meminfo).
func (k sysctl) defaultHugePage() string { return defaultHugePage(k.host) }

func defaultHugePage(h *host.Host) string {
	b, err := h.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return "none"
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Hugepagesize:" {
			return f[1] + f[2]
		}
	}
	return "none"
}

func (sysctl) Lifetime() Lifetime { return Runtime }

// oneWay are the sysctls whose write cannot be taken back: they act at once and
// keep nothing, or the kernel lets nobody write the old value again before the
// next boot.
var oneWay = map[string]string{
	"vm.drop_caches":                   "it acts at once: what it drops does not come back",
	"vm.compact_memory":                "it acts at once and keeps no value",
	"net.ipv4.route.flush":             "it acts at once: the routes' cache does not come back",
	"net.ipv6.route.flush":             "it acts at once: the routes' cache does not come back",
	"net.ipv6.conf.all.disable_ipv6":   "turning IPv6 off drops addresses and routes that do not come back with it",
	"kernel.modules_disabled":          "the kernel keeps it until the next boot",
	"kernel.kexec_load_disabled":       "the kernel keeps it until the next boot",
	"kernel.unprivileged_bpf_disabled": "the kernel keeps a 1 until the next boot",
	"kernel.yama.ptrace_scope":         "the kernel keeps a 3 until the next boot",
}

// OneWay says why a write to a setting could not be taken back; ok is false for
// those that can.
func OneWay(s Setting) (why string, ok bool) {
	if s.Kind != "sysctl" {
		return "", false
	}
	why, ok = oneWay[s.Name]
	return why, ok
}

// ErrOutside is returned for a name that leads out of its kind's own root.
var ErrOutside = errors.New("leads outside")

func below(root, p string) error {
	if c := path.Clean(p); c != strings.TrimSuffix(root, "/") && !strings.HasPrefix(c, root) {
		return fmt.Errorf("%s: %w %s", p, ErrOutside, root)
	}
	return nil
}
