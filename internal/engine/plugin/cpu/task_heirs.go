package cpu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// newTasks is the affinity of future tasks: PID 1's, which they inherit. heirsOf is the same for
// the future threads and descendants of one process. Values include the time of the read.
var newTasks = setting.Setting{Kind: taskKind, Name: "new/" + affinityOf}

// inherited identifies tasks that started after a time and inherited an affinity.
type inherited struct {
	since uint64 // start time in clock ticks after boot
	cpus  unit.CPUSet
}

// ticksPerSecond is USER_HZ, the unit of times in /proc (time(7), "Jiffies").
const ticksPerSecond = 100

const at = " at "

// ancestor returns the process from which the tasks of newTasks or of an heirs setting inherit.
func (k *task) ancestor(s setting.Setting) (host.TaskID, unit.CPUSet, error) {
	var id host.TaskID
	if s == newTasks {
		one, err := k.host.Sched.Task(1)
		if err != nil {
			return id, unit.CPUSet{}, err
		}
		id = one.TaskID
	} else {
		var err error
		if id, _, err = parseTask(s); err != nil {
			return id, unit.CPUSet{}, err
		}
	}
	cpus, err := k.host.Sched.Affinity(id)
	return id, cpus, err
}

func (k *task) readHeirs(s setting.Setting) (setting.Value, error) {
	if left, err := k.leftovers(s); err != nil {
		return setting.Value{}, err
	} else if len(left) > 0 {
		return setting.Text(k.late[s].cpus.String()), nil
	}
	_, cpus, err := k.ancestor(s)
	if errors.Is(err, host.ErrEnded) {
		return setting.Absent, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	up, err := k.host.Clock.SinceBoot()
	if err != nil {
		return setting.Value{}, err
	}
	return setting.Text(fmt.Sprintf("%s%s%d", cpus, at, up*ticksPerSecond/time.Second)), nil
}

// writeHeirs restores an affinity for tasks that started after it was read and that have their
// ancestor's current one.
func (k *task) writeHeirs(s setting.Setting, text string) error {
	list, moment, ok := strings.Cut(text, at)
	cpus, err := unit.ParseCPUList(list)
	if err != nil {
		return err
	}
	id, now, err := k.ancestor(s)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("cannot set the affinity of process %d, which new tasks inherit, to %s", id.TID, cpus)
	}
	since, err := strconv.ParseUint(moment, 10, 64)
	if err != nil {
		return fmt.Errorf("%q: want a CPU list and a time", text)
	}
	k.mu.Lock()
	if k.late[s] == nil {
		if now.Equal(cpus) {
			k.mu.Unlock()
			return nil
		}
		if k.late == nil {
			k.late = map[setting.Setting]*inherited{}
		}
		k.late[s] = &inherited{since, now}
	}
	k.mu.Unlock()
	left, err := k.leftovers(s)
	for _, id := range left {
		if e := k.host.Sched.SetAffinity(id, cpus); e != nil && !errors.Is(e, host.ErrEnded) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// leftovers returns the tasks that still have the inherited affinity.
func (k *task) leftovers(s setting.Setting) ([]host.TaskID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	late := k.late[s]
	if late == nil {
		return nil, nil
	}
	id, now, errNow := k.ancestor(s)
	tasks, err := k.host.Sched.Tasks()
	ours := descendants(tasks, id.TID)
	var out []host.TaskID
	for _, t := range tasks {
		if t.Kernel || t.Zombie || t.Start < late.since || t.TaskID == id || s != newTasks && !ours[t.PID] {
			continue
		}
		if cpus, err := k.host.Sched.Affinity(t.TaskID); err == nil && cpus.Equal(late.cpus) {
			out = append(out, t.TaskID)
		}
	}
	if len(out) == 0 && errNow == nil && !now.Equal(late.cpus) {
		delete(k.late, s) // the ancestor is restored too: no more tasks will follow
	}
	return out, err
}

// descendants returns the process ids of a process and of its descendants.
func descendants(tasks []host.Task, pid int) map[int]bool {
	ours := map[int]bool{pid: true}
	for more := true; more; {
		more = false
		for _, t := range tasks {
			if ours[t.Parent] && !ours[t.PID] {
				ours[t.PID], more = true, true
			}
		}
	}
	return ours
}
