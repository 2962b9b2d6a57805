package tune_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// The real systemd-journald takes the line with its fields, and journalctl finds it.
func TestRealJournald(t *testing.T) {
	if !root.Inside(t, root.Options{}) {
		return
	}
	for _, dir := range []string{"/run/systemd/journal", "/run/log/journal"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/etc/machine-id", []byte("0123456789abcdef0123456789abcdef\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// It asks in which control group it is.
	if err := syscall.Mount("fettle-test", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	journald := exec.CommandContext(ctx, "/lib/systemd/systemd-journald")
	if err := journald.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = journald.Wait() }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %s after a minute", what)
			}
		}
	}
	const socket = "/run/systemd/journal/socket"
	wait(socket, func() bool { _, err := os.Stat(socket); return err == nil })
	login := 12345
	caller := host.Caller{LoginUID: &login, Name: "alice", TTY: "pts/3"}
	err := host.Live().Log("transaction 1: apply by alice", tune.Fields("alice (as root)", &caller, "two\nlines é",
		host.Field{Name: "FETTLE_TRANSACTION", Value: "1"}, host.Field{Name: "FETTLE_RESULT", Value: journal.ResultDone})...)
	if err != nil {
		t.Fatal(err)
	}
	var entry map[string]any
	wait("entry of journald's", func() bool {
		out, err := exec.Command("journalctl", "--output=json", "MESSAGE_ID="+tune.MessageID).Output()
		line, _, _ := strings.Cut(string(out), "\n")
		return err == nil && json.Unmarshal([]byte(line), &entry) == nil
	})
	for name, want := range map[string]string{
		"MESSAGE": "transaction 1: apply by alice", "SYSLOG_IDENTIFIER": "fettle", "PRIORITY": "5", "FETTLE_TRANSACTION": "1", "FETTLE_USER": "alice (as root)",
		"FETTLE_LOGIN_UID": "12345", "FETTLE_UID": "0", "FETTLE_FROM": "pts/3", "FETTLE_REASON": "two\nlines é", "FETTLE_RESULT": "done", "_UID": "0",
	} {
		if entry[name] != want {
			t.Errorf("%s: %v, want %q", name, entry[name], want)
		}
	}
}
