package cpu

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// planIsolated moves tasks and interrupts off CPUs. Tasks get an affinity, with both versions of
// control groups. A cpuset would also keep the CPUs from the programs for which they are isolated.
// cgroup_for_isolated_cores requests a cpuset: for systemd's units with version 2, as a separate
// group with version 1.
func planIsolated(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(strings.Trim(o.Value, `"' `)) {
		return nil, nil
	}
	housekeeping, why, err := housekeepingCPUs(r.Host, o.Value)
	if err != nil {
		return plugin.BadValue(newTasks, o, "a CPU list, such as 2-3"), nil
	}
	if why != "" {
		return []plugin.Item{plugin.Refuse(newTasks, o, plugin.Rejected, "%s", why)}, nil
	}
	rs, err := readRules(r.Unit)
	if err != nil {
		return nil, err
	}
	items, err := isolateTasks(ctx, r, o, &rs, housekeeping)
	switch {
	case host.Unknown(err):
		items = []plugin.Item{plugin.NotRecorded(newTasks, o)}
	case err != nil:
		return nil, err
	}
	interrupts, err := isolateInterrupts(r, o, housekeeping)
	return append(items, interrupts...), err
}

// housekeepingCPUs returns the online CPUs that are not isolated, or the reason why the CPUs
// cannot be isolated.
func housekeepingCPUs(h *host.Host, isolated string) (cpus unit.CPUSet, why string, err error) {
	cpus, err = profile.ParseCPUs(isolated)
	if err != nil || cpus.IsEmpty() {
		return cpus, "", fmt.Errorf("%q: want a CPU list", isolated)
	}
	online, err := cpuList(h, "online")
	if err != nil || online.IsEmpty() {
		return cpus, "online CPUs unknown", nil
	}
	if missing := cpus.Minus(online); !missing.IsEmpty() {
		return cpus, fmt.Sprintf("CPU %s is not online; online are %s", missing, online), nil
	}
	left := online.Minus(cpus)
	if left.IsEmpty() {
		return cpus, "no CPU would be left for other tasks", nil
	}
	return left, "", nil
}

// cpuList reads a list of the kernel's CPUs: online, present or possible.
func cpuList(h *host.Host, name string) (unit.CPUSet, error) {
	text, err := h.Files.ReadFile("/sys/devices/system/cpu/" + name)
	if err != nil {
		return unit.CPUSet{}, err
	}
	return unit.ParseCPUList(strings.TrimSpace(string(text)))
}

// sameCPUs reports whether two lists are valid and have the same CPUs.
func sameCPUs(a, b string) bool {
	x, errX := unit.ParseCPUList(a)
	y, errY := unit.ParseCPUList(b)
	return errX == nil && errY == nil && x.Equal(y)
}

func listTasks(h *host.Host) ([]host.Task, error) {
	if h.Sched == nil {
		return nil, host.NotRecorded("tasks")
	}
	return h.Sched.Tasks()
}

func isolateTasks(ctx context.Context, r *plugin.Request, o profile.Option, rs *rules, housekeeping unit.CPUSet) ([]plugin.Item, error) {
	tasks, err := listTasks(r.Host)
	if err != nil {
		return nil, err
	}
	var items []plugin.Item
	if name, ok := r.Option("cgroup_for_isolated_cores"); ok && !plugin.IsNone(name.Value) {
		v1, why := cpusetV1(r)
		if v1 {
			return isolateByGroup(r, o, name, rs, tasks, housekeeping)
		}
		if v2, whyNot := confines(r.Host); v2 {
			items, tasks, err = isolateBySlice(r, name, rs, tasks, housekeeping)
		} else {
			s := setting.Setting{Kind: sliceKind, Name: "system.slice"}
			items = []plugin.Item{plugin.Refuse(s, name, plugin.Unsupported, "%s, and %s; each task gets a CPU affinity instead", why, whyNot)}
		}
		if err != nil {
			return nil, err
		}
	}
	// Once isolation is in force, a task that runs only on isolated CPUs was moved there on
	// purpose.
	inForce := false
	if one, err := r.Host.Sched.Task(1); err == nil {
		s := taskSetting(one.TaskID, affinityOf)
		was, errWas := r.Original(s)
		now, errNow := r.Kinds.Read(ctx, s)
		inForce = errWas == nil && errNow == nil && was != now && now.Text == housekeeping.String()
	}
	initMoves := false
	for _, t := range tasks {
		if !rs.isolates(r.Host, t) {
			continue
		}
		s := taskSetting(t.TaskID, affinityOf)
		was, err := r.Original(s)
		if err != nil {
			return nil, err
		}
		own, err := unit.ParseCPUList(was.Text)
		if was.Absent || err != nil {
			continue // it has ended
		}
		want := own.Intersect(housekeeping)
		if want.IsEmpty() {
			if now, err := r.Kinds.Read(ctx, s); inForce && err == nil && now == was {
				continue
			}
			want = housekeeping
		}
		if want.Equal(own) {
			continue
		}
		initMoves = initMoves || t.TID == 1
		it := plugin.Want(s, want.String(), o)
		it.Why, it.Device = t.Comm, t.String()
		items = append(items, it)
	}
	if initMoves {
		items = append(items, plugin.Want(newTasks, housekeeping.String(), o))
	}
	return items, nil
}

// isolateInterrupts keeps current and future interrupts off isolated CPUs.
func isolateInterrupts(r *plugin.Request, o profile.Option, housekeeping unit.CPUSet) ([]plugin.Item, error) {
	if p, ok := r.Option("irq_process"); ok {
		if yes, err := truth(p.Value); err != nil {
			return []plugin.Item{plugin.Refuse(defaultIRQ, p, plugin.Rejected, "irq_process: %v", err)}, nil
		} else if !yes {
			return nil, nil
		}
	}
	numbers, err := irqNumbers(r.Host)
	if host.Unknown(err) {
		return []plugin.Item{plugin.NotRecorded(defaultIRQ, o)}, nil
	}
	if err != nil {
		return nil, err
	}
	var items []plugin.Item
	for _, n := range numbers {
		s := irqSetting(n)
		was, err := r.Original(s)
		if err != nil || was.Absent {
			continue
		}
		want, err := within(r, s, housekeeping)
		if err != nil {
			return nil, err
		}
		if want.String() != was.Text {
			it := plugin.Want(s, want.String(), o)
			it.Device = "irq" + n
			items = append(items, it)
		}
	}
	d := profile.Option{Value: "calc"}
	if given, ok := r.Option("default_irq_smp_affinity"); ok {
		d = given
	}
	switch strings.TrimSpace(d.Value) {
	case "ignore":
		return items, nil
	case "calc", "":
		cpus, err := within(r, defaultIRQ, housekeeping)
		if err != nil {
			return nil, err
		}
		return append(items, plugin.Want(defaultIRQ, cpus.String(), o)), nil
	}
	cpus, err := profile.ParseCPUs(d.Value)
	if err != nil || cpus.IsEmpty() {
		return append(items, plugin.BadValue(defaultIRQ, d, "calc, ignore, or a CPU list")...), nil
	}
	return append(items, plugin.Want(defaultIRQ, cpus.String(), d)), nil
}

var _ setting.Transient = (*task)(nil)
