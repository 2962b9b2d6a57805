package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program with DiesWithCaller runs until the caller is killed, and no longer.
func TestEndsWithCaller(t *testing.T) {
	const place = "FETTLE_TEST_CALLER"
	if file := os.Getenv(place); file != "" {
		// The caller, which is killed while the program runs.
		_, _ = liveExec{}.Run(context.Background(), Command{
			Argv: []string{"/bin/sh", "-c", `echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 600`, file}, DiesWithCaller: true,
		})
		os.Exit(0)
	}
	file := filepath.Join(t.TempDir(), "pid")
	caller := exec.Command(os.Args[0], "-test.run=^TestEndsWithCaller$")
	caller.Env = append(os.Environ(), place+"="+file)
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			_ = caller.Process.Kill()
			_ = caller.Wait()
		}
	}()
	var pid string
	eventually(t, "the program does not start", func() bool {
		b, err := os.ReadFile(file)
		pid = strings.TrimSpace(string(b))
		return err == nil
	})
	if !runs(pid) {
		t.Fatal("it has ended before its caller")
	}
	if err := caller.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = caller.Wait()
	killed = true
	eventually(t, "the program goes on without its caller", func() bool { return !runs(pid) })
}

// runs reports whether a process exists and has not ended.
func runs(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	state := string(b)
	state = state[strings.LastIndexByte(state, ')')+1:]
	return !strings.HasPrefix(state, " Z") && !strings.HasPrefix(state, " X")
}

func eventually(t *testing.T, otherwise string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// A program that the kernel does not let end is not waited for.
func TestUnkillable(t *testing.T) {
	defer func(d time.Duration) { unkillable = d }(unkillable)
	unkillable = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stuck := make(chan struct{})
	defer close(stuck)
	if err := AwaitExit(ctx, func() error { <-stuck; return nil }); !errors.Is(err, ErrUnkillable) {
		t.Error(err)
	}
	unkillable = time.Hour
	if err := AwaitExit(ctx, func() error { return os.ErrClosed }); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
