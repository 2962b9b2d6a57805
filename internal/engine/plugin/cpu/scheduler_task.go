package cpu

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// taskKind is the setting kind of task attributes: task:TID@START/affinity (a CPU list), /policy
// and /cpuset (its control group of version 1). START is the start time in clock ticks after boot,
// so a later task with the same number is never changed. task:new/affinity is for future tasks.
const taskKind = "task"

// Attributes of a task.
const (
	affinityOf = "affinity"
	policyOf   = "policy"
	cpusetOf   = "cpuset"
)

// newTasks is the affinity of future tasks: PID 1's, which they inherit. Its value includes the
// time of the read.
var newTasks = setting.Setting{Kind: taskKind, Name: "new/" + affinityOf}

func taskSetting(id host.TaskID, attribute string) setting.Setting {
	return setting.Setting{Kind: taskKind, Name: id.String() + "/" + attribute}
}

func parseTask(s setting.Setting) (id host.TaskID, attribute string, err error) {
	name, attribute, ok := strings.Cut(s.Name, "/")
	number, start, ok2 := strings.Cut(name, "@")
	bad := fmt.Errorf("%s: want task:NUMBER@START/affinity, /policy or /cpuset", s)
	if !ok || !ok2 {
		return id, "", bad
	}
	var errStart error
	id.TID, err = strconv.Atoi(number)
	id.Start, errStart = strconv.ParseUint(start, 10, 64)
	if err != nil || errStart != nil || id.TID < 1 || id.String() != name {
		return id, "", bad
	}
	switch attribute {
	case affinityOf, policyOf, cpusetOf:
		return id, attribute, nil
	}
	return id, "", bad
}

// task is the setting kind of task attributes.
type task struct {
	host *host.Host

	mu sync.Mutex
	// late is the affinity that was last reverted, for tasks started during the revert; nil for
	// none.
	late *inherited
}

// inherited identifies tasks that started after a time and inherited an affinity from PID 1.
type inherited struct {
	since uint64 // start time in clock ticks after boot
	cpus  unit.CPUSet
}

// SchedulerKinds returns the setting kinds that this plug-in adds.
func SchedulerKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{taskKind: &task{host: h}, cgroupKind: cgroup{h}, mountKind: cgroupMount{h}, sliceKind: slice{h}}
}

func (k *task) Resolve(s setting.Setting) (setting.Setting, error) {
	if s == newTasks {
		return s, nil
	}
	_, _, err := parseTask(s)
	return s, err
}

func (k *task) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	if k.host.Sched == nil {
		return setting.Value{}, host.NotRecorded("tasks")
	}
	if s == newTasks {
		return k.readNew()
	}
	id, attribute, err := parseTask(s)
	if err != nil {
		return setting.Value{}, err
	}
	var text string
	switch attribute {
	case affinityOf:
		var cpus unit.CPUSet
		cpus, err = k.host.Sched.Affinity(id)
		text = cpus.String()
	case policyOf:
		var p host.Policy
		p, err = k.host.Sched.Policy(id)
		text = policyText(p)
	case cpusetOf:
		text, err = cpusetOfTask(k.host, id)
	}
	if errors.Is(err, host.ErrEnded) {
		return setting.Absent, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	return setting.Text(text), nil
}

func (k *task) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	if k.host.Sched == nil {
		return host.NotRecorded("tasks")
	}
	if v.Absent {
		return fmt.Errorf("%s: a task's attributes cannot be removed", s)
	}
	if s == newTasks {
		return k.writeNew(v.Text)
	}
	id, attribute, err := parseTask(s)
	if err != nil {
		return err
	}
	switch attribute {
	case affinityOf:
		cpus, err := unit.ParseCPUList(v.Text)
		if err != nil {
			return err
		}
		return k.host.Sched.SetAffinity(id, cpus)
	case policyOf:
		p, err := parsePolicy(v.Text)
		if err != nil {
			return err
		}
		return k.host.Sched.SetPolicy(id, p)
	}
	return moveTask(k.host, id, v.Text)
}

// ticksPerSecond is USER_HZ, the unit of times in /proc (time(7), "Jiffies").
const ticksPerSecond = 100

const at = " at "

func (k *task) readNew() (setting.Value, error) {
	if left, err := k.leftovers(); err != nil {
		return setting.Value{}, err
	} else if len(left) > 0 {
		return setting.Text(k.late.cpus.String()), nil
	}
	_, cpus, err := k.init()
	if err != nil {
		return setting.Value{}, err
	}
	up, err := k.host.Clock.SinceBoot()
	if err != nil {
		return setting.Value{}, err
	}
	return setting.Text(fmt.Sprintf("%s%s%d", cpus, at, up*ticksPerSecond/time.Second)), nil
}

func (k *task) init() (host.TaskID, unit.CPUSet, error) {
	one, err := k.host.Sched.Task(1)
	if err != nil {
		return host.TaskID{}, unit.CPUSet{}, err
	}
	cpus, err := k.host.Sched.Affinity(one.TaskID)
	return one.TaskID, cpus, err
}

// writeNew restores an affinity for tasks that started after it was read and that have PID 1's
// current one.
func (k *task) writeNew(text string) error {
	list, moment, ok := strings.Cut(text, at)
	cpus, err := unit.ParseCPUList(list)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("cannot set the affinity of PID 1, which new tasks inherit, to %s", cpus)
	}
	since, err := strconv.ParseUint(moment, 10, 64)
	if err != nil {
		return fmt.Errorf("%q: want a CPU list and a time", text)
	}
	k.mu.Lock()
	if k.late == nil {
		_, now, err := k.init()
		if err != nil || now.Equal(cpus) {
			k.mu.Unlock()
			return err
		}
		k.late = &inherited{since, now}
	}
	k.mu.Unlock()
	left, err := k.leftovers()
	for _, id := range left {
		if e := k.host.Sched.SetAffinity(id, cpus); e != nil && !errors.Is(e, host.ErrEnded) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// leftovers returns the tasks that still have the inherited affinity.
func (k *task) leftovers() ([]host.TaskID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.late == nil {
		return nil, nil
	}
	tasks, err := k.host.Sched.Tasks()
	var out []host.TaskID
	for _, t := range tasks {
		if t.Kernel || t.Zombie || t.Start < k.late.since {
			continue
		}
		if cpus, err := k.host.Sched.Affinity(t.TaskID); err == nil && cpus.Equal(k.late.cpus) {
			out = append(out, t.TaskID)
		}
	}
	if len(out) == 0 {
		if _, now, err := k.init(); err == nil && !now.Equal(k.late.cpus) {
			k.late = nil // PID 1 is restored too: no more tasks will follow
		}
	}
	return out, err
}

// Equal compares CPU lists by their CPUs and ignores the time. It compares other values as text.
func (k *task) Equal(a, b setting.Value) bool {
	x, _, _ := strings.Cut(a.Text, at)
	y, _, _ := strings.Cut(b.Text, at)
	if x == y {
		return true
	}
	p, err := unit.ParseCPUList(x)
	q, err2 := unit.ParseCPUList(y)
	return err == nil && err2 == nil && p.Equal(q)
}

func (k *task) Coupled(setting.Setting) []setting.Setting { return nil }
func (k *task) Lifetime() setting.Lifetime                { return setting.Runtime }

// Transient marks the setting as transient: a task ends by itself.
func (k *task) Transient() {}
