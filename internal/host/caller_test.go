package host

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestHelperCaller is the helper process; FETTLE_TEST_HELPER selects its role.
func TestHelperCaller(t *testing.T) {
	switch helper := os.Getenv("FETTLE_TEST_HELPER"); {
	case helper == "": // not the helper process
	case strings.HasPrefix(helper, "sshd "):
		// Holds a connection, and a child that asks for its caller.
		c, err := net.Dial("tcp", strings.TrimPrefix(helper, "sshd "))
		if err == nil {
			err = os.WriteFile("/proc/self/comm", []byte("sshd-session"), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Print(helperSays(t, "self", nil))
	default:
		if loginErr != nil {
			fmt.Println("@" + loginErr.Error())
			return
		}
		text, err := json.Marshal(Self())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("@" + string(text))
	}
}

// loginErr is why the helper could not set its login uid.
var loginErr error

// Only the first thread of a process, on which init runs, may set the login uid
// that /proc/self has (fs/proc/base.c, proc_loginuid_write).
func init() {
	if uid, ok := strings.CutPrefix(os.Getenv("FETTLE_TEST_HELPER"), "login "); ok {
		loginErr = os.WriteFile("/proc/self/loginuid", []byte(uid), 0)
	}
}

// helperSays returns what the helper prints after @.
func helperSays(t *testing.T, helper string, attr *syscall.SysProcAttr, env ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelperCaller$")
	cmd.Env = append(append(os.Environ(), "SUDO_USER=mallory", "FETTLE_TEST_HELPER="+helper), env...)
	cmd.SysProcAttr = attr
	if attr != nil && attr.Setctty {
		cmd.Stdin = os.NewFile(uintptr(terminalFD), "terminal")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "@"); ok {
			return "@" + text
		}
	}
	t.Fatalf("the helper printed %q", out)
	return ""
}

var terminalFD int

func helperIs(t *testing.T, helper string, attr *syscall.SysProcAttr) Caller {
	t.Helper()
	text := strings.TrimPrefix(helperSays(t, helper, attr), "@")
	var c Caller
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		root.Missing(t, "the other process cannot: %s", text)
	}
	return c
}

// The login user takes precedence over SUDO_USER, which counts as a claim
// without a login.
func TestSelf(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "only root can change the login uid")
	}
	if _, err := os.Stat("/proc/self/loginuid"); err != nil {
		root.Missing(t, "this kernel keeps no login uid (CONFIG_AUDIT)")
	}
	c := helperIs(t, "login 54321", nil)
	if c.LoginUID == nil || *c.LoginUID != 54321 || c.Claimed != "" || c.String() != "54321 (as root)" {
		t.Errorf("with a login uid: %+v, %q", c, c)
	}
	c = helperIs(t, "login 0", nil)
	if c.LoginUID == nil || *c.LoginUID != 0 || c.String() != "root" {
		t.Errorf("root's own login: %+v, %q", c, c)
	}
	c = helperIs(t, "login 4294967295", nil)
	if c.LoginUID != nil || c.Claimed != "mallory" || c.String() != "root (SUDO_USER says mallory)" {
		t.Errorf("without a login: %+v, %q", c, c)
	}
}

// The controlling terminal has a name.
func TestCallerTerminal(t *testing.T) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		root.Missing(t, "a pseudo terminal: %v", err)
	}
	defer ptmx.Close()
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminalFD, err = unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		root.Missing(t, "a pseudo terminal: %v", err)
	}
	if c := helperIs(t, "self", &syscall.SysProcAttr{Setsid: true, Setctty: true}); c.TTY != fmt.Sprintf("pts/%d", n) {
		t.Errorf("%+v, want pts/%d", c, n)
	}
	if c := helperIs(t, "self", &syscall.SysProcAttr{Setsid: true}); c.TTY != "" {
		t.Errorf("without a terminal: %+v", c)
	}
}

// The ssh client is the remote address of the connection of the sshd above,
// which runs as root.
func TestCallerSSHClient(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "a sshd of root's needs root")
	}
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", network)
		if err != nil {
			t.Log(err)
			continue
		}
		defer l.Close()
		want, _, _ := net.SplitHostPort(l.Addr().String())
		c := helperIs(t, "sshd "+l.Addr().String(), nil)
		if c.Client != want {
			t.Errorf("%+v, want the client %s", c, want)
		}
	}
}

func TestProcAddress(t *testing.T) {
	if !littleEndian {
		return // only the helpers test this
	}
	for text, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1", "070200C0:0016": "192.0.2.7",
		"B80D0120000000000000000001000000:0016": "2001:db8::1",
		"0000000000000000FFFF0000070200C0:0016": "192.0.2.7",
		"":                                      "", "zz:1": "", "0100:1": "",
	} {
		if got := procAddress(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"plain é": "plain é", "a\nb\tc": `a\nb\tc`, "\x1b[2J\x07": `\x1b[2J\x07`, "\xff": `\xff`,
		"\u202eevil": `\u202eevil`, "\u2028": `\u2028`, "\u0085": `\u0085`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := EscapeTruncate("ééé", 3); got != "é…" {
		t.Errorf("clipped: %q", got)
	}
}

// The native protocol: the length precedes a multi-line value.
func TestJournalEntry(t *testing.T) {
	got := string(journalEntry([]Field{{"MESSAGE", "one"}, {"EMPTY", ""}, {"TWO", "a\nb"}}))
	if want := "MESSAGE=one\nTWO\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
