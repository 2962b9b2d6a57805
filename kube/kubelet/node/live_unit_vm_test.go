package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

const (
	inVM   = "FETTLE_TEST_UNIT_IN_VM"
	rootVM = "FETTLE_TEST_UNIT_ROOT" // where the machine's root is mounted; "" where it is this one
)

// inPod runs a program as in the agent's pod: with its own root, which has the machine's root at
// /host, and with the machine's processes.
const inPod = `mkdir -p /pod/host /pod/proc /pod/dev && cp /root/live.test /pod/ && unshare --mount sh -c '
mount --rbind / /pod/host && mount --rbind /proc /pod/proc && mount --rbind /dev /pod/dev &&
exec env ` + inVM + `=1 ` + rootVM + `=/host chroot /pod /live.test -test.v -test.run "^TestUnitInVM$"' 2>&1`

const unitFile = `[Service]
ExecStart=/bin/sh -c 'test ! -e /run/broken || { echo "configured policy differs"; exit 1; }; exec sleep 6000'
Restart=always
RestartSec=1
`

// TestUnitInVM tests a unit like the kubelet's with a real systemd, from the machine itself and
// from a pod with the machine's root.
func TestUnitInVM(t *testing.T) {
	if os.Getenv(inVM) != "" {
		underSystemd(t)
		return
	}
	testkitroot.Nightly(t, "boots a machine")
	program := testkitvm.Tests(t, ".")
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	vm.Put(program, "/root/live.test")
	vm.Write("/etc/systemd/system/kubelet.service", unitFile)
	vm.Must("systemctl daemon-reload && systemctl start kubelet.service")
	for _, command := range []string{inVM + "=1 /root/live.test -test.v -test.run '^TestUnitInVM$' 2>&1", "systemctl start kubelet.service && " + inPod} {
		if out, code := vm.Run(command); code != 0 || !strings.Contains(out, "--- PASS") {
			t.Errorf("%s: exit code %d\n%s", command, code, out)
		}
	}
}

func underSystemd(t *testing.T) {
	h := host.Live()
	if root := os.Getenv(rootVM); root != "" {
		h = host.Node(root)
		if out, err := exec.LookPath("systemctl"); err == nil {
			t.Fatalf("this is the machine's own root: it has %s", out)
		}
	}
	broken := filepath.Join("/", os.Getenv(rootVM), "run/broken")
	u := &Unit{Host: h, Name: "kubelet.service", GuardAfter: 15 * time.Second}
	is := func(unit string) string {
		r, err := h.Exec.Run(t.Context(), host.Command{Argv: []string{"systemctl", "is-active", unit}}) // another state is exit code 3
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(r.Stdout))
	}
	do := func(what func(context.Context) error) {
		t.Helper()
		if err := what(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited for %s: kubelet %s, guard %s", what, is(u.Name), is(guard+".timer"))
			}
		}
	}
	do(u.Check)
	if err := (&Unit{Host: h, Name: "other.service"}).Check(t.Context()); err == nil {
		t.Error("a unit that there is not is one")
	}
	do(u.Ended)
	do(u.Stop)
	if is(u.Name) != "inactive" || is(guard+".timer") != "active" {
		t.Errorf("stopped: kubelet %s, guard %s", is(u.Name), is(guard+".timer"))
	}
	if err := u.Ended(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("one that was stopped: %v", err)
	}
	do(u.Start)
	wait("the start", func() bool { return is(u.Name) == "active" })
	if is(guard+".timer") == "active" {
		t.Error("the guard is left")
	}
	do(u.Ended)

	// Whoever has stopped it is no more.
	do(u.Stop)
	wait("the guard", func() bool { return is(u.Name) == "active" })
	do(u.Stop) // the one who comes next
	do(u.Start)
	wait("the start", func() bool { return is(u.Name) == "active" })

	// One that does not start is started again and again, and is seen to have ended.
	do(u.Stop)
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do(u.Start)
	wait("its end", func() bool { return errors.Is(u.Ended(t.Context()), ErrEnded) })
	wait("its last words", func() bool { return strings.Contains(u.LastWords(t.Context()), "configured policy differs") })
	do(u.Stop)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	do(u.Start)
	wait("the start", func() bool { return is(u.Name) == "active" })
	do(u.Ended)
	do(u.Stop)
}
