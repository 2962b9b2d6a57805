package root

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// busConfig gives a private bus the policy of a session bus: any user may own any name and call
// anything. It has no polkit.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// Bus is a private D-Bus: a real dbus-daemon in a Root, whose socket has the same path inside
// and outside.
type Bus struct {
	Root *Root
	// Address is the address that clients inside and outside connect to.
	Address string
}

// NewBus starts a Root with a private bus for real clients (tuned-adm, busctl, a daemon under
// test on this machine).
func NewBus(t testing.TB, o Options) *Bus {
	t.Helper()
	return New(t, o).StartBus()
}

// Env returns the variable that makes a program use this bus as the system bus.
func (b *Bus) Env() string { return "DBUS_SYSTEM_BUS_ADDRESS=" + b.Address }

// StartBus starts a private bus. Later commands of the Root use it as the system bus.
func (r *Root) StartBus() *Bus {
	r.t.Helper()
	socket := filepath.Join(r.share, "bus")
	config := filepath.Join(r.share, "bus.conf")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(busConfig, socket)), 0o644); err != nil {
		r.t.Fatal(err)
	}
	b := &Bus{Root: r, Address: "unix:path=" + socket}
	d := r.Start("dbus-daemon", "--config-file="+config, "--nofork", "--nopidfile", "--nosyslog")
	listens := func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if !Eventually(time.Minute, listens) {
		r.t.Fatalf("dbus-daemon does not listen\n%s", d.Output())
	}
	r.Setenv("DBUS_SYSTEM_BUS_ADDRESS", b.Address)
	return b
}

// Owned reports whether a name on the bus has an owner.
func (b *Bus) Owned(name string) bool {
	out, code := b.Root.Run("dbus-send", "--bus="+b.Address, "--print-reply=literal", "--dest=org.freedesktop.DBus",
		"/org/freedesktop/DBus", "org.freedesktop.DBus.NameHasOwner", "string:"+name)
	return code == 0 && strings.Contains(out, "boolean true")
}

// Eventually calls ask until it returns true or the time is over.
func Eventually(within time.Duration, ask func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ask() {
			return true
		}
	}
	return ask()
}

// Daemon is a program that runs in a Root until it is stopped or the test ends.
type Daemon struct {
	root    *Root
	cmd     *exec.Cmd
	pidFile string
	output  *bytes.Buffer
	done    chan struct{}
}

// Start runs argv in the background.
func (r *Root) Start(argv ...string) *Daemon {
	r.t.Helper()
	f, err := os.CreateTemp(r.share, "pid")
	if err != nil {
		r.t.Fatal(err)
	}
	f.Close()
	d := &Daemon{root: r, pidFile: f.Name(), output: new(bytes.Buffer), done: make(chan struct{})}
	// This process cannot see nsenter's child, so the child writes its number to a file.
	d.cmd = r.Command(append([]string{"sh", "-c", `echo $$ >"$0"; exec "$@"`, d.pidFile}, argv...)...)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	if err := d.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { d.cmd.Wait(); close(d.done) }()
	return d
}

// Signal sends a signal by name ("TERM", "KILL") and waits, at most two minutes, until the
// program has ended.
func (d *Daemon) Signal(name string) {
	d.root.t.Helper()
	d.Send(name)
	select {
	case <-d.done:
	case <-time.After(2 * time.Minute):
		d.root.t.Fatalf("program did not end after SIG%s", name)
	}
}

// Send sends a signal, once the program has started, and does not wait for its effect.
func (d *Daemon) Send(name string) {
	Eventually(time.Minute, func() bool { b, err := os.ReadFile(d.pidFile); return err != nil || len(b) > 0 || !d.Running() })
	d.root.Run("sh", "-c", `kill -s "$0" "$(cat "$1")"`, name, d.pidFile)
}

// Running reports whether the program still runs.
func (d *Daemon) Running() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// Output returns what the program has printed on both streams, after it has ended.
func (d *Daemon) Output() string {
	if d.Running() {
		return "(still running)"
	}
	return d.output.String()
}
