package host

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/unit"
)

// Sched accesses the tasks of the machine's CPU scheduler. A task is a thread; the id of the
// main thread is the process id. Calls for a task that has ended return ErrEnded.
type Sched interface {
	// Tasks lists all tasks, sorted by process id, then thread id.
	Tasks() ([]Task, error)
	// Task reads one task by its thread id.
	Task(tid int) (Task, error)
	// Affinity returns the online CPUs that a task may run on (sched_getaffinity(2)).
	Affinity(id TaskID) (unit.CPUSet, error)
	// SetAffinity sets the CPUs of a task. The set of all online CPUs means all CPUs,
	// including future ones.
	SetAffinity(id TaskID, cpus unit.CPUSet) error
	// Policy calls sched_getattr(2), and SetPolicy calls sched_setattr(2).
	Policy(id TaskID) (Policy, error)
	SetPolicy(id TaskID, p Policy) error
	// PageNodes returns the node of each page of a process, or a negative errno: -ENOENT for an
	// address without memory, -EACCES for a page that several processes map. Pages are given by
	// their addresses, at most MostPages.
	PageNodes(id TaskID, pages []uint64) ([]int32, error)
	// MovePages moves pages to the nodes (move_pages(2)). left is the number of pages at which the
	// kernel gave up: one that could not be moved, and those after it.
	MovePages(id TaskID, pages []uint64, nodes []int32) (left int, err error)
	// Events reports new and changed tasks without polling. The channel is closed when ctx
	// ends.
	Events(ctx context.Context, kinds EventKind) (<-chan TaskEvent, error)
}

// ErrEnded is returned for a task that has ended, even if its id is in use again.
var ErrEnded = fmt.Errorf("the task has ended")

// TaskID identifies a task uniquely: the kernel reuses thread ids, but not with the same start
// time.
type TaskID struct {
	TID int
	// Start is the start time in clock ticks after boot (proc_pid_stat(5), starttime).
	Start uint64
}

func (id TaskID) String() string { return fmt.Sprintf("%d@%d", id.TID, id.Start) }

// Task contains the kernel's information about one task.
type Task struct {
	TaskID
	PID    int    // process id
	Parent int    // process id of the parent
	Comm   string // name, at most 15 bytes
	// Cmdline is the command line of the process, separated by spaces. For kernel threads it
	// is the name in brackets, as in ps(1).
	Cmdline string
	Kernel  bool // a kernel thread
	Bound   bool // fixed to its CPUs by the kernel
	Zombie  bool
}

// Policy is the scheduling policy of a task (sched(7)).
type Policy struct {
	Name        string // other, batch, idle, fifo, rr, deadline, or a number
	Priority    int    // for fifo and rr: 1 to 99
	Nice        int    // -20 to 19; no effect under fifo and rr
	ResetOnFork bool   // children start as other
	// Runtime, Deadline and Period apply to deadline and are in nanoseconds.
	Runtime, Deadline, Period uint64
}

// EventKind is a set of task events.
type EventKind uint32

// The kinds of events (linux/cn_proc.h). EventLost is always reported.
const (
	EventFork EventKind = 1 << iota // a task was created
	EventExec                       // a process executed another program
	EventComm                       // a task changed its name
	EventLost                       // the queue overflowed
)

// TaskEvent is an event of one task.
type TaskEvent struct {
	Kind     EventKind
	PID, TID int
	Parent   int // for EventFork: process id of the creator
}

// noSched is the Sched of a copy.
type noSched struct{}

var errNoSched = NotRecorded("tasks")

func (noSched) Tasks() ([]Task, error)                                      { return nil, errNoSched }
func (noSched) Task(int) (Task, error)                                      { return Task{}, errNoSched }
func (noSched) Affinity(TaskID) (unit.CPUSet, error)                        { return unit.CPUSet{}, errNoSched }
func (noSched) SetAffinity(TaskID, unit.CPUSet) error                       { return errNoSched }
func (noSched) Policy(TaskID) (Policy, error)                               { return Policy{}, errNoSched }
func (noSched) SetPolicy(TaskID, Policy) error                              { return errNoSched }
func (noSched) PageNodes(TaskID, []uint64) ([]int32, error)                 { return nil, errNoSched }
func (noSched) MovePages(TaskID, []uint64, []int32) (int, error)            { return 0, errNoSched }
func (noSched) Events(context.Context, EventKind) (<-chan TaskEvent, error) { return nil, errNoSched }
