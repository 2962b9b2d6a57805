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

// Exec runs programs of the machine. A copy never runs programs: it returns recorded results
// or ErrNotRecorded.
type Exec interface {
	// Run runs a program until it ends. A non-zero exit code is not an error; an error means
	// that the program did not run or was killed.
	Run(ctx context.Context, c Command) (Result, error)
	// LookPath finds a program in the search path of Run. Without one it
	// returns fs.ErrNotExist.
	LookPath(name string) (string, error)
}

// Command is one program call, without a shell.
type Command struct {
	Argv []string
	Env  []string // "NAME=value", added to a minimal environment
	Dir  string   // working directory; "/" if empty
	// Stdout receives the output while the program runs. If nil, the output goes to
	// Result.Stdout.
	Stdout io.Writer
	// Timeout limits the run time; after it, the process group is killed. 0 means one minute.
	Timeout time.Duration
	// DiesWithCaller kills the program when the caller is killed, so that the program cannot
	// run at the same time as an undo. The program's children survive, because a script may
	// intend that. TaggedKiller finds them by their tag.
	DiesWithCaller bool
	// Tag is added to the environment of the program and its descendants. "" adds none.
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
	// ReadBytes is the number of bytes read from storage, without the page cache, by the
	// program and the children that it waited for (ru_inblock of wait4(2), read_bytes of
	// /proc/PID/io). It is 0 for recorded commands.
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
// if this process has the same root.
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
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID // kills all children of the program when it ends
	}
	if c.As != nil && c.As.UID != uint32(os.Geteuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.As.UID, Gid: c.As.GID}
	}
	if c.DiesWithCaller {
		// PR_SET_PDEATHSIG(2const) sends the signal when the starting thread ends, so this
		// thread must not end.
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
		return res, nil // the program succeeded; one of its children still has its output open
	case errors.As(err, &exit) && exit.Exited():
		return res, nil
	}
	return res, fmt.Errorf("%s: %w", c, err)
}

// ErrUnkillable is returned for a killed program that does not end because the kernel waits
// for a device.
var ErrUnkillable = errors.New("killed but not ended: it waits for a device that does not respond; see dmesg")

// unkillable is how long to wait for a killed program to end.
var unkillable = 20 * time.Second

// AwaitExit waits for a program that is killed when ctx ends. It returns ErrUnkillable if the
// program does not end within unkillable after that. The program may then still write to its
// output.
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

// noExec is the Exec of a copy without recorded commands. It returns ErrNotRecorded.
type noExec struct{}

func (noExec) Run(_ context.Context, c Command) (Result, error) {
	return Result{}, NotRecorded(c.String())
}

func (noExec) LookPath(name string) (string, error) {
	return "", NotRecorded(name)
}
