// Package ssh starts a program on another machine, through the system's ssh or any other
// command line. It exchanges lines with the program over standard input and output. The load
// generator uses it for its workers.
package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/text"
)

// hostName matches hosts that ssh(1) accepts. It excludes names that ssh could parse as an
// option, or a shell as a command.
var hostName = text.LazyRegexp(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_\[:][A-Za-z0-9._:%\[\]-]*$`)

// ParseHost parses ssh:HOST or ssh:USER@HOST.
func ParseHost(word string) (host string, ok bool) {
	host, ok = strings.CutPrefix(word, "ssh:")
	return host, ok && hostName().MatchString(host)
}

// ErrNoSSH is returned if this machine has no ssh client.
var ErrNoSSH = errors.New("ssh not found; install openssh-client (openssh-clients)")

// Command returns the command line that runs a command on a host through the login shell. The
// host's key must be known. It never asks for passwords.
func Command(host string, command ...string) ([]string, error) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return nil, ErrNoSSH
	}
	// ConnectTimeout includes the key exchange, which is slow on a busy host.
	return append([]string{ssh, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=30", "-T", "--", host}, command...), nil
}

// FailureReason returns why ssh(1) failed: the last line of its output. For a host key failure
// it adds the host and the conflicting line of known_hosts.
func FailureReason(said string) string {
	last := strings.TrimPrefix(LastLine(said), "ssh: ")
	if !strings.HasPrefix(last, "Host key verification failed") {
		return last
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "No ") && strings.Contains(line, " host key is known for "):
			last += " " + line + " run ssh by hand to check and accept the key"
		case strings.HasPrefix(line, "Offending "), strings.HasPrefix(line, "Host key for "):
			last += " " + strings.TrimSuffix(line, ".") + "."
		}
	}
	return last
}

// LastLine returns the last line of a program's output.
func LastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// maxStderr is how much of the standard error output is kept, in bytes.
const maxStderr = 16 << 10

// Session is a running program with its input and output.
type Session struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
	most   int

	end   sync.Once
	ended error
}

// Start starts a command line and kills it when ctx ends. most is the maximum length of an
// answer line, in bytes.
func Start(ctx context.Context, words []string, most int) (*Session, error) {
	s := &Session{cmd: exec.CommandContext(ctx, words[0], words[1:]...), most: most}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // this process handles Ctrl-C
	s.cmd.Cancel = func() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }
	s.cmd.WaitDelay = 2 * time.Second
	s.cmd.Stderr = &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(out, 64<<10)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Write sends bytes to the program.
func (s *Session) Write(text []byte) (int, error) {
	n, err := s.in.Write(text)
	if err != nil {
		err = s.failure(err)
	}
	return n, err
}

// Line reads one line, without its newline.
func (s *Session) Line() ([]byte, error) {
	line, err := ReadLine(s.out, s.most)
	if err != nil && !errors.Is(err, errLong) {
		err = s.failure(err)
	}
	return line, err
}

var errLong = errors.New("the remote program wrote a line that is too long")

// ReadLine reads one line of at most most bytes, without its newline.
func ReadLine(from *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, fmt.Errorf("%w: more than %d bytes", errLong, most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// failure explains why the program is unreachable, from its standard error or from ssh's.
func (s *Session) failure(err error) error {
	ended := s.wait()
	var exit *exec.ExitError
	last := s.stderr.last()
	switch {
	case errors.As(ended, &exit) && exit.ExitCode() == 255 && last != "":
		return fmt.Errorf("ssh: %s", FailureReason(s.stderr.text()))
	case errors.As(ended, &exit) && exit.ExitCode() == 127:
		return fmt.Errorf("the program is not installed on the remote host, or not in the PATH of ssh sessions: %s", last)
	case ended != nil && last != "":
		return fmt.Errorf("the program ended: %s (%w)", last, ended)
	case ended != nil:
		return fmt.Errorf("the program ended: %w", ended)
	case last != "":
		return fmt.Errorf("the program ended: %s", last)
	}
	return fmt.Errorf("the program ended: %w", err)
}

// wait closes the program's input and waits up to five seconds for the program to end, then
// kills it. Further output is lost.
func (s *Session) wait() error {
	s.end.Do(func() {
		_ = s.in.Close()
		kill := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Cancel() })
		defer kill.Stop()
		s.ended = s.cmd.Wait()
	})
	return s.ended
}

// Kill kills the program and its local children at once.
func (s *Session) Kill() { _ = s.cmd.Cancel() }

// Close closes the program's input and waits up to five seconds for the program to end, then
// kills it.
func (s *Session) Close() { _ = s.wait() }

// tail is a writer that keeps the end of the written data.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

func (t *tail) last() string { return LastLine(t.text()) }
