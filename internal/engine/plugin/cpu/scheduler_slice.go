package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Control groups of version 2 (Documentation/admin-guide/cgroup-v2.rst, "Cpuset"). A service
// manager owns the hierarchy, and a process stays in its service's group. Only the manager's
// top-level units can be confined.
const (
	// sliceKind is the kind of the settings slice:NAME: the CPUs of the systemd unit NAME, or
	// allCPUs if the unit is not confined.
	sliceKind = "slice"
	allCPUs   = "all"

	unified = "/sys/fs/cgroup"
)

// topUnits contain services, sessions and process 1 (systemd.special(7)). CPUs are isolated for
// virtual machines and containers, so the list has neither machine.slice nor slices of other
// managers, such as kubepods.slice.
var topUnits = []string{"system.slice", "user.slice", initScope}

const initScope = "init.scope"

// confines reports whether systemd can confine its units. If not, it returns the reason.
func confines(h *host.Host) (bool, string) {
	text, ok := plugin.Attribute(h, unified+"/cgroup.controllers")
	switch {
	case !ok:
		return false, "this machine has no cgroup v2 either"
	case !slices.Contains(strings.Fields(text), "cpuset"):
		return false, "cgroup v2 has no cpuset controller on this machine"
	case !host.HasSystemd(h):
		return false, "cannot confine cgroups without systemd, which does not run on this machine"
	}
	return true, ""
}

// isolateBySlice confines systemd's own units to the housekeeping CPUs. It returns the tasks
// outside these units, which need an affinity. A unit with a task that must not be changed is not
// confined.
func isolateBySlice(r *plugin.Request, o profile.Option, rs *rules, tasks []host.Task, housekeeping unit.CPUSet) (items []plugin.Item, rest []host.Task, err error) {
	in := map[string][]host.Task{}
	for _, t := range tasks {
		name := ""
		if !t.Kernel {
			name = topUnit(r.Host, t)
		}
		if name == "" {
			rest = append(rest, t)
			continue
		}
		in[name] = append(in[name], t)
	}
	alone := "" // why a unit, and thus process 1, is not confined
	for _, name := range topUnits {
		s := setting.Setting{Kind: sliceKind, Name: name}
		was, err := r.Original(s)
		if err != nil {
			return nil, nil, err
		}
		if was.Absent {
			rest = append(rest, in[name]...)
			continue
		}
		why := ""
		if i := slices.IndexFunc(in[name], func(t host.Task) bool { return !t.Zombie && !rs.isolates(r.Host, t) }); i >= 0 {
			why = fmt.Sprintf("task %d (%s) in %s must not be moved", in[name][i].TID, in[name][i].Comm, name)
			alone = why
		} else if name == initScope {
			why = alone // tasks started elsewhere inherit process 1's CPUs
		}
		if why != "" {
			items = append(items, plugin.Refuse(s, o, plugin.Unsupported, "%s; each of the other tasks gets a CPU affinity instead", why))
			rest = append(rest, in[name]...)
			continue
		}
		want := housekeeping
		if own, err := unit.ParseCPUList(was.Text); err == nil && !own.Intersect(housekeeping).IsEmpty() {
			want = own.Intersect(housekeeping)
		}
		items = append(items, plugin.Want(s, want.String(), o))
	}
	return items, rest, nil
}

// topUnit returns the unit in topUnits that contains a task, or "".
func topUnit(h *host.Host, t host.Task) string {
	text, _ := plugin.Attribute(h, fmt.Sprintf("/proc/%d/cgroup", t.TID))
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			name, _, _ := strings.Cut(p, "/")
			if slices.Contains(topUnits, name) {
				return name
			}
		}
	}
	return ""
}

type slice struct{ host *host.Host }

func (slice) Resolve(s setting.Setting) (setting.Setting, error) {
	if !slices.Contains(topUnits, s.Name) {
		return s, fmt.Errorf("%s: want one of %s", s, strings.Join(topUnits, ", "))
	}
	return s, nil
}

func (k slice) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	group := unified + "/" + s.Name
	b, err := k.host.Files.ReadFile(group + "/cpuset.cpus")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return setting.Value{}, err
	}
	list := strings.TrimSpace(string(b)) // empty: the controller or CPUs were not requested
	// The CPUs of an empty unit, such as user.slice before the first login, are only in
	// systemd's files.
	if events, _ := plugin.Attribute(k.host, group+"/cgroup.events"); list == "" && !strings.Contains(events, "populated 1") {
		text, _ := plugin.Attribute(k.host, controlDir(s.Name)+"/"+controlFile)
		if i := strings.LastIndex(text, allowedCPUs); i >= 0 {
			list, _, _ = strings.Cut(text[i+len(allowedCPUs):], "\n")
			list = strings.TrimSpace(list)
		}
	}
	if list != "" {
		return setting.Text(list), nil
	}
	for _, p := range []string{group, "/etc/systemd/system/" + s.Name, "/usr/lib/systemd/system/" + s.Name, "/lib/systemd/system/" + s.Name} {
		if plugin.Exists(k.host, p) {
			return setting.Text(allCPUs), nil
		}
	}
	return setting.Absent, nil
}

// controlDir returns the directory of systemd's set-property --runtime values for a unit.
func controlDir(unit string) string { return "/run/systemd/system.control/" + unit + ".d" }

const (
	controlFile = "50-AllowedCPUs.conf"
	allowedCPUs = "AllowedCPUs="
)

// Write sets the value through systemd, which would otherwise revert it at its next change of the
// hierarchy. The value lasts until the next boot (systemd.resource-control(5), AllowedCPUs=).
func (k slice) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	cpus := v.Text
	if v.Absent || cpus == allCPUs {
		v, cpus = setting.Text(allCPUs), ""
	}
	if _, err := host.Run(ctx, k.host, "systemctl", "set-property", "--runtime", "--", s.Name, allowedCPUs+cpus); err != nil {
		return err
	}
	if cpus == "" { // no CPUs are set: remove the file
		dir := controlDir(s.Name)
		if err := k.host.Files.Remove(dir + "/" + controlFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = k.host.Files.Remove(dir) // fails if it contains other files
		if _, err := host.Run(ctx, k.host, "systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	// systemd replies first and writes to the group later.
	for end := time.Now().Add(takesEffect); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now, err := k.Read(ctx, s); err != nil || now.Absent || k.Equal(now, v) || ctx.Err() != nil {
			break // the reader reports the error
		}
	}
	return nil
}

// takesEffect is the maximum time that systemd needs on a busy machine.
const takesEffect = 10 * time.Second

func (slice) Equal(a, b setting.Value) bool { return cgroup{}.Equal(a, b) }

// Coupled lists the affinities of processes. Before Linux 6.2 the kernel drops them when the CPUs
// of their group change (commit 8f9ea86fdf99, "sched: Always preserve the user requested
// cpumask").
func (k slice) Coupled(setting.Setting) []setting.Setting {
	tasks, err := listTasks(k.host)
	if err != nil {
		return nil
	}
	online, err := cpuList(k.host, "online")
	if err != nil {
		return nil
	}
	var out []setting.Setting
	for _, t := range tasks {
		if t.Kernel || t.Zombie {
			continue
		}
		if cpus, err := k.host.Sched.Affinity(t.TaskID); err == nil && !cpus.Equal(online) {
			out = append(out, taskSetting(t.TaskID, affinityOf))
		}
	}
	return out
}

func (slice) Lifetime() setting.Lifetime { return setting.Runtime }
