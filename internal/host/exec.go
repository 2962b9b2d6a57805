package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Exec runs programs of the machine. A copy never runs anything: it replays
// what was recorded, or returns ErrNotRecorded.
type Exec interface {
	// Run runs a program to its end. A non-zero exit is a Result, not an
	// error; an error means that the program did not run or was ended.
	Run(ctx context.Context, c Command) (Result, error)
	// LookPath finds a program as Run would; fs.ErrNotExist if there is none.
	LookPath(name string) (string, error)
}

// Command is one program call. No shell is involved.
type Command struct {
	Argv  []string
	Env   []string // added to a minimal environment: "NAME=value"
	Dir   string   // working directory; "/" when empty
	Stdin []byte
	// Stdout gets what the program prints as it prints it; nil: Result keeps it.
	Stdout io.Writer
	// Timeout ends the program and its children; 0 means one minute.
	Timeout time.Duration
	// DiesWithCaller kills the program at once when the caller is killed, so
	// that it does not go on beside the undo of what it was to do. The programs
	// that it has started itself are not reached: those of a script may be meant
	// to stay. Ender finds them by their mark.
	DiesWithCaller bool
	// Tag is put into the environment of the program, and so of all that it
	// starts; empty for none.
	Tag string
	// As is the user that runs it; nil is the one that fettle runs as.
	As *User
	// Sandbox is the view of the machine that it runs with; nil for the machine itself.
	Sandbox *Sandbox
}

// User is who runs a program: without supplementary groups.
type User struct{ UID, GID uint32 }

func (c Command) String() string { return strings.Join(c.Argv, " ") }

// Result is what a program left.
type Result struct {
	Stdout, Stderr []byte
	ExitCode       int
	// ReadBytes is what the program, its threads and the children that it has waited
	// for fetched from storage, and not from the page cache (ru_inblock of wait4(2),
	// which is read_bytes of /proc/PID/io); of a recorded command 0.
	ReadBytes int64
}

// commandPath is what programs are looked up in: the administrator's tools,
// never the caller's PATH, because fettle runs as root.
var commandPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// NotStartedError is the error of a program that the kernel did not start: it has
// no interpreter, or is no program at all. Nothing of it has been run.
type NotStartedError struct{ Err error }

func (e *NotStartedError) Error() string { return e.Err.Error() }
func (e *NotStartedError) Unwrap() error { return e.Err }

// liveExec runs programs of this machine; root is where its root is mounted, ""
// where that is this process's own.
type liveExec struct{ root string }

func (e liveExec) LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, e.executable(name)
	}
	for _, dir := range commandPath {
		p := path.Join(dir, name)
		if e.executable(p) == nil {
			return p, nil
		}
	}
	return "", &fs.PathError{Op: "look up", Path: name, Err: fs.ErrNotExist}
}

func (e liveExec) executable(p string) error {
	st, err := e.stat(p)
	if err != nil {
		return err
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "execute", Path: p, Err: fs.ErrPermission}
	}
	return nil
}

func (e liveExec) stat(p string) (fs.FileInfo, error) {
	if e.root == "" {
		return os.Stat(p)
	}
	return rootedFiles{e.root}.Stat(p)
}

func (e liveExec) Run(ctx context.Context, c Command) (Result, error) {
	switch {
	case len(c.Argv) == 0:
		return Result{}, errors.New("empty command")
	case c.Sandbox != nil && e.root != "":
		return Result{}, fmt.Errorf("%s: a machine that is mounted at %s has no private view", c, e.root)
	case c.Sandbox != nil:
		return inSandbox(c.Sandbox, c.As, func() (Result, error) { return e.run(ctx, c) })
	}
	return e.run(ctx, c)
}

func (e liveExec) run(ctx context.Context, c Command) (Result, error) {
	prog, err := e.LookPath(c.Argv[0])
	if err != nil {
		return Result{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, prog, c.Argv[1:]...)
	cmd.Env = append([]string{"PATH=" + strings.Join(commandPath, ":"), "LC_ALL=C", "HOME=/root"}, c.Env...)
	if c.Tag != "" {
		cmd.Env = append(cmd.Env, tagVariable+"="+c.Tag)
	}
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	// The whole process group goes on a timeout, and a grandchild that keeps
	// the pipe open cannot hold us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: e.root}
	if c.Sandbox != nil {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID // all that it starts ends with it
	}
	if c.As != nil && c.As.UID != uint32(os.Geteuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.As.UID, Gid: c.As.GID}
	}
	if c.DiesWithCaller {
		// The kernel sends the signal when the thread that started the program
		// ends (PR_SET_PDEATHSIG(2const)), so this one has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	if err = cmd.Start(); err == nil {
		err = AwaitExit(ctx, cmd.Wait)
	}
	if errors.Is(err, ErrUnkillable) {
		return Result{}, fmt.Errorf("%s: %w (process %d, as ps shows it)", c, err, cmd.Process.Pid)
	}
	res := Result{Stdout: out.Bytes(), Stderr: errOut.Bytes()}
	if cmd.ProcessState != nil {
		res.ExitCode = cmd.ProcessState.ExitCode()
		if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			res.ReadBytes = use.Inblock * 512
		}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return res, fmt.Errorf("%s: ended after %v without an answer", c, timeout)
		}
		return res, fmt.Errorf("%s: %w", c, ctx.Err())
	case cmd.Process == nil:
		return res, &NotStartedError{fmt.Errorf("%s: %w", c, err)}
	case errors.Is(err, exec.ErrWaitDelay):
		return res, nil // the program itself ended well; a child kept its output open
	case errors.As(err, &exit) && exit.Exited():
		return res, nil
	}
	return res, fmt.Errorf("%s: %w", c, err)
}

// ErrUnkillable is that a program was killed, and does not end: the kernel lets none go
// that waits for a device in the middle of a request.
var ErrUnkillable = errors.New("it was killed and does not end: the kernel waits for a device that does not answer (dmesg)")

// unkillable is how long a program that was killed is waited for.
var unkillable = 20 * time.Second

// AwaitExit waits for the end of a program, which is killed when ctx ends. One that does
// not end then is ErrUnkillable after a while, and its output is still being written to.
func AwaitExit(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(unkillable):
		return ErrUnkillable
	}
}

// noExec is a copy without recorded commands.
type noExec struct{}

func (noExec) Run(_ context.Context, c Command) (Result, error) {
	return Result{}, NotRecorded(c.String())
}

func (noExec) LookPath(name string) (string, error) {
	return "", NotRecorded(name)
}
