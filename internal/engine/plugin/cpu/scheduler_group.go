package cpu

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// planGroup plans all valid group.NAME options of the unit at the first one: the rule for a task
// depends on all of them.
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
		return []plugin.Item{plugin.NotRecorded(setting.Setting{Kind: taskKind, Name: "*/" + policyOf}, o)}, nil
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

// planTask plans the values that a rule sets for one task.
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
		// With version 2 a process stays in its service's group, and threads of one process cannot
		// be in different groups. So the task gets the group's CPUs instead.
		o, ok := r.Option(cgroupPrefix + strings.ReplaceAll(g.cgroup, "/", "."))
		if !ok {
			o, ok = r.Option(cgroupPrefix + g.cgroup)
		}
		if ok {
			cpus, err = profile.ParseCPUs(o.Value)
		}
		if !ok || err != nil || cpus.IsEmpty() {
			s := taskSetting(t.TaskID, affinityOf)
			return append(items, plugin.Refuse(s, g.option, plugin.Unsupported, "this machine has no cgroup v1 cpuset; set the CPUs with the option %s%s", cgroupPrefix, g.cgroup)), nil
		}
	}
	if online, err := cpuList(r.Host, "online"); err == nil {
		// The kernel ignores offline CPUs and does not return them.
		if cpus = cpus.Intersect(online); cpus.IsEmpty() {
			s := taskSetting(t.TaskID, affinityOf)
			return append(items, plugin.Refuse(s, g.option, plugin.Rejected, "none of these CPUs is online; online are %s", online)), nil
		}
	}
	want(affinityOf, cpus.String())
	return items, nil
}

// policyFor returns the policy for a task that has policy p, and whether to set it.
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

const resetOnFork = ", reset on fork"

// policyText formats a policy as a value: "other nice 0", "fifo 50", "deadline 10000 30000 30000"
// (ns), with an optional ", reset on fork".
func policyText(p host.Policy) string {
	var text string
	switch p.Name {
	case "other", "batch", "idle", "ext":
		text = fmt.Sprintf("%s nice %d", p.Name, p.Nice)
	case "deadline":
		text = fmt.Sprintf("deadline %d %d %d", p.Runtime, p.Deadline, p.Period)
	default:
		text = fmt.Sprintf("%s %d", p.Name, p.Priority)
		if p.Nice != 0 {
			text += fmt.Sprintf(" nice %d", p.Nice)
		}
	}
	if p.ResetOnFork {
		text += resetOnFork
	}
	return text
}

// parsePolicy is the inverse of policyText.
func parsePolicy(text string) (host.Policy, error) {
	rest, reset := strings.CutSuffix(text, resetOnFork)
	f := strings.Fields(rest)
	bad := fmt.Errorf("%q is not a policy; want one such as %q or %q", text, "other nice 0", "fifo 50")
	if len(f) < 2 {
		return host.Policy{}, bad
	}
	p := host.Policy{Name: f[0], ResetOnFork: reset}
	var err error
	switch args := f[1:]; {
	case p.Name == "deadline" && len(args) == 3:
		for i, to := range []*uint64{&p.Runtime, &p.Deadline, &p.Period} {
			if *to, err = strconv.ParseUint(args[i], 10, 64); err != nil {
				return host.Policy{}, bad
			}
		}
	case p.Name == "deadline":
		return host.Policy{}, bad
	default:
		if args[0] != "nice" {
			if p.Priority, err = strconv.Atoi(args[0]); err != nil || p.Priority < 0 || p.Priority > 99 {
				return host.Policy{}, bad
			}
			args = args[1:]
		}
		switch {
		case len(args) == 0:
		case len(args) == 2 && args[0] == "nice":
			if p.Nice, err = strconv.Atoi(args[1]); err != nil || p.Nice < -20 || p.Nice > 19 {
				return host.Policy{}, bad
			}
		default:
			return host.Policy{}, bad
		}
	}
	return p, nil
}
