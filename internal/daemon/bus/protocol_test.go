package bus

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestProtocol drives the distribution's TuneD and then fettle's daemon with the
// same clients on the same invented machine: the unmodified tuned-adm, calls on
// the bus, requests on the socket. What they answer is equal, but for the
// differences that are listed, which must be there.
func TestProtocol(t *testing.T) {
	root.Real(t, "drives two daemons in the Debian test root")
	t.Parallel()
	var mu sync.Mutex
	record := map[string]map[string]string{}
	if !t.Run("drive", func(t *testing.T) {
		// Side by side: tuned-adm mostly sleeps.
		for _, d := range []string{"tuned", "fettle"} {
			t.Run(d, func(t *testing.T) {
				t.Parallel()
				seen := session(t, d)
				mu.Lock()
				defer mu.Unlock()
				record[d] = seen
			})
		}
	}) {
		t.FailNow()
	}
	var names []string
	for _, s := range steps {
		if slices.Contains(names, s.name) {
			t.Fatalf("two steps are called %q", s.name)
		}
		names = append(names, s.name)
	}
	compare(t, names, record["tuned"], record["fettle"])
}

// step is one thing that a client does; do returns what it saw.
type step struct {
	name string
	do   func(*client) string
}

// client is where the steps are done.
type client struct {
	t       *testing.T
	bus     *root.Bus
	conn    *dbus.Conn
	signals chan *dbus.Signal
	daemon  *root.Daemon
}

// socketPath is where both daemons have their socket.
const socketPath = "/run/tuned/tuned.sock"

// session starts a daemon on an invented machine and does all steps.
func session(t *testing.T, which string) map[string]string {
	c := start(t, which)
	if err := c.conn.AddMatchSignal(dbus.WithMatchInterface(daemon.Interface)); err != nil {
		t.Fatal(err)
	}
	c.conn.Signal(c.signals)
	seen := map[string]string{}
	for _, s := range steps {
		seen[s.name] = s.do(c)
		t.Logf("%s\n%s", s.name, seen[s.name])
		if t.Failed() {
			break
		}
	}
	if t.Failed() {
		if c.daemon.Running() {
			c.daemon.Signal("TERM")
		}
		t.Logf("daemon:\n%s\n%s", c.daemon.Output(), c.bus.Root.TunedLog())
	}
	return seen
}

// start starts a daemon on an invented machine and waits until it has its name.
func start(t *testing.T, which string) *client {
	t.Helper()
	machine := root.NewMachine(t)
	// The device answers four bytes, here "no limit" (kernel, PM QoS).
	if err := os.WriteFile(filepath.Join(machine.Dir, "dev/cpu_dma_latency"), []byte{0x00, 0x94, 0x35, 0x77}, 0o600); err != nil {
		t.Fatal(err)
	}
	b := root.NewBus(t, root.Options{
		Machine: machine,
		Stubs:   root.TunerStubs(),
		Files: map[string]string{
			"/etc/tuned/tuned-main.conf":     "daemon = 1\ndynamic_tuning = 0\nenable_unix_socket = 1\nsleep_interval = 1\nupdate_interval = 10\n",
			"/etc/tuned/active_profile":      "balanced\n",
			"/etc/tuned/profile_mode":        "manual\n",
			"/etc/tuned/post_loaded_profile": "",
			"/etc/tuned/broken/tuned.conf":   "[main]\nsummary=Cannot be read\nno equals sign\n",
			"/etc/tuned/lost/tuned.conf":     "[main]\nsummary=Includes what is not there\ninclude=nowhere\n",
		},
		Binds: []root.Bind{{Source: root.Program(t, "./cmd/fettle"), Target: "/usr/local/bin/fettle", ReadOnly: true}},
	})
	c := &client{t: t, bus: b, conn: connect(t, b), signals: make(chan *dbus.Signal, 100)}
	switch which {
	case "tuned":
		c.daemon = b.Root.Start("/usr/sbin/tuned", "--log")
	case "fettle":
		c.daemon = b.Root.Start("/usr/local/bin/fettle", "daemon")
	}
	if !root.Eventually(time.Minute, func() bool { return b.Owned(Name) || !c.daemon.Running() }) || !c.daemon.Running() {
		if c.daemon.Running() {
			c.daemon.Signal("KILL")
		}
		t.Fatalf("%s does not own %s\n%s", which, Name, c.daemon.Output())
	}
	return c
}

