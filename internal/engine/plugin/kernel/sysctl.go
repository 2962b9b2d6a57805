// sysctl is the plug-in for kernel variables in /proc/sys, given by name.

package kernel

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Sysctl is the plug-in for [sysctl] sections.
var Sysctl = plugin.Plugin{
	Name: "sysctl",
	Doc:  "sets kernel variables below /proc/sys, by any key that sysctl(8) takes; no wildcards",
	Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{
			Name: name,
			Doc:  "the value of the kernel variable, in the kernel's own unit; >N only raises and <N only lowers it",
			Plan: planSysctl,
		}, true
	},
}

var quoted = text.LazyRegexp(`^"(.*)"$`)

func planSysctl(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := plugin.Sysctl(o.Name)
	file, err := setting.SysctlPath(o.Name)
	switch {
	case errors.Is(err, setting.ErrOutside):
		return []plugin.Item{plugin.Refuse(s, o, plugin.Refused, "%v", err)}, nil
	case err != nil:
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "%v", err)}, nil
	}
	switch name := path.Base(file); name {
	case "base_reachable_time", "retrans_time":
		return []plugin.Item{plugin.Refuse(s, o, plugin.Refused,
			"the unit of %s depends on the kernel (net/core/neighbour.c); set %s_ms, in milliseconds", name, o.Name)}, nil
	}
	// Output of a program ends in a line feed, which does not count as a second line.
	value := quoted().ReplaceAllString(strings.TrimRight(o.Value, "\r\n"), "$1")
	if strings.Contains(value, "\n") {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "a multi-line value cannot be written atomically")}, nil
	}
	now, err := r.Kinds.Read(ctx, s)
	switch {
	case host.Unknown(err):
		return []plugin.Item{plugin.NotRecorded(s, o)}, nil
	case errors.Is(err, fs.ErrPermission):
		if st, serr := r.Host.Files.Stat(file); serr != nil || st.Mode().Perm()&0o444 != 0 {
			return []plugin.Item{plugin.Refuse(s, o, plugin.Unknown, "not readable by this user; run fettle as root")}, nil
		}
		return []plugin.Item{plugin.Refuse(s, o, plugin.Refused, "write-only in this kernel, so its value could not be restored")}, nil
	case err != nil:
		return nil, err
	case now.Absent:
		return plugin.Lacks(r.Host, s, o, "this kernel has no %s%s", setting.SysctlName(file), whereabouts(setting.SysctlName(file))), nil
	case strings.Contains(now.Text, "\n"):
		return []plugin.Item{plugin.Refuse(s, o, plugin.Refused, "the variable has several lines, which undo could not restore atomically")}, nil
	}
	op, text := plugin.Modifier(value)
	if text == "" && now.Text != "" {
		return plugin.BadValue(s, o, "a value that is not empty"), nil
	}
	it := plugin.Want(s, text, o)
	it.Change.Op, it.Now = op, &now
	return []plugin.Item{it}, nil
}

// whereabouts returns why a well-known variable does not exist. The kernel releases are those that
// removed it from kernel/sysctl.c, kernel/sched/debug.c or mm/.
func whereabouts(name string) string {
	for _, w := range []struct{ pattern, text string }{
		{"kernel.sched_min_granularity_ns", "since Linux 5.13 it is in debugfs, since 6.6 as base_slice_ns; a [scheduler] section can set it"},
		{"kernel.sched_latency_ns", "since Linux 5.13 it is in debugfs, and the EEVDF scheduler of 6.6 does not have it"},
		{"kernel.sched_wakeup_granularity_ns", "since Linux 5.13 it is in debugfs, and the EEVDF scheduler of 6.6 does not have it"},
		{"kernel.sched_tunable_scaling", "since Linux 5.13 it is in debugfs; a [scheduler] section can set it"},
		{"kernel.sched_migration_cost_ns", "since Linux 5.13 it is in debugfs; a [scheduler] section can set it"},
		{"kernel.sched_nr_migrate", "since Linux 5.13 it is in debugfs; a [scheduler] section can set it"},
		{"kernel.numa_balancing_scan_*", "since Linux 5.13 it is in debugfs; a [scheduler] section can set it"},
		{"vm.nr_pdflush_threads", "Linux 2.6.32 replaced pdflush with one flusher thread per device"},
		{"net.ipv4.tcp_tw_recycle", "Linux 4.12 removed it: it broke connections of clients behind NAT"},
		{"net.ipv4.tcp_low_latency", "Linux 4.14 removed it with the prequeue"},
		{"net.ipv4.tcp_fack", "it has had no effect since Linux 4.15"},
		{"net.netfilter.*", "the variable comes with the module nf_conntrack, which is not loaded"},
		{"net.nf_conntrack_max", "the variable comes with the module nf_conntrack, which is not loaded"},
		{"net.bridge.*", "the variable comes with the module br_netfilter, which is not loaded"},
		{"sunrpc.*", "the variable comes with the module sunrpc, which is not loaded"},
	} {
		if profile.Fnmatch(w.pattern, name) {
			return ": " + w.text
		}
	}
	return ""
}
