package prove

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/peak"
	"fettle.dev/fettle/internal/stats"
)

// The metrics that every command has.
var builtin = map[string]Metric{
	"time":       {Name: "time", Unit: "s"},           // from its start to its end
	"cpu-time":   {Name: "cpu-time", Unit: "s"},       // user and system, of it and its children
	"max-memory": {Name: "max-memory", Unit: "bytes"}, // largest resident set of one process
}

// Builtin is a metric that every command has.
func Builtin(name string) (Metric, bool) { m, ok := builtin[name]; return m, ok }

// Printed is a metric that the command prints.
type Printed struct {
	Name string
	// Number finds it: the first group, or all of the match, is the number.
	Number *regexp.Regexp
	// Percentile reduces the numbers where there are several to one: 0 to 100. Below
	// 0 it is the last one.
	Percentile float64
}

// thousands is a number with commas between its thousands.
var thousands = regexp.MustCompile(`^\d{1,3}(,\d{3})+(\.\d*)?$`)

// pattern is Number as it was asked for, without the flag for lines.
func (p Printed) pattern() string { return strings.TrimPrefix(p.Number.String(), "(?m)") }

// find reads the metric from what was printed.
func (p Printed) find(text []byte) (float64, []float64, error) {
	var all []float64
	for _, m := range p.Number.FindAllSubmatch(text, -1) {
		word := m[0]
		if len(m) > 1 {
			word = m[1]
		}
		text := string(word)
		if thousands.MatchString(text) {
			text = strings.ReplaceAll(text, ",", "")
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0, nil, fmt.Errorf("%s: %q, which %s finds, is no number (as 1234.5 or 1,234.5)", p.Name, word, p.pattern())
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return 0, nil, fmt.Errorf("%s does not appear in what the command prints: nothing is like %s", p.Name, p.pattern())
	}
	if p.Percentile < 0 {
		return all[len(all)-1], nil, nil
	}
	return stats.Quantile(all, p.Percentile/100), all, nil
}

// Command is a program as the work.
type Command struct {
	Args    []string
	Metrics []Printed
	Timeout time.Duration // of one visit; 0: none
	Dir     string        // in which it is started
	Clock   interface{ Now() time.Time }
	// Mark is in the environment of all that it starts.
	Mark string
	// Memory is true where max-memory is asked for; nobody else's work gets a process
	// more before it.
	Memory bool

	starter *peak.Starter // of the work whose memory is asked for; nil where there is none
}

// Check looks whether there is such a program.
func (c *Command) Check(context.Context) error {
	if _, err := exec.LookPath(c.Args[0]); err != nil {
		return fmt.Errorf("the work cannot be started: %w", err)
	}
	return nil
}

// measureMemory puts a starter before the command, if its memory is asked for and one can
// be had; else it returns nil.
func (c *Command) measureMemory(cmd *exec.Cmd) (*peak.Started, error) {
	if !c.Memory {
		return nil, nil
	}
	if c.starter == nil {
		s, err := peak.New()
		if err != nil {
			return nil, nil // above fettle's own memory it can be told all the same
		}
		c.starter = s
	}
	return c.starter.Put(cmd)
}

// most is how much of a command's output is kept, in bytes.
const most = 64 << 20

// Visit runs the command once. It ends with all that it has started.
func (c *Command) Visit(ctx context.Context, _ Step) (m Measurement, err error) {
	// The death of the thread that has started a process counts as that of the parent
	// (PR_SET_PDEATHSIG, prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it did not end within %v", c.Timeout))
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
	brood, err := host.TrackDescendants()
	if err != nil {
		return m, err
	}
	began := c.Clock.Now()
	if err = cmd.Start(); err == nil {
		err = host.AwaitExit(ctx, cmd.Wait)
	}
	took := c.Clock.Now().Sub(began)
	if errors.Is(err, host.ErrUnkillable) {
		return m, fmt.Errorf("%w (process %d)", err, cmd.Process.Pid)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left behind
	}
	// And what has a session of its own would load the next runs.
	if left := errors.Join(brood.Kill(), host.KillTagged(c.Mark)); left != nil {
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
		if last := talk.end(out); last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return m, err
	}
	v := Values{"time": took.Seconds(), "cpu-time": (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if c.Memory {
		v["max-memory"] = float64(memory)
	}
	for i, p := range c.Metrics {
		if out.over {
			return m, fmt.Errorf("the command printed more than %d MiB: let it print less", most>>20)
		}
		value, all, err := p.find(append(out.text, talk.text...))
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

// peakOf is the largest resident set of a command that has ended, in bytes. Without a
// starter its figure begins with that of this process, and below it nothing is known.
func peakOf(started *peak.Started, cmd *exec.Cmd) (int64, error) {
	if started != nil {
		return started.Peak()
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, err
	}
	use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	// The kernel's count of pages is exact to some for each CPU (percpu_counter), which
	// is why one that is hardly larger is none.
	if floor := own.Maxrss + own.Maxrss/8; !ok || use.Maxrss <= floor {
		return 0, fmt.Errorf("max-memory cannot be told here of work that takes less than fettle itself (%d MiB): measure it with /usr/bin/time -f %%M and --metric 'kib=^(\\d+)$'", floor>>10)
	}
	return use.Maxrss * 1024, nil
}

// limited keeps the beginning of what is written to it.
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

// end is the last line that a command has said, or printed.
func (l *limited) end(out limited) string {
	for _, text := range [][]byte{l.text, out.text} {
		if text = bytes.TrimSpace(text); len(text) > 0 {
			line := text[bytes.LastIndexByte(text, '\n')+1:]
			return string(line[:min(len(line), 300)])
		}
	}
	return ""
}

// Commands are a change by two commands of the administrator's: neither knows of the
// journal, so that the machine is as before only if the second one makes it so.
type Commands struct {
	ApplyWith, UndoWith string // for sh -c
	Dir                 string // in which they are started
	// Mark is in the environment of the first one, and of all that it starts.
	Mark string
	// End ends what bears the mark: an APPLY that was cut off must not go on beside
	// UNDO.
	End func(mark string) error
	// Timeout is how long each of them may take.
	Timeout time.Duration
	// Applying is called with true before the first one begins and with false when
	// it has ended.
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

// Placebo runs the second command, which finds nothing to undo.
func (c *Commands) Placebo(ctx context.Context) error { return c.shell(ctx, c.UndoWith) }

func (c *Commands) shell(ctx context.Context, command string, env ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s: it did not end within %v", command, c.Timeout))
	defer cancel()
	err := Shell(ctx, command, c.Dir, env...)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Holds cannot tell.
func (c *Commands) Holds(context.Context, Arm) error { return nil }

// Shell runs a command of the administrator's in his own environment and directory.
// What it leaves in the background may stay.
func Shell(ctx context.Context, command, dir string, env ...string) error {
	said, err := os.CreateTemp("", "fettle-*") // a pipe would be waited for as long as anybody has it
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
	// Ctrl-C is for fettle, which then undoes; it must not cut that off.
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
		return fmt.Errorf("%s: %w: %s", command, err, last.end(limited{}))
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
