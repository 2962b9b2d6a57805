package peak

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func starter(t *testing.T) *Starter {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestWork: the work gets its arguments, environment, directory and streams, and nothing
// of the starter's; how it ends is told.
func TestWork(t *testing.T) {
	s, dir := starter(t), t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		args []string
		out  string
		err  string
	}{
		"arguments":      {[]string{"/bin/sh", "-c", `echo "$0" "$#" "$2"`, "a b", "c", "", "d"}, "a b 3 \n", ""},
		"environment":    {[]string{"/usr/bin/env"}, "LANG=C\nODD.NAME=1\n", ""},
		"directory":      {[]string{"/bin/pwd"}, dir + "\n", ""},
		"input":          {[]string{"/bin/cat"}, "given", ""},
		"descriptors":    {[]string{"/bin/sh", "-c", "[ -e /proc/$$/fd/3 ] || echo none"}, "none\n", ""},
		"signals":        {[]string{"/bin/grep", "SigBlk", "/proc/self/status"}, "SigBlk:\t0000000000000000\n", ""},
		"status":         {[]string{"/bin/sh", "-c", "exit 3"}, "", "exit status 3"},
		"killed":         {[]string{"/bin/sh", "-c", "kill -9 $$"}, "", "signal: killed"},
		"its own group":  {[]string{"/bin/sh", "-c", "trap : TERM; kill 0; echo goes on"}, "goes on\n", ""},
		"not there":      {[]string{"/nonexistent/program"}, "", "cannot be started: no such file or directory"},
		"no program":     {[]string{script}, "", "cannot be started: exec format error"},
		"not for anyone": {[]string{dir}, "", "cannot be started: permission denied"},
	} {
		cmd := &exec.Cmd{Path: x.args[0], Args: x.args, Env: []string{"LANG=C", "ODD.NAME=1"}, Dir: dir, Stdin: strings.NewReader("given"), SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
		var out bytes.Buffer
		cmd.Stdout = &out
		started, err := s.Put(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Run(); err != nil && x.err == "" {
			t.Errorf("%s: %v", name, err)
		}
		peak, err := started.Peak()
		if x.err == "" && (err != nil || out.String() != x.out || peak < 100<<10 || peak > 16<<20) || x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)) {
			t.Errorf("%s: %q %v, %d bytes; want %q %s", name, out.String(), err, peak, x.out, x.err)
		}
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKilled: the work ends with the starter.
func TestKilled(t *testing.T) {
	s := starter(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "echo $$; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started, err := s.Put(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the starter alone
	_ = cmd.Wait()
	status := "/proc/" + strings.TrimSpace(string(line[:n])) + "/stat"
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(status)
		if err != nil || strings.Contains(string(text), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the work goes on")
		}
	}
	if _, err := started.Peak(); err == nil {
		t.Error("killed, and a figure all the same")
	}
}
