package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/testkit/vm"
)

// guest is a virtual machine (internal/testkit/vm) next to a test that runs inside a root. The
// root has neither QEMU nor this machine's network; so the process that has started the
// root has the machine, and does what the test asks of it through a socket that both see.
// The machine reaches the test's API server, and nothing else, by a tunnel of ssh from its
// own loopback to another such socket.
type guest struct {
	t    *testing.T
	conn net.Conn
	in   *json.Decoder
}

// The sockets, in Setup.Shared.
const (
	guestSocket = "guest" // orders to the machine
	apiSocket   = "api"   // leads to the API server
)

// apiInGuest is where the machine reaches the API server: as server, whose certificate is
// good for it.
const apiInGuest = "127.0.0.1:443"

// order is one thing that the test asks of its machine; exactly one field is set.
type order struct {
	Run   string     `json:",omitempty"` // a shell command
	Write *guestFile `json:",omitempty"`
	Cut   bool       `json:",omitempty"` // the power is cut: nothing is kept that was not flushed
	Start bool       `json:",omitempty"` // it is switched on again
	Reach bool       `json:",omitempty"` // the tunnel to the API server is opened
}

type guestFile struct{ Name, Content string }

// carriedOut is the answer.
type carriedOut struct {
	Output string
	Code   int
	Boot   string // the boot id of the machine's kernel
}

// insideWithGuest is Inside with a machine next to the test, which is nil where Inside is
// false. programs are main packages of the repository and the names that they get in the
// machine. It is of the slow matrix alone.
func insideWithGuest(t *testing.T, s Setup, o vm.Options, programs map[string]string) *guest {
	t.Helper()
	if _, inside := os.LookupEnv(cgroupEnv); inside && Inside(t, s) {
		conn, err := net.Dial("unix", filepath.Join(SharedDir, guestSocket))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		lead(t, filepath.Join(SharedDir, apiSocket), apiInGuest)
		return &guest{t, conn, json.NewDecoder(conn)}
	}
	root.Nightly(t, "boots a machine beside a real Kubernetes")
	// Short, because unix socket addresses hold 108 bytes at most.
	dir, err := os.MkdirTemp("/tmp", "fettle-guest-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, guestSocket))
	if err != nil {
		t.Fatal(err)
	}
	// A test of its own, since a test may end itself in its own goroutine alone. It boots
	// while the cluster starts.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer l.Close()
		t.Run("machine", func(t *testing.T) { serveGuest(t, l, filepath.Join(dir, apiSocket), o, programs) })
	}()
	defer func() { l.Close(); <-ended }()
	s.Shared, s.Nightly = dir, true
	Inside(t, s)
	return nil
}

// serveGuest boots the machine and does what it is asked until the requests end.
func serveGuest(t *testing.T, l net.Listener, api string, o vm.Options, programs map[string]string) {
	vm := vm.Boot(t, o)
	for pkg, name := range programs {
		vm.Put(root.Program(t, pkg), name)
	}
	conn, err := l.Accept()
	if err != nil {
		return // the test has ended without it
	}
	defer conn.Close()
	away := func() {}
	defer func() { away() }()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var what order
		if err := in.Decode(&what); err != nil {
			return
		}
		var did carriedOut
		switch {
		case what.Write != nil:
			vm.Write(what.Write.Name, what.Write.Content)
		case what.Cut:
			vm.Kill()
			away()
		case what.Start:
			vm.Start()
		case what.Reach:
			away()
			away = tunnel(t, vm, api)
		default:
			did.Output, did.Code = vm.Run(what.Run)
		}
		did.Boot = vm.BootID()
		if err := out.Encode(did); err != nil {
			return
		}
	}
}

// tunnel opens the way from the machine's loopback to the socket of the API server, and
// returns what closes it. A machine that has just booted may be slow to accept logins.
func tunnel(t *testing.T, vm *vm.VM, api string) (away func()) {
	t.Helper()
	end := time.Now().Add(10 * time.Minute)
	for {
		ssh := vm.SSH("-N", "-o", "ExitOnForwardFailure=yes", "-R", apiInGuest+":"+api)
		var said bytes.Buffer
		ssh.Stdout, ssh.Stderr = &said, &said
		if err := ssh.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = ssh.Wait(); close(ended) }()
		away = func() { _ = ssh.Process.Kill(); <-ended }
		for running := true; running; {
			if _, code := vm.Run("exec bash -c 'exec 3<>/dev/tcp/" + strings.Replace(apiInGuest, ":", "/", 1) + "' 2>/dev/null"); code == 0 {
				return away
			}
			if time.Now().After(end) {
				away()
				t.Fatalf("no tunnel from the machine to the API server: %s", &said)
			}
			select {
			case <-ended:
				running = false
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

// lead passes on whatever connects to a socket to an address of the root's network, until
// the test ends.
func lead(t *testing.T, socket, address string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", address)
				if err != nil {
					return // the API server is away, and the machine sees that
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from); to.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
}

func (g *guest) do(what order) carriedOut {
	g.t.Helper()
	var did carriedOut
	err := json.NewEncoder(g.conn).Encode(what)
	if err == nil {
		err = g.in.Decode(&did)
	}
	if err != nil {
		g.t.Fatalf("the machine beside the test is gone, and what it has said stands below: %v", err)
	}
	return did
}

// run runs a shell command in the machine.
func (g *guest) run(command string) (output string, code int) {
	g.t.Helper()
	did := g.do(order{Run: command})
	return did.Output, did.Code
}

// must is run that fails the test unless the command exits with 0.
func (g *guest) must(command string) string {
	g.t.Helper()
	out, code := g.run(command)
	if code != 0 {
		g.t.Fatalf("in the machine: %s: exit code %d\n%s", command, code, out)
	}
	return out
}

// write makes a file in the machine, with the directories above it.
func (g *guest) write(name, format string, a ...any) {
	g.t.Helper()
	g.do(order{Write: &guestFile{name, fmt.Sprintf(format, a...)}})
}

// cut cuts the power, as QEMU is killed: nothing is told that its end is near.
func (g *guest) cut() { g.t.Helper(); g.do(order{Cut: true}) }

// start switches the machine on again, and returns the id of the new boot.
func (g *guest) start() (boot string) { g.t.Helper(); return g.do(order{Start: true}).Boot }

// reach lets the machine reach the API server, until the power is cut.
func (g *guest) reach() { g.t.Helper(); g.do(order{Reach: true}) }
