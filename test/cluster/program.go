package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program is a program of the cluster.
type Program struct {
	Name string

	argv  []string
	log   string // file of both its streams, of all its runs
	ready func() error
	// patience is the maximum time until it is ready.
	patience time.Duration

	cmd     *exec.Cmd
	started time.Time
	from    int64 // where the log of this run begins
	done    chan struct{}
}

// program describes a program of the cluster. It is ready when the function ready returns no error.
func (c *Cluster) program(ready func() error, argv ...string) *Program {
	name := argv[0]
	p := &Program{
		Name: name, argv: append(argv, c.flags[name]...), ready: ready, patience: 5 * time.Minute,
		log: filepath.Join(c.Dir, name+".log"),
	}
	c.programs = append(c.programs, p)
	return p
}

// Start starts the program and waits until it is ready, at most five minutes. An error has the end
// of its log. A program that does not become ready keeps running.
func (p *Program) Start() error {
	if p.Running() {
		return fmt.Errorf("%s runs already", p.Name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if p.from, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	cmd, done := exec.Command(p.argv[0], p.argv[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // its state says how it ended
		close(done)
	}()
	err = errors.New("not asked yet")
	for end := time.Now().Add(p.patience); err != nil; time.Sleep(50 * time.Millisecond) {
		switch {
		case !p.Running():
			return fmt.Errorf("%s has ended (%s); the end of its log:\n%s", p.Name, p.cmd.ProcessState, p.Log(30))
		case time.Now().After(end):
			return fmt.Errorf("%s is not ready after %s: %w; the end of its log:\n%s", p.Name, p.patience, err, p.Log(30))
		}
		err = p.ready()
	}
	return nil
}

// Stop ends the program as systemd does: with SIGTERM, and after ninety seconds with SIGKILL, which
// is an error.
func (p *Program) Stop() error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(90 * time.Second):
		p.Kill()
		return fmt.Errorf("%s did not end within 90 s of SIGTERM; the end of its log:\n%s", p.Name, p.Log(30))
	}
}

// Kill ends the program by SIGKILL.
func (p *Program) Kill() {
	if p.Running() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Restart stops the program, if it runs, and starts it again.
func (p *Program) Restart() error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start()
}

// Running says whether the program runs.
func (p *Program) Running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// PID returns the process ID of the program, also after it has ended; 0 before the first start.
func (p *Program) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Log returns the last lines that the program has printed since its last start, at most the given
// number.
func (p *Program) Log(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text[min(p.from, int64(len(text))):]), "\n")
	return strings.Join(all[max(0, len(all)-lines-1):], "")
}

// run runs a program of the root until it ends and returns its output.
func run(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}
