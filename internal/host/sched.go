package host

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/unit"
)

// Sched is the machine's tasks as its CPU scheduler sees them. A task is a
// thread; the main thread of a process has the process's number. Every call
// about a task that has ended returns ErrEnded.
type Sched interface {
	// Tasks lists every task, by number of process and then of thread.
	Tasks() ([]Task, error)
	// Task reads one task by its thread number.
	Task(tid int) (Task, error)
	// Affinity is the set of online CPUs that a task may run on
	// (sched_getaffinity(2)).
	Affinity(id TaskID) (unit.CPUSet, error)
	// SetAffinity gives a task its CPUs. A set that holds every CPU that is
	// online means all, CPUs that come later included.
	SetAffinity(id TaskID, cpus unit.CPUSet) error
	// Policy and SetPolicy are sched_getattr(2) and sched_setattr(2).
	Policy(id TaskID) (Policy, error)
	SetPolicy(id TaskID, p Policy) error
	// Events tells of tasks as they begin, without asking again and again,
	// until ctx ends; then the channel is closed.
	Events(ctx context.Context, kinds EventKind) (<-chan TaskEvent, error)
}

// ErrEnded says that a task is not there any more, or that its number is
// another task's by now.
var ErrEnded = fmt.Errorf("the task has ended")

// TaskID is one task for ever: the kernel gives numbers to new tasks again, but
// not with the same moment of start.
type TaskID struct {
	TID int
	// Start is when it began, in clock ticks after boot (proc_pid_stat(5),
	// starttime).
	Start uint64
}

func (id TaskID) String() string { return fmt.Sprintf("%d@%d", id.TID, id.Start) }

// Task is what the kernel tells of one task.
type Task struct {
	TaskID
	PID    int    // the process
	Parent int    // the process that is told when this one ends
	Comm   string // its own name, at most 15 bytes
	// Cmdline is the process's command line with spaces, or the name in
	// brackets where there is none (kernel threads), as ps(1) prints it.
	Cmdline string
	Kernel  bool // a kernel thread
	Bound   bool // to its CPUs by the kernel: nobody can move it
	Zombie  bool
}

// Policy is how a task is scheduled (sched(7)).
type Policy struct {
	Name        string // other, batch, idle, fifo, rr, deadline, or a number
	Priority    int    // of fifo and rr: 1 to 99
	Nice        int    // -20 to 19; kept, without effect, by fifo and rr
	ResetOnFork bool   // children begin as other
	// Runtime, Deadline and Period of deadline, in nanoseconds.
	Runtime, Deadline, Period uint64
}

// EventKind is a set of what can happen to tasks.
type EventKind uint32

// What Events can tell of (linux/cn_proc.h). EventLost comes by itself.
const (
	EventFork EventKind = 1 << iota // a task has begun
	EventExec                       // a process runs another program
	EventComm                       // a task has another name
	EventLost                       // some events did not fit into the queue
)

// TaskEvent is one event.
type TaskEvent struct {
	Kind     EventKind
	PID, TID int
	Parent   int // of EventFork: the process that began it
}

// noSched is a machine without a running kernel: a copy.
type noSched struct{}

var errNoSched = NotRecorded("tasks")

func (noSched) Tasks() ([]Task, error)                                      { return nil, errNoSched }
func (noSched) Task(int) (Task, error)                                      { return Task{}, errNoSched }
func (noSched) Affinity(TaskID) (unit.CPUSet, error)                        { return unit.CPUSet{}, errNoSched }
func (noSched) SetAffinity(TaskID, unit.CPUSet) error                       { return errNoSched }
func (noSched) Policy(TaskID) (Policy, error)                               { return Policy{}, errNoSched }
func (noSched) SetPolicy(TaskID, Policy) error                              { return errNoSched }
func (noSched) Events(context.Context, EventKind) (<-chan TaskEvent, error) { return nil, errNoSched }
