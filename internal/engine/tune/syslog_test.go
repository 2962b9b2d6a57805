package tune_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestOneLineInTheSystemLog tests that each transaction and each undo writes one line to the system
// log.
func TestOneLineInTheSystemLog(t *testing.T) {
	root.Disposable(t)
	runtime.LockOSThread() // for good: the thread and its /dev end with the test
	e := newEngine(t, host.Live())
	before := liveRead(t, sysctl("vm.page-cluster"))
	want := map[string]string{"3": "4"}[before]
	if want == "" {
		want = "3"
	}
	e.StateDir = t.TempDir() + "/state" // not in the /dev that is about to be hidden
	for _, err := range []error{
		syscall.Unshare(syscall.CLONE_FS | syscall.CLONE_NEWNS),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("fettle-test", "/dev", "tmpfs", 0, ""),
		syscall.Mount("fettle-test", "/run", "tmpfs", 0, ""),
		os.MkdirAll("/run/systemd/journal", 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := net.ListenPacket("unixgram", "/dev/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	line := func(within time.Duration) string {
		_ = log.SetReadDeadline(time.Now().Add(within))
		b := make([]byte, 4096)
		n, _, err := log.ReadFrom(b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	said := func(words ...string) {
		t.Helper()
		got := line(30 * time.Second)
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("the system log has %q, want %q in it", got, w)
			}
		}
	}
	apply(t, e, journal.Apply, set("vm.page-cluster", want))
	said("<29>fettle[", "transaction 1: apply by test: done, 1 values (TestOneLineInTheSystemLog)")
	if _, err := e.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	said("transaction 2: undo by test: done, 1 values")
	if more := line(time.Millisecond); more != "" {
		t.Errorf("one line more: %q", more)
	}

	// systemd's journal takes its place, and gets the fields.
	native, err := net.ListenPacket("unixgram", "/run/systemd/journal/socket")
	if err != nil {
		t.Fatal(err)
	}
	syslog := log
	log = native
	login := 12345
	e.Caller = func() host.Caller {
		return host.Caller{UID: 0, LoginUID: &login, Name: "alice", TTY: "pts/3", Client: "192.0.2.7"}
	}
	e.Note = "ticket 4711"
	apply(t, e, journal.Apply, set("vm.page-cluster", want))
	said("MESSAGE=transaction 3: apply by alice (as root): done, 1 values (TestOneLineInTheSystemLog): ticket 4711\n", "\nSYSLOG_IDENTIFIER=fettle\n", "\nPRIORITY=5\n",
		"\nMESSAGE_ID="+tune.MessageID+"\n", "\nFETTLE_TRANSACTION=3\n", "\nFETTLE_KIND=apply\n", "\nFETTLE_USER=alice (as root)\n", "\nFETTLE_UID=0\n", "\nFETTLE_LOGIN_UID=12345\n",
		"\nFETTLE_FROM=pts/3, ssh from 192.0.2.7\n", "\nFETTLE_REASON=ticket 4711\n", "\nFETTLE_COMMAND=TestOneLineInTheSystemLog\n", "\nFETTLE_VALUES=1\n", "\nFETTLE_FAILED=0\n", "\nFETTLE_RESULT=done\n")
	if _, err := e.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	said("\nFETTLE_TRANSACTION=4\n", "\nFETTLE_KIND=undo\n", "\nFETTLE_RESULT=done\n")
	if more := line(time.Millisecond); more != "" {
		t.Errorf("one line more: %q", more)
	}
	if log = syslog; line(time.Millisecond) != "" {
		t.Error("a second line, for syslog")
	}
	// Neither: nothing fails.
	native.Close()
	syslog.Close()
	apply(t, e, journal.Apply, set("vm.page-cluster", want))
	if _, err := e.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now := liveRead(t, sysctl("vm.page-cluster")); now != before {
		t.Errorf("vm.page-cluster was %s and is %s", before, now)
	}
	_ = os.Remove("/dev/log")
}

// TestRealJournald tests that the real systemd-journald accepts the line with its fields, and that
// journalctl finds it.
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
