package setting

import (
	"context"
	"slices"
	"strings"
)

// sysctlPairs maps sysctls to the other sysctl for the same limit. Writing one sets the other
// to 0 (mm/page-writeback.c dirty_*_handler, mm/util.c overcommit_*_handler).
var sysctlPairs = map[string]pair{
	"vm.dirty_bytes":            {counterpart: "vm.dirty_ratio", refusesZero: true}, // at least two pages
	"vm.dirty_ratio":            {counterpart: "vm.dirty_bytes"},
	"vm.dirty_background_bytes": {counterpart: "vm.dirty_background_ratio", refusesZero: true}, // at least 1
	"vm.dirty_background_ratio": {counterpart: "vm.dirty_background_bytes"},
	"vm.overcommit_ratio":       {counterpart: "vm.overcommit_kbytes"},
	"vm.overcommit_kbytes":      {counterpart: "vm.overcommit_ratio"},
}

// pair describes one setting of a pair in sysctlPairs.
type pair struct {
	counterpart string
	refusesZero bool
}

// Counterpart implements Exclusive.
func (sysctl) Counterpart(s Setting) (Setting, bool) {
	p, ok := sysctlPairs[s.Name]
	return Setting{"sysctl", p.counterpart}, ok
}

// RefusesZero implements Exclusive.
func (sysctl) RefusesZero(s Setting) bool { return sysctlPairs[s.Name].refusesZero }

// Restore implements Restorer for a limit whose previous value is 0. The kernel may reject a
// written 0. If the counterpart is 0 too, writing 1 to the counterpart sets the limit to 0, and
// writing 0 then restores the counterpart.
func (k sysctl) Restore(ctx context.Context, s Setting, had Value) error {
	refused := k.Write(ctx, s, had)
	twin, ok := k.Counterpart(s)
	if refused == nil || !ok || had.Text != "0" {
		return refused
	}
	if now, err := k.Read(ctx, twin); err != nil || now.Text != "0" {
		return refused
	}
	for _, v := range []string{"1", "0"} {
		if k.Write(ctx, twin, Text(v)) != nil {
			return refused
		}
	}
	return nil
}

// otherUnits maps each file of a variable to the file with another unit. Writing in the
// coarser unit loses the precision of the finer one (net/core/neighbour.c, net/ipv4/route.c,
// net/ipv6/route.c).
var otherUnits = map[string]string{
	"base_reachable_time":    "base_reachable_time_ms",
	"base_reachable_time_ms": "base_reachable_time",
	"retrans_time":           "retrans_time_ms",
	"retrans_time_ms":        "retrans_time",
	"unres_qlen":             "unres_qlen_bytes",
	"unres_qlen_bytes":       "unres_qlen",
	"gc_min_interval":        "gc_min_interval_ms",
	"gc_min_interval_ms":     "gc_min_interval",
}

func (k sysctl) Coupled(s Setting) []Setting {
	if twin, ok := k.Counterpart(s); ok {
		return []Setting{twin}
	}
	switch s.Name {
	case "vm.nr_hugepages":
		// The pool of the default size, per node.
		return k.glob("/sys/devices/system/node/node*/hugepages/hugepages-"+k.defaultHugePage()+"/nr_hugepages", "sysfs")
	case "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding":
		// net/ipv4/devinet.c inet_forward_change changes every device. A router does not accept
		// redirects, a host does. systemd-sysctl treats the two names of this variable as two.
		out := append(k.glob("/proc/sys/net/ipv4/conf/*/forwarding", "sysctl"), Setting{"sysctl", "net.ipv4.ip_forward"})
		return append(without(out, s.Name), Setting{"sysctl", "net.ipv4.conf.all.accept_redirects"})
	case "net.ipv4.tcp_congestion_control":
		// net/ipv4/tcp_cong.c tcp_set_default_congestion_control: the default becomes
		// available to unprivileged users.
		return []Setting{{"sysctl", "net.ipv4.tcp_allowed_congestion_control"}}
	case "net.mptcp.pm_type": // net/mptcp/ctrl.c: number and name of one choice
		return k.present([]string{"net", "mptcp", "path_manager"})
	case "net.mptcp.path_manager":
		return []Setting{{"sysctl", "net.mptcp.pm_type"}}
	case "kernel.watchdog":
		// kernel/watchdog.c: the switch of both detectors reads 1 if either is on.
		return []Setting{{"sysctl", "kernel.soft_watchdog"}, {"sysctl", "kernel.nmi_watchdog"}}
	case "kernel.soft_watchdog", "kernel.nmi_watchdog":
		return []Setting{{"sysctl", "kernel.watchdog"}}
	case "kernel.perf_event_max_sample_rate":
		return []Setting{{"sysctl", "kernel.perf_cpu_time_max_percent"}}
	case "kernel.perf_cpu_time_max_percent":
		return []Setting{{"sysctl", "kernel.perf_event_max_sample_rate"}}
	}
	p, err := SysctlPath(s.Name)
	if err != nil {
		return nil
	}
	return k.coupledNet(strings.Split(strings.TrimPrefix(p, procSys), "/"))
}

