package quiet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

const (
	fenced     = "its heartbeats may be late, and the cluster then fences this machine"
	markedDown = "its heartbeats may be late, and the cluster then marks it down and moves data"
)

// protected maps the names of programs that must not be slowed down to the reason.
var protected = map[string]string{
	"etcd":             "its heartbeats may be late, and the cluster then elects another leader",
	"kubelet":          "its status may be late, and the cluster then evicts the pods of this node",
	"kubelite":         "it contains a kubelet, whose status may be late", // MicroK8s
	"k3s-server":       "it contains a kubelet and etcd, whose heartbeats may be late",
	"k3s-agent":        "it contains a kubelet, whose status may be late",
	"pacemakerd":       fenced,
	"pacemaker-remote": fenced,
	"corosync":         fenced,
	"ceph-mon":         "its lease may end, and the monitors then elect another leader",
	"ceph-mgr":         markedDown,
	"ceph-osd":         markedDown,
	"ceph-mds":         markedDown,
}

// Refuse returns an error if a program runs that must not be slowed down. It names each of them.
func Refuse(h *host.Host) error {
	pids, err := h.PIDs()
	if err != nil {
		return nil //nolint:nilerr // a machine whose processes fettle cannot see
	}
	var found []string
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/", pid)
		name := strings.TrimSpace(h.File(dir + "comm").Text)
		why := reason(name)
		if why == "" {
			continue
		}
		where := fmt.Sprint("process ", pid)
		if unit := activity.Unit(activity.CgroupOf(h.File(dir + "cgroup").Text)); unit != "" {
			where += ", " + unit
		}
		found = append(found, fmt.Sprintf("%s runs (%s): %s", name, where, why))
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return ui.Hinted(ui.Refused, errors.New(strings.Join(found, "; ")), "measure on a machine that is not a member of a cluster; fettle quiet check shows here why it is noisy, and changes nothing")
}

// reason returns why a program must not be slowed down, or "". The kernel cuts names to 15 bytes.
func reason(comm string) string {
	for name, why := range protected {
		if comm == name || len(name) > 15 && comm == name[:15] {
			return why
		}
	}
	return ""
}
