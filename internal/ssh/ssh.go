// Package ssh starts a program on another machine, through the system's ssh or whatever
// command leads there, and speaks with it in lines over its standard input and output.
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

// hostName is a host as ssh(1) takes it, and nothing that ssh could take for an option or
// a shell for a command.
var hostName = text.LazyRegexp(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_\[:][A-Za-z0-9._:%\[\]-]*$`)

// ParseHost reads ssh:HOST or ssh:USER@HOST.
func ParseHost(word string) (host string, ok bool) {
	host, ok = strings.CutPrefix(word, "ssh:")
	return host, ok && hostName().MatchString(host)
}

// ErrNoSSH says that this machine cannot reach another one.
var ErrNoSSH = errors.New("there is no ssh here: install openssh-client (openssh-clients)")

// Command is the command line that runs a command on a host: its key has to be known, and
// nobody is asked for a password. The other side's shell reads the command.
func Command(host string, command ...string) ([]string, error) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return nil, ErrNoSSH
	}
	// The time to connect is also that of the key exchange, which a busy host is slow at.
	return append([]string{ssh, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=30", "-T", "--", host}, command...), nil
}

// FailureReason is why ssh(1) has failed: its last line, and where that is a host's key, of
// which host, and which line of known_hosts it has been held against.
func FailureReason(said string) string {
	last := strings.TrimPrefix(LastLine(said), "ssh: ")
	if !strings.HasPrefix(last, "Host key verification failed") {
		return last
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "No ") && strings.Contains(line, " host key is known for "):
			last += " " + line + " ssh by hand shows the key, and asks"
		case strings.HasPrefix(line, "Offending "), strings.HasPrefix(line, "Host key for "):
			last += " " + strings.TrimSuffix(line, ".") + "."
		}
	}
	return last
}

// LastLine is the last line of what a program has said.
func LastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// maxStderr is how much of what a program says beside its answers is kept, in bytes.
const maxStderr = 16 << 10

// Session is a program that was started.
type Session struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
	most   int

	end   sync.Once
	ended error
}

// Start starts a command line. A line of its answers has so many bytes at most. When ctx
// ends it is killed.
func Start(ctx context.Context, words []string, most int) (*Session, error) {
	s := &Session{cmd: exec.CommandContext(ctx, words[0], words[1:]...), most: most}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
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

// Write sends bytes.
func (s *Session) Write(text []byte) (int, error) {
	n, err := s.in.Write(text)
	if err != nil {
		err = s.failure(err)
	}
	return n, err
}

// Line reads a line, without its end.
func (s *Session) Line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.out.ReadSlice('\n')
		if len(line)+len(part) > s.most {
			return nil, fmt.Errorf("it says a line of more than %d bytes", s.most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, s.failure(err)
		}
	}
}

// failure is the reason for which the program cannot be spoken with any longer, as it or ssh
// has said.
func (s *Session) failure(err error) error {
	ended := s.wait()
	var exit *exec.ExitError
	last := s.stderr.last()
	switch {
	case errors.As(ended, &exit) && exit.ExitCode() == 255 && last != "":
		return fmt.Errorf("ssh: %s", FailureReason(s.stderr.text()))
	case errors.As(ended, &exit) && exit.ExitCode() == 127:
		return fmt.Errorf("the program is not installed there, or not in the PATH of its ssh: %s", last)
	case ended != nil && last != "":
		return fmt.Errorf("it has ended: %s (%w)", last, ended)
	case ended != nil:
		return fmt.Errorf("it has ended: %w", ended)
	case last != "":
		return fmt.Errorf("it has ended: %s", last)
	}
	return fmt.Errorf("it has ended: %w", err)
}

// wait ends the session: the program has its end of input, and some time. What it says
// meanwhile is lost.
func (s *Session) wait() error {
	s.end.Do(func() {
		_ = s.in.Close()
		kill := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Cancel() })
		defer kill.Stop()
		s.ended = s.cmd.Wait()
	})
	return s.ended
}

// Kill ends the program at once, and what it has started here.
func (s *Session) Kill() { _ = s.cmd.Cancel() }

// Close ends the program: its input is at its end, and where that is not enough it is
// killed after some seconds.
func (s *Session) Close() { _ = s.wait() }

// tail keeps the end of what is written.
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