// adm runs tuned-adm. What it prints of the daemon's log is left out: the words
// of messages are each daemon's own.
func adm(args ...string) step {
	return step{"tuned-adm " + strings.Join(args, " "), func(c *client) string {
		cmd := c.bus.Root.Command(append([]string{"timeout", "180", "/usr/sbin/tuned-adm"}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		return fmt.Sprintf("exit %d\n%s%s", cmd.ProcessState.ExitCode(), stdout.String(), withoutLog(stderr.String()))
	}}
}

// withoutLog removes lines of captured messages ("ERROR    tuned.units: ...").
func withoutLog(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(line, " ")
		switch word {
		case "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// call calls a method over the bus. after says what the step comes after, where
// a method is called several times.
func call(after, method string, args ...any) step {
	return step{strings.TrimSpace(fmt.Sprintf("%s%q %s", method, args, after)), func(c *client) string {
		return c.call(Path, daemon.Interface+"."+method, args...)
	}}
}

// object calls anything on any object.
func objectCall(path dbus.ObjectPath, method string, args ...any) step {
	return step{fmt.Sprintf("%s %s%q", path, method, args), func(c *client) string { return c.call(path, method, args...) }}
}

func (c *client) call(path dbus.ObjectPath, method string, args ...any) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := c.conn.Object(Name, path).CallWithContext(ctx, method, 0, args...)
	var failure dbus.Error
	switch {
	case errors.As(r.Err, &failure):
		return "error " + failure.Name
	case r.Err != nil:
		c.t.Errorf("%s: %v", method, r.Err)
	}
	var parts []string
	for _, v := range r.Body {
		parts = append(parts, canonical(v))
	}
	return strings.Join(parts, " ")
}

// canonical prints a value of the bus; lists of names are put into order.
func canonical(v any) string {
	switch v := v.(type) {
	case []string:
		v = slices.Clone(v)
		sort.Strings(v)
		return strings.Join(v, "\n")
	case [][]any:
		var lines []string
		for _, pair := range v {
			lines = append(lines, fmt.Sprintf("%q", pair))
		}
		sort.Strings(lines)
		return strings.Join(lines, "\n")
	case map[string]map[string]string:
		var lines []string
		for _, plugin := range slices.Sorted(maps.Keys(v)) {
			lines = append(lines, plugin)
			for _, option := range slices.Sorted(maps.Keys(v[plugin])) {
				lines = append(lines, fmt.Sprintf("%s %s=%s", plugin, option, v[plugin][option]))
			}
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("%#v", v)
}

// signals waits for n signals, and a little for one too many.
func signals(after string, n int) step {
	return step{"signals " + after, func(c *client) string {
		var got []string
		wait := time.Minute
		for {
			if len(got) == n {
				wait = 300 * time.Millisecond
			}
			select {
			case s := <-c.signals:
				got = append(got, fmt.Sprintf("%s %s %#v", s.Path, s.Name, s.Body))
				continue
			case <-time.After(wait):
			}
			return strings.Join(got, "\n")
		}
	}}
}

// forget drops the signals that came until now.
var forget = step{"(signals until here)", func(c *client) string {
	for {
		select {
		case <-c.signals:
			continue
		case <-time.After(5 * time.Second):
		}
		return ""
	}
}}

// file reads a file of the machine.
func file(after, name string) step {
	return step{name + " " + after, func(c *client) string {
		out, code := c.bus.Root.Run("cat", name)
		return fmt.Sprintf("%d %s", code, strings.TrimSpace(out))
	}}
}

// ask sends a request over the socket, by the real socat-like client that the
// root has: python.
func ask(request string) step {
	return step{"socket " + request, func(c *client) string {
		return strings.TrimSpace(c.bus.Root.Must("timeout", "120", "python3", "-c", `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode())
s.shutdown(socket.SHUT_WR)
data = b""
while True:
    more = s.recv(65536)
    if not more: break
    data += more
    try: json.loads(data); break
    except ValueError: pass
print(json.dumps(json.loads(data), sort_keys=True) if data else "")
`, socketPath, request))
	}}
}

// interfaces is what introspection tells, one line for each member.
func interfaces(path dbus.ObjectPath) step {
	return step{"introspection of " + string(path), func(c *client) string {
		var text string
		if err := c.conn.Object(Name, path).Call(introspectable+".Introspect", 0).Store(&text); err != nil {
			c.t.Error(err)
		}
		var node introspect.Node
		if err := xml.Unmarshal([]byte(text), &node); err != nil {
			c.t.Error(err)
		}
		lines := []string{"node " + node.Name}
		for _, n := range node.Children {
			lines = append(lines, "child "+n.Name)
		}
		for _, i := range node.Interfaces {
			for _, m := range i.Methods {
				lines = append(lines, fmt.Sprintf("%s.%s %v", i.Name, m.Name, m.Args))
			}
			for _, s := range i.Signals {
				lines = append(lines, fmt.Sprintf("%s signal %s %v", i.Name, s.Name, s.Args))
			}
			for _, p := range i.Properties {
				lines = append(lines, fmt.Sprintf("%s property %v", i.Name, p))
			}
		}
		sort.Strings(lines[1:])
		return strings.Join(lines, "\n")
	}}
}

// end stops the daemon as its unit does.
var end = step{"SIGTERM", func(c *client) string {
	c.daemon.Signal("TERM")
	return fmt.Sprint("owned: ", c.bus.Owned(Name))
}}

// compare compares what was seen, step by step.
func compare(t *testing.T, names []string, tuned, fettle map[string]string) {
	used := map[string]bool{}
	for _, name := range names {
		a, b := tuned[name], fettle[name]
		d, listed := listedDifference(name)
		used[d.steps] = used[d.steps] || listed
		switch {
		case !listed && a != b:
			t.Errorf("%s\n--- TuneD\n%s\n--- fettle\n%s", name, a, b)
		case listed && a == b:
			t.Errorf("%s: a difference is listed (%s), but both answer\n%s", name, d.why, a)
		case listed:
			if problem := d.holds(a, b); problem != "" {
				t.Errorf("%s: the listed difference (%s) does not hold: %s\n--- TuneD\n%s\n--- fettle\n%s", name, d.why, problem, a, b)
			}
		}
	}
	for _, d := range differences {
		if !used[d.steps] {
			t.Errorf("the difference listed for %q belongs to no step", d.steps)
		}
	}
}

func listedDifference(name string) (difference, bool) {
	for _, d := range differences {
		if slices.Contains(strings.Split(d.steps, "\n"), name) {
			return d, true
		}
	}
	return difference{}, false
}
