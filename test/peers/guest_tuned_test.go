package peers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// tunedServer starts Debian's tuned again and again in a process that has read its
// modules once, which emulated processors take seconds for.
const tunedServer = `
import glob, os, runpy, signal, sys
import tuned.daemon, tuned.logs, pyudev
for f in glob.glob("/usr/lib/python3/dist-packages/tuned/plugins/plugin_*.py"):
    __import__("tuned.plugins." + os.path.basename(f)[:-3])
child = 0
for line in sys.stdin:
    if line.startswith("start"):
        sys.argv = ["tuned", "--no-dbus", "--no-socket", "--log", "--profile", line.split()[1]]
        child = os.fork()
        if child == 0:
            os.dup2(os.open("/dev/null", os.O_RDWR), 0)
            os.dup2(2, 1)
            try:
                runpy.run_path("/usr/sbin/tuned", run_name="__main__")
            finally:
                os._exit(0)
        print(child, flush=True)
    else:
        os.kill(child, signal.SIGTERM)
        print(os.waitpid(child, 0)[1], flush=True)
`

const tunedLog = "/var/log/tuned/tuned.log"

// tunedInGuest is the process that starts tuned.
type tunedInGuest struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startTunedServer(t *testing.T) *tunedInGuest {
	t.Helper()
	c := exec.Command("python3", "-c", tunedServer)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Wait() })
	return &tunedInGuest{t, in, bufio.NewReader(out)}
}

func (s *tunedInGuest) ask(line string) string {
	s.t.Helper()
	fmt.Fprintln(s.in, line)
	answer, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server of tuned: %v", err)
	}
	return strings.TrimSpace(answer)
}

// apply starts tuned with a profile and waits until it says that it has applied it; the
// daemon goes on and holds what has to be held. What it has logged is returned.
func (s *tunedInGuest) apply(profile string) string {
	s.t.Helper()
	if err := os.Truncate(tunedLog, 0); err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	s.ask("start " + profile)
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b, _ := os.ReadFile(tunedLog)
		if text := string(b); strings.Contains(text, "static tuning from profile") || strings.Contains(text, "Traceback") {
			return text
		}
	}
	b, _ := os.ReadFile(tunedLog)
	s.t.Fatalf("tuned has not applied %s:\n%s", profile, b)
	return ""
}

// stop ends tuned, which takes its changes back, as far as it does.
func (s *tunedInGuest) stop() { s.ask("stop") }