// coupledNet lists the coupled settings of network tables. They have a directory for each
// device, one for all devices and one for future devices.
func (k sysctl) coupledNet(dir []string) []Setting {
	n := len(dir)
	if n < 4 || dir[0] != "net" || dir[1] != "ipv4" && dir[1] != "ipv6" {
		return nil
	}
	table, place, param := dir[2], dir[3], dir[n-1]
	switch {
	case table == "route" && n == 4, table == "neigh" && n == 5 && place != "default":
		if other, ok := otherUnits[param]; ok {
			return k.present(sibling(dir, n-1, other))
		}
	case table == "neigh" && n == 5:
		// neigh_copy_dflt_parms: devices that were never set individually get the new value.
		out := k.followers(dir)
		if other, ok := otherUnits[param]; ok {
			dir = sibling(dir, n-1, other)
			out = append(append(out, k.present(dir)...), k.followers(dir)...)
		}
		return out
	case dir[1] == "ipv4" && table == "conf" && place == "default" && n == 5 && param != "forwarding":
		// net/ipv4/devinet.c devinet_copy_dflt_conf: likewise.
		return k.followers(dir)
	case dir[1] == "ipv6" && table == "conf" && place == "all" && n == 5 && slices.Contains(ipv6ForAll, param):
		out := without(k.glob("/proc/sys/net/ipv6/conf/*/"+param, "sysctl"), SysctlName(strings.Join(dir, "/")))
		if param == "forwarding" { // since Linux 6.17 a host clears force_forwarding
			out = append(out, k.glob("/proc/sys/net/ipv6/conf/*/force_forwarding", "sysctl")...)
		}
		return out
	}
	return nil
}

// ipv6ForAll lists parameters for which a write to "all" changes every device and "default"
// (net/ipv6/addrconf.c, addrconf_sysctl_*). For other parameters "all" has a value of its own.
var ipv6ForAll = []string{"forwarding", "force_forwarding", "disable_ipv6", "ignore_routes_with_linkdown", "addr_gen_mode"}

// sibling returns the path with component i replaced.
func sibling(dir []string, i int, name string) []string {
	dir = slices.Clone(dir)
	dir[i] = name
	return dir
}

// present returns the sysctl of a path if the path exists.
func (k sysctl) present(dir []string) []Setting {
	p := procSys + strings.Join(dir, "/")
	if !exists(k.host, p) {
		return nil
	}
	return []Setting{{"sysctl", SysctlName(p)}}
}

// followers returns the devices with the same value as "default". Only these may follow
// "default"; the kernel does not show which ones do.
func (k sysctl) followers(dir []string) []Setting {
	const device = 3 // net/ipv4/conf/DEVICE/...
	shared, err := k.host.Files.ReadFile(procSys + strings.Join(dir, "/"))
	if err != nil {
		return nil
	}
	var out []Setting
	for _, s := range k.glob(procSys+strings.Join(sibling(dir, device, "*"), "/"), "sysctl") {
		p, err := SysctlPath(s.Name)
		if err != nil {
			continue
		}
		name := strings.Split(strings.TrimPrefix(p, procSys), "/")[device]
		if name == "default" || name == "all" {
			continue
		}
		if own, err := k.host.Files.ReadFile(p); err == nil && string(own) == string(shared) {
			out = append(out, s)
		}
	}
	return out
}

func without(list []Setting, name string) []Setting {
	return slices.DeleteFunc(list, func(s Setting) bool { return s.Name == name })
}
