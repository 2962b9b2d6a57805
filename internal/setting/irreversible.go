package setting

import "strings"

// irreversibleSysctls maps sysctls to why writing them is irreversible: they act at once, or
// the kernel rejects the old value until the next boot.
var irreversibleSysctls = map[string]string{
	"vm.drop_caches":                   "acts at once, and dropped data cannot be restored",
	"vm.compact_memory":                "acts at once and keeps no value",
	"net.ipv4.route.flush":             "acts at once, and the route cache cannot be restored",
	"net.ipv6.route.flush":             "acts at once, and the route cache cannot be restored",
	"net.ipv6.conf.all.disable_ipv6":   whyIPv6Off,
	"net.netfilter.nf_hooks_lwtunnel":  "the kernel keeps a 1 until the next boot",
	"kernel.modules_disabled":          "the kernel keeps it until the next boot",
	"kernel.kexec_load_disabled":       "the kernel keeps it until the next boot",
	"kernel.unprivileged_bpf_disabled": "the kernel keeps a 1 until the next boot",
	"kernel.yama.ptrace_scope":         "the kernel keeps a 3 until the next boot",
}

const whyIPv6Off = "turning IPv6 off drops addresses and routes for good"

// WhyIrreversible implements Irreversible.
func (k sysctl) WhyIrreversible(s Setting, now, want Value) (why string, ok bool) {
	if why, ok = irreversibleSysctls[s.Name]; ok {
		return why, true
	}
	device, ok := strings.CutPrefix(s.Name, "net.ipv6.conf.")
	if !ok {
		return "", false
	}
	// "default" applies only to future devices, so no device loses addresses.
	if device, ok = strings.CutSuffix(device, ".disable_ipv6"); ok && device != "default" && k.Equal(now, Text("0")) {
		return whyIPv6Off, true
	}
	return "", false
}

// WhyIrreversible implements Irreversible.
func (k sysfs) WhyIrreversible(s Setting, now, want Value) (why string, ok bool) {
	if s.Name == "/sys/devices/system/cpu/smt/control" && strings.TrimSpace(want.Text) == "forceoff" && now.Text != "forceoff" {
		return "the kernel keeps forceoff until the next boot; off can be undone", true
	}
	// net/core/net-sysfs.c: the device flags; the lowest bit is IFF_UP.
	if !strings.HasPrefix(s.Name, "/sys/devices/") || !strings.Contains(s.Name, "/net/") || !strings.HasSuffix(s.Name, "/flags") {
		return "", false
	}
	before, okBefore := number(now.Text)
	after, okAfter := number(strings.TrimSpace(want.Text))
	if okBefore && okAfter && before&1 == 1 && after&1 == 0 {
		return "taking a device down drops addresses and routes for good", true
	}
	return "", false
}
