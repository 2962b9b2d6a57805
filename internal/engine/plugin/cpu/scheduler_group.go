package cpu

import (
	"context"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// planGroup plans all valid group.NAME options of the unit with the first of
// them: which rule holds for a task depends on all.
func planGroup(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if !isGroup(o) {
		return nil, nil
	}
	if _, err := parseGroup(o); err != nil {
		return nil, plugin.Invalid("%v", err)
	}
	rs, err := readRules(r.Unit)
	if err != nil {
		return nil, err
	}
	for _, other := range r.Unit.Options {
		if _, err := parseGroup(other); isGroup(other) && err == nil {
			if other.Name != o.Name {
				return nil, nil
			}
			break
		}
	}
	tasks, err := listTasks(r.Host)
	if host.Unknown(err) {
		return []plugin.Item{plugin.NotRecorded(setting.Setting{Kind: SchedulerKindName, Name: "*/" + policyOf}, o)}, nil
	}
	if err != nil {
		return nil, err
	}
	var items []plugin.Item
	for _, t := range tasks {
		if g := rs.groupOf(t); g != nil {
			more, err := planTask(r, &rs, g, t)
			if err != nil {
				return nil, err
			}
			items = append(items, more...)
		}
	}
	return items, nil
}

// planTask is what a rule wants of one task.
func planTask(r *plugin.Request, rs *rules, g *group, t host.Task) ([]plugin.Item, error) {
	var items []plugin.Item
	want := func(attribute, value string) {
		it := plugin.Want(taskSetting(t.TaskID, attribute), value, g.option)
		it.Why, it.Device = t.Comm, t.String()
		items = append(items, it)
	}
	was, err := r.Original(taskSetting(t.TaskID, policyOf))
	if err != nil {
		return nil, err
	}
	if was.Absent {
		return nil, nil
	}
	if p, err := parsePolicy(was.Text); err == nil {
		if next, ok := g.policyFor(p); ok {
			want(policyOf, policyText(next))
		}
	}
	if t.Bound || g.cgroup == "" && g.affinity.IsEmpty() || rs.leftAlone(r.Host, t) {
		return items, nil
	}
	cpus := g.affinity
	if g.cgroup != "" {
		if v1, _ := cpusetV1(r); v1 {
			want(cpusetOf, "/"+g.cgroup)
			return items, nil
		}
		// With version 2 a process's group is its service's, and threads of
		// one process cannot be apart: the task gets the group's CPUs.
		o, ok := r.Option(cgroupPrefix + strings.ReplaceAll(g.cgroup, "/", "."))
		if !ok {
			o, ok = r.Option(cgroupPrefix + g.cgroup)
		}
		if ok {
			cpus, err = profile.ParseCPUs(o.Value)
		}
		if !ok || err != nil || cpus.IsEmpty() {
			s := taskSetting(t.TaskID, affinityOf)
			return append(items, plugin.Refuse(s, g.option, plugin.Unsupported, "this machine has no cpuset of control groups version 1, and no %s%s= says which CPUs are meant", cgroupPrefix, g.cgroup)), nil
		}
	}
	if text, ok := plugin.Attribute(r.Host, "/sys/devices/system/cpu/online"); ok {
		// The kernel leaves out what is not there; so does what reads it back.
		if online, err := unit.ParseCPUList(text); err == nil {
			if cpus = cpus.Intersect(online); cpus.IsEmpty() {
				s := taskSetting(t.TaskID, affinityOf)
				return append(items, plugin.Refuse(s, g.option, plugin.Rejected, "none of these CPUs is online: this machine has %s", online)), nil
			}
		}
	}
	want(affinityOf, cpus.String())
	return items, nil
}

// policyFor is the policy that a task with policy p gets.
func (g *group) policyFor(p host.Policy) (host.Policy, bool) {
	next := p
	switch {
	case g.policy != "":
		next = host.Policy{Name: g.policy, Priority: g.priority, Nice: p.Nice, ResetOnFork: p.ResetOnFork}
	case (p.Name == "fifo" || p.Name == "rr") && g.priority > 0:
		next.Priority = g.priority
	}
	return next, next != p || g.policy != ""
}
