package prove

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/peak"
	"fettle.dev/fettle/internal/stats"
	internaltext "fettle.dev/fettle/internal/text"
)

// builtin are the metrics of every command.
var builtin = map[string]Metric{
	"time":       {Name: "time", Unit: "s"},           // elapsed
	"cpu-time":   {Name: "cpu-time", Unit: "s"},       // user and system, including children
	"max-memory": {Name: "max-memory", Unit: "bytes"}, // largest resident set of one process
	"energy":     {Name: "energy", Unit: "J"},         // of all processor packages and their memory
	// in user mode, including children; varies less than times
	"instructions": {Name: "instructions"},
}

// Builtin returns a metric of every command by name.
func Builtin(name string) (Metric, bool) { m, ok := builtin[name]; return m, ok }

// Command is a Workload that runs a command.
type Command struct {
	Args    []string
	Metrics []Printed
	Timeout time.Duration // of one sample; 0: no limit
	Late    error         // returned if a sample exceeds Timeout; may be nil
	Dir     string        // working directory; "": that of this process
	Clock   interface{ Now() time.Time }
	// Mark is the tag in the environment of all processes of the command.
	Mark string
	// Memory requests max-memory, which starts the command through another process.
	Memory bool
	// Energy measures the metric energy; nil if it is not requested.
	Energy Energy
	// Instructions requests instructions, which needs a hardware counter.
	Instructions bool

	starter *peak.Starter // measures the memory; nil if not available
}

// Check returns an error if the program does not exist.
func (c *Command) Check(context.Context) error {
	name := c.Args[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) && c.Dir != "" {
		name = filepath.Join(c.Dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("cannot start the measured command: %w", err)
	}
	return nil
}

// measureMemory adds a starter to the command if memory is requested and a starter is available.
// Otherwise it returns nil.
func (c *Command) measureMemory(cmd *exec.Cmd) (*peak.Started, error) {
	if !c.Memory {
		return nil, nil
	}
	if c.starter == nil {
		s, err := peak.New()
		if err != nil {
			return nil, nil // without a starter peakOf can measure commands larger than fettle
		}
		c.starter = s
	}
	return c.starter.Put(cmd)
}

// Energy measures the energy of work, as power.Energy does. Programs without the metric do not link
// that package.
type Energy interface {
	// During returns the energy in joules, or 0 if it was not counted.
	During(work func() error) (joules float64, err error)
	// Why returns why the energy is unknown, or "".
	Why() string
}

// most is the maximum output kept of a command, in bytes.
const most = 64 << 20

// Measure runs the command once. Then it kills all processes that the command left.
func (c *Command) Measure(ctx context.Context, _ Step) (m Measurement, err error) {
	// PR_SET_PDEATHSIG (prctl(2)) takes effect when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, cmp.Or(c.Late, fmt.Errorf("the command did not finish within %v", c.Timeout)))
		defer cancel()
	}
	var out, talk limited
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), host.EnvTag(c.Mark))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	started, err := c.measureMemory(cmd)
	if err != nil {
		return m, err
	}
	if started != nil {
		defer started.Close()
	}
	descendants, err := host.TrackDescendants()
	if err != nil {
		return m, err
	}
	counter := (*host.Counter)(nil)
	if c.Instructions {
		if counter, err = host.CountInstructions(); err != nil {
			return m, err
		}
		defer counter.Close()
	}
	began := c.Clock.Now()
	joules, err := c.withEnergy(func() error {
		err := cmd.Start()
		if err == nil {
			err = host.AwaitExit(ctx, cmd.Wait)
		}
		return err
	})
	took := c.Clock.Now().Sub(began)
	if errors.Is(err, host.ErrUnkillable) {
		return m, fmt.Errorf("%w (process %d)", err, cmd.Process.Pid)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // remaining processes of the group
	}
	// Processes in other sessions would load the next runs.
	if left := errors.Join(descendants.Kill(), host.KillTagged(c.Mark)); left != nil {
		return m, left
	}
	if cause := context.Cause(ctx); cause != nil {
		return m, cause
	}
	memory := int64(0)
	if err == nil && c.Memory {
		memory, err = peakOf(started, cmd)
	}
	if err != nil {
		return m, talk.explain(err, out)
	}
	user, system := cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime()
	v := Values{"time": took.Seconds(), "cpu-time": (user + system).Seconds(), "user-time": user.Seconds(), "system-time": system.Seconds()}
	if c.Memory {
		v["max-memory"] = float64(memory)
	}
	if counter != nil {
		if v["instructions"], err = counter.Read(); err != nil {
			return m, err
		}
	}
	if c.Energy != nil {
		if v["energy"], err = joules, energyError(c.Energy, joules); err != nil {
			return m, err
		}
	}
	for i, p := range c.Metrics {
		if out.over {
			return m, internaltext.Errorf("the command printed more than %d MiB; reduce its output", most>>20)
		}
		value, all, err := p.find(out.text, talk.text)
		if err != nil {
			return m, err
		}
		v[p.Name] = value
		if i == 0 && len(all) > 1 {
			s := stats.Summarize(all)
			m.Within = &s
		}
	}
	m.Values = v
	return m, nil
}

