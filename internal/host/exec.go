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

// Exec runs programs of the machine. A copy never runs programs: it returns recorded results,
// or ErrNotRecorded.
type Exec interface {
	// Run runs a program until it ends. A non-zero exit code is not an error; an error means
	// that the program did not run or was killed.
	Run(ctx context.Context, c Command) (Result, error)
	// LookPath finds a program as Run does. It returns fs.ErrNotExist if none exists.
	LookPath(name string) (string, error)
}

// Command is one program call, without a shell.
type Command struct {
	Argv []string
	Env  []string // added to a minimal environment: "NAME=value"
	Dir  string   // working directory; "/" if empty
	// Stdout receives the output while the program runs. If nil, the output goes to
	// Result.Stdout.
	Stdout io.Writer
	// Timeout limits the run time. When it is over, the process group is killed. 0 means one
	// minute.
	Timeout time.Duration
	// DiesWithCaller kills the program when the caller is killed, so that it cannot run
	// concurrently with the undo. The program's own children survive, since a script may
	// intend that; TaggedKiller finds them by their tag.
	DiesWithCaller bool
	// Tag is added to the environment of the program and so of its descendants. "" adds none.
	Tag string
	// As is the user that runs the program, or nil for the current user.
	As *User
	// Sandbox isolates the program. If nil, it runs on the machine itself.
	Sandbox *Sandbox
}

// User is a user and group, without supplementary groups.
type User struct{ UID, GID uint32 }

func (c Command) String() string { return strings.Join(c.Argv, " ") }

// Result is the result of a program.
type Result struct {
	Stdout, Stderr []byte
	ExitCode       int
	// ReadBytes is the number of bytes that the program, its threads and the children that it
	// waited for read from storage, excluding the page cache (ru_inblock of wait4(2),
	// read_bytes of /proc/PID/io). It is 0 for recorded commands.
	ReadBytes int64
}

// commandPath is the search path for programs. The caller's PATH is ignored,
// because fettle runs as root.
var commandPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// NotStartedError is returned if the kernel did not start the program, because it is not
// executable or its interpreter is missing.
type NotStartedError struct{ Err error }

func (e *NotStartedError) Error() string { return e.Err.Error() }
func (e *NotStartedError) Unwrap() error { return e.Err }

// liveExec runs programs of this machine. root is the mount point of the machine's root, or ""
// if it is the root of this process.
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
		return Result{}, fmt.Errorf("%s: cannot make a sandbox for a machine mounted at %s", c, e.root)
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
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	// A timeout kills the whole process group. WaitDelay prevents a grandchild with an open
	// pipe from blocking the caller.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: e.root}
	if c.Sandbox != nil {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID // kills all its children when it ends
	}
	if c.As != nil && c.As.UID != uint32(os.Geteuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.As.UID, Gid: c.As.GID}
	}
	if c.DiesWithCaller {
		// The kernel sends the signal when the starting thread ends
		// (PR_SET_PDEATHSIG(2const)), so this thread must stay.
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
		return Result{}, fmt.Errorf("%s: %w (process %d)", c, err, cmd.Process.Pid)
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
			return res, fmt.Errorf("%s: killed after %v", c, timeout)
		}
		return res, fmt.Errorf("%s: %w", c, ctx.Err())
	case cmd.Process == nil:
		return res, &NotStartedError{fmt.Errorf("%s: %w", c, err)}
	case errors.Is(err, exec.ErrWaitDelay):
		return res, nil // the program succeeded; a child kept its output open
	case errors.As(err, &exit) && exit.Exited():
		return res, nil
	}
	return res, fmt.Errorf("%s: %w", c, err)
}

// ErrUnkillable is returned for a program that was killed but does not end,
// because it waits in the kernel for a device.
var ErrUnkillable = errors.New("killed but not ended: it waits for a device that does not respond; see dmesg")

// unkillable is the time to wait for a killed program.
var unkillable = 20 * time.Second

// AwaitExit waits for a program that is killed when ctx ends. It returns ErrUnkillable if the
// program still runs after a further wait of unkillable. The program may then still write to
// its output.
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

// noExec is the Exec of a copy without recorded commands.
type noExec struct{}

func (noExec) Run(_ context.Context, c Command) (Result, error) {
	return Result{}, NotRecorded(c.String())
}

func (noExec) LookPath(name string) (string, error) {
	return "", NotRecorded(name)
}
