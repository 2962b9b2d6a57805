package cpu

import (
	"context"
	"errors"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Follows reports whether a unit applies to tasks that start later: it has groups or
// isolates CPUs, and runtime is not 0.
func Follows(u *profile.Unit) bool {
	if u.Type != Scheduler.Name || !u.Enabled {
		return false
	}
	wants := false
	for _, o := range u.Options {
		switch {
		case o.Name == "runtime":
			o, _ = plugin.NoWords.Read(o)
			if t, ok := plugin.Truth(o.Value); ok && !t {
				return false
			}
		case strings.HasPrefix(o.Name, groupPrefix):
			wants = wants || strings.TrimSpace(o.Value) != ""
		case o.Name == "isolated_cores":
			wants = wants || !plugin.IsNone(o.Value)
		}
	}
	return wants
}

// Follow applies a unit's rules to tasks that start after the unit was applied. When ctx ends, it
// restores the tasks that still run and returns nil. It sleeps until the kernel reports a new task
// (process connector, linux/cn_proc.h). Its changes are not in the journal: the values end with
// their tasks, and after kill -9 running tasks keep them.
//
// Groups apply to every matching task. Isolation applies only to new kernel threads: a new process
// inherits its affinity, and a process may choose isolated CPUs on purpose.
//
// kinds are the setting kinds that the machine is tuned with. failed, if not nil, is called for
// each value that could not be set.
func Follow(ctx context.Context, h *host.Host, kinds setting.Kinds, u profile.Unit, failed func(error)) error {
	u = Scheduler.ReadUnit(u, func(profile.Pos, string) {}) // the plan has printed the warnings
	if h.Sched == nil {
		return host.NotRecorded("tasks")
	}
	rs, err := readRules(u)
	if err != nil {
		return err
	}
	f := &follower{rules: rs, kinds: kinds, failed: failed, before: map[setting.Setting]setting.Value{}}
	f.request = &plugin.Request{Host: h, Kinds: kinds, Unit: u, Original: func(s setting.Setting) (setting.Value, error) {
		if v, ok := f.before[s]; ok {
			return v, nil
		}
		return kinds.Read(ctx, s)
	}}
	want := host.EventExec | host.EventComm
	if flag(f.request, "perf_process_fork", false) {
		f.forks = true
	}
	if o, ok := f.request.Option("isolated_cores"); ok && !plugin.IsNone(o.Value) && rs.kthreads {
		cpus, why, err := housekeepingCPUs(h, o.Value)
		if err == nil && why == "" {
			f.isolated, f.housekeeping = o, cpus
		}
	}
	if f.forks || !f.housekeeping.IsEmpty() {
		want |= host.EventFork
	}
	events, err := h.Sched.Events(ctx, want)
	if err != nil {
		return err
	}
	f.handle(ctx, host.TaskEvent{Kind: host.EventLost}) // covers tasks that started earlier
	for ev := range events {
		f.handle(ctx, ev)
	}
	f.restore()
	if ctx.Err() == nil {
		return errors.New("the kernel stopped sending process events")
	}
	return nil
}

// follower is the state of Follow.
type follower struct {
	rules
	request      *plugin.Request
	kinds        setting.Kinds
	failed       func(error)
	forks        bool
	isolated     profile.Option
	housekeeping unit.CPUSet                       // empty: kernel threads are not moved
	before       map[setting.Setting]setting.Value // values that tasks had before
}

// kthreadd is the parent of all kernel threads (kernel/kthread.c).
const kthreadd = 2

func (f *follower) handle(ctx context.Context, ev host.TaskEvent) {
	sched := f.request.Host.Sched
	if ev.Kind == host.EventLost {
		tasks, err := sched.Tasks()
		if err != nil {
			f.fail(err)
			return
		}
		for _, t := range tasks {
			f.task(ctx, t)
		}
		return
	}
	kernel := ev.Kind == host.EventFork && ev.Parent == kthreadd
	if ev.Kind == host.EventFork && !f.forks && !kernel {
		return
	}
	if kernel {
		// A kernel thread gets its name and CPUs shortly after its start (kernel/kthread.c
		// __kthread_create_on_node); no event reports that.
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t, err := sched.Task(ev.TID)
	if err != nil {
		return // it has ended already
	}
	f.task(ctx, t)
}

// task applies the rules to a single task.
func (f *follower) task(ctx context.Context, t host.Task) {
	var items []plugin.Item
	if g := f.groupOf(t); g != nil {
		more, err := planTask(f.request, &f.rules, g, t)
		if err != nil {
			f.fail(err)
		}
		items = append(items, more...)
	}
	if t.Kernel && !f.housekeeping.IsEmpty() && f.isolates(f.request.Host, t) {
		s := taskSetting(t.TaskID, affinityOf)
		if was, err := f.request.Original(s); err == nil && !was.Absent {
			if own, err := unit.ParseCPUList(was.Text); err == nil && !own.Minus(f.housekeeping).IsEmpty() {
				next := own.Intersect(f.housekeeping)
				if next.IsEmpty() {
					next = f.housekeeping
				}
				items = append(items, plugin.Want(s, next.String(), f.isolated))
			}
		}
	}
	for _, it := range items {
		if it.Verdict != "" {
			continue
		}
		s, v := it.Change.Setting, it.Change.Want
		now, err := f.kinds.Read(ctx, s)
		if err != nil || now.Absent || f.kinds.Equal(s, now, v) {
			continue
		}
		if err := f.kinds.Write(ctx, s, v); err != nil {
			if !errors.Is(err, host.ErrEnded) {
				f.fail(err)
			}
			continue
		}
		if _, known := f.before[s]; !known {
			f.forget(ctx)
			f.before[s] = now
		}
	}
}

// forget drops the tasks that have ended. It runs each time the number of tasks has doubled.
func (f *follower) forget(ctx context.Context) {
	if n := len(f.before); n < 1024 || n&(n-1) != 0 {
		return
	}
	for s := range f.before {
		if v, err := f.kinds.Read(ctx, s); err == nil && v.Absent {
			delete(f.before, s)
		}
	}
}

func (f *follower) restore() {
	ctx := context.Background()
	for s, v := range f.before {
		if now, err := f.kinds.Read(ctx, s); err == nil && !now.Absent {
			if err := f.kinds.Write(ctx, s, v); err != nil && !errors.Is(err, host.ErrEnded) {
				f.fail(err)
			}
		}
	}
}

func (f *follower) fail(err error) {
	if f.failed != nil {
		f.failed(err)
	}
}