// withEnergy runs work and returns its energy in joules, or 0 without the metric energy.
func (c *Command) withEnergy(work func() error) (float64, error) {
	if c.Energy == nil {
		return 0, work()
	}
	return c.Energy.During(work)
}

// energyError returns an error if the energy of a run is not known.
func energyError(e Energy, joules float64) error {
	if why := e.Why(); why != "" {
		return errors.New("cannot measure energy: " + why)
	}
	if joules == 0 {
		return errors.New("cannot measure energy: the RAPL counters did not change during the run; the run must take longer than a millisecond, and most virtual machines have no counters")
	}
	return nil
}

// peakOf returns the largest resident set of an ended command, in bytes. Without a starter the
// kernel's figure includes this process, so small values are unknown.
func peakOf(started *peak.Started, cmd *exec.Cmd) (int64, error) {
	if started != nil {
		return started.Peak()
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, err
	}
	use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	// The kernel's count of pages has an error per CPU (percpu_counter), so a value slightly
	// above the floor is unknown too.
	if floor := own.Maxrss + own.Maxrss/8; !ok || use.Maxrss <= floor {
		return 0, internaltext.Errorf("cannot measure max-memory below fettle's own memory (%d MiB) on this machine; use /usr/bin/time -f %%M and --metric 'kib=^(\\d+)$'", floor>>10)
	}
	return use.Maxrss * 1024, nil
}

// limited keeps the first bytes that are written to it.
type limited struct {
	text []byte
	over bool
}

func (l *limited) Write(b []byte) (int, error) {
	keep := min(len(b), most-len(l.text))
	l.text = append(l.text, b[:keep]...)
	l.over = l.over || keep < len(b)
	return len(b), nil
}

// end returns the last line of a command's messages, or of its output if it printed no messages.
func (l *limited) end(out limited) string {
	for _, text := range [][]byte{l.text, out.text} {
		if text = bytes.TrimSpace(text); len(text) > 0 {
			line := text[bytes.LastIndexByte(text, '\n')+1:]
			return string(line[:min(len(line), 300)])
		}
	}
	return ""
}

// explain adds the last line of the output to an error of the command.
func (l *limited) explain(err error, out limited) error {
	if last := l.end(out); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// Commands is a change by two of the administrator's commands. They do not use the journal; only
// the second command can restore the machine.
type Commands struct {
	ApplyWith, UndoWith string // for sh -c
	Dir                 string // working directory
	// Mark is the tag in the environment of the first command and its descendants.
	Mark string
	// End kills the tagged processes: an interrupted ApplyWith must not run concurrently with
	// UndoWith.
	End func(mark string) error
	// Timeout limits each command.
	Timeout time.Duration
	// Applying is called with true before the first command starts, and with false after it has
	// ended.
	Applying func(bool) error
}

// Apply runs the first command.
func (c *Commands) Apply(ctx context.Context) error {
	if err := c.Applying(true); err != nil {
		return err
	}
	err := c.shell(ctx, c.ApplyWith, host.EnvTag(c.Mark))
	if err != nil {
		err = errors.Join(err, c.End(c.Mark))
	}
	return errors.Join(err, c.Applying(false))
}

// Undo runs the second command.
func (c *Commands) Undo(ctx context.Context) error { return c.shell(ctx, c.UndoWith) }

func (c *Commands) shell(ctx context.Context, command string, env ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s: did not finish within %v", command, c.Timeout))
	defer cancel()
	err := Shell(ctx, command, c.Dir, env...)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Holds returns nil, because it is unknown whether a command's effect persists.
func (c *Commands) Holds(context.Context, Arm) error { return nil }

// Shell runs an administrator's command in the given directory, with env added to the environment.
// It does not kill background processes that the command leaves.
func Shell(ctx context.Context, command, dir string, env ...string) error {
	said, err := os.CreateTemp("", "fettle-*") // a pipe must be read until all its writers end
	if err != nil {
		return err
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	// Ctrl-C must reach only fettle, which then undoes the change.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	if err == nil {
		err = host.AwaitExit(ctx, cmd.Wait)
	}
	if err != nil {
		text := make([]byte, 4096)
		n, _ := said.ReadAt(text, max(0, size(said)-int64(len(text))))
		last := limited{text: text[:n]}
		return fmt.Errorf("%s: %w", command, last.explain(err, limited{}))
	}
	return nil
}

func size(f *os.File) int64 {
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}
