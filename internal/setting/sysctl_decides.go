package setting

import (
	"strconv"
	"strings"
)

const (
	watchdog     = "kernel.watchdog"
	softWatchdog = "kernel.soft_watchdog"
	nmiWatchdog  = "kernel.nmi_watchdog"
)

// aliases maps sysctls to the other name of the same variable. systemd-sysctl writes both
// names (net/ipv4/devinet.c, net/mptcp/ctrl.c; Linux 6.12 and 6.15).
var aliases = map[string]alias{
	"net.ipv4.ip_forward":          {other: "net.ipv4.conf.all.forwarding"},
	"net.ipv4.conf.all.forwarding": {other: "net.ipv4.ip_forward"},
	"net.mptcp.pm_type":            {"net.mptcp.path_manager", map[string]string{"0": "kernel", "1": "userspace"}},
	"net.mptcp.path_manager":       {"net.mptcp.pm_type", map[string]string{"kernel": "0", "userspace": "1"}},
}

// alias holds a setting's other name. values maps the setting's values to those of the other name;
// nil if they are equal.
type alias struct {
	other  string
	values map[string]string
}

// unitFactors maps the coarser unit of a pair in otherUnits to the number of finer units in
// it. 0 means that it depends on the kernel build.
var unitFactors = map[string]int{"base_reachable_time": 1000, "retrans_time": 10, "gc_min_interval": 1000, "unres_qlen": 0}

// Decides implements Decider. kernel.watchdog = 0 sets both detectors to 0. It reads 0 while
// neither detector runs (kernel/watchdog.c lockup_detector_update_enable).
func (k sysctl) Decides(s Setting, want Value, will func(Setting) Value) []Decided {
	text := strings.TrimSpace(want.Text)
	switch s.Name {
	case watchdog:
		if Zero(want) {
			return []Decided{{k.named(softWatchdog), Text("0"), true}, {k.named(nmiWatchdog), Text("0"), true}}
		}
		return nil
	case softWatchdog, nmiWatchdog:
		other := softWatchdog
		if s.Name == softWatchdog {
			other = nmiWatchdog
		}
		if v := will(k.named(other)); Zero(want) && (v.Absent || Zero(v)) {
			return []Decided{{k.named(watchdog), Text("0"), true}}
		}
		return nil
	}
	if n, ok := aliases[s.Name]; ok {
		v := want
		if n.values != nil {
			if word, ok := n.values[text]; ok {
				v = Text(word)
			} else {
				v = Unknown
			}
		}
		return []Decided{{Setting: k.named(n.other), Value: v}}
	}
	other, ok := k.otherUnit(s)
	if !ok {
		return nil
	}
	return []Decided{{Setting: other, Value: inOtherUnit(lastOf(s.Name), text)}}
}

// DecidedBy implements Decider.
func (k sysctl) DecidedBy(s Setting) []Setting {
	switch s.Name {
	case watchdog:
		return []Setting{k.named(softWatchdog), k.named(nmiWatchdog)}
	case softWatchdog, nmiWatchdog:
		return []Setting{k.named(watchdog)}
	}
	if n, ok := aliases[s.Name]; ok {
		return []Setting{k.named(n.other)}
	}
	if other, ok := k.otherUnit(s); ok {
		return []Setting{other}
	}
	return nil
}

func (sysctl) named(name string) Setting { return Setting{"sysctl", name} }

// otherUnit returns the setting of the same variable in another unit. It returns false if
// none exists.
func (k sysctl) otherUnit(s Setting) (Setting, bool) {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Setting{}, false
	}
	dir := strings.Split(strings.TrimPrefix(p, procSys), "/")
	n := len(dir)
	if n < 4 || dir[0] != "net" || dir[1] != "ipv4" && dir[1] != "ipv6" || dir[2] != "neigh" && dir[2] != "route" {
		return Setting{}, false
	}
	other, ok := otherUnits[dir[n-1]]
	return k.named(SysctlName(procSys + strings.Join(sibling(dir, n-1, other), "/"))), ok
}

func lastOf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// inOtherUnit converts a number to the other unit; the coarser unit drops the remainder.
func inOtherUnit(param, text string) Value {
	n, err := strconv.Atoi(text)
	if err != nil {
		return Unknown
	}
	if factor, coarse := unitFactors[param]; coarse && factor > 0 {
		return Text(strconv.Itoa(n * factor))
	}
	if factor := unitFactors[otherUnits[param]]; factor > 0 {
		return Text(strconv.Itoa(n / factor))
	}
	return Unknown
}
