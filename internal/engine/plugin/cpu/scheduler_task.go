package cpu

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// taskKind is the setting kind of task attributes: task:TID@START/affinity (a CPU list), /policy
// and /cpuset (its control group of version 1). START is the start time in clock ticks after boot,
// so a later task with the same number is never changed. task:new/affinity is for future tasks.
// Of processes: /pages (memory by node) and /heirs (the affinity of future threads and children).
const taskKind = "task"

// Attributes of a task.
const (
	affinityOf = "affinity"
	policyOf   = "policy"
	cpusetOf   = "cpuset"
	pagesOf    = "pages"
	heirsOf    = "heirs"
)

func taskSetting(id host.TaskID, attribute string) setting.Setting {
	return setting.Setting{Kind: taskKind, Name: id.String() + "/" + attribute}
}

func parseTask(s setting.Setting) (id host.TaskID, attribute string, err error) {
	name, attribute, ok := strings.Cut(s.Name, "/")
	number, start, ok2 := strings.Cut(name, "@")
	bad := fmt.Errorf("%s: want task:NUMBER@START/affinity, /policy, /cpuset, /pages or /heirs", s)
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
	case affinityOf, policyOf, cpusetOf, pagesOf, heirsOf:
		return id, attribute, nil
	}
	return id, "", bad
}

// task is the setting kind of task attributes.
type task struct {
	host *host.Host

	mu sync.Mutex
	// late are the affinities that were last reverted, for tasks started during the revert.
	late map[setting.Setting]*inherited
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
		return k.readHeirs(s)
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
	case pagesOf:
		var spread Spread
		spread, err = ReadSpread(k.host, id)
		text = spread.String()
	case heirsOf:
		return k.readHeirs(s)
	}
	if errors.Is(err, host.ErrEnded) {
		return setting.Absent, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	return setting.Text(text), nil
}

func (k *task) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	if k.host.Sched == nil {
		return host.NotRecorded("tasks")
	}
	if v.Absent {
		return fmt.Errorf("%s: a task's attributes cannot be removed", s)
	}
	if s == newTasks {
		return k.writeHeirs(s, v.Text)
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
	case pagesOf:
		spread, err := ParseSpread(v.Text)
		if err != nil {
			return err
		}
		return moveTo(ctx, k.host, id, spread)
	case heirsOf:
		return k.writeHeirs(s, v.Text)
	}
	return moveTask(k.host, id, v.Text)
}

// Equal compares CPU lists by their CPUs and ignores the time. It compares the memory by node by
// shares, and other values as text.
func (k *task) Equal(a, b setting.Value) bool {
	x, _, _ := strings.Cut(a.Text, at)
	y, _, _ := strings.Cut(b.Text, at)
	if x == y {
		return true
	}
	if strings.Contains(x, "kB") {
		p, err := ParseSpread(x)
		q, err2 := ParseSpread(y)
		return err == nil && err2 == nil && 100*p.Away(q) <= sameSpreadPercent
	}
	return sameCPUs(x, y)
}

func (k *task) Coupled(setting.Setting) []setting.Setting { return nil }
func (k *task) Lifetime() setting.Lifetime                { return setting.Runtime }

// Transient marks the setting as transient: a task ends by itself.
func (k *task) Transient() {}
