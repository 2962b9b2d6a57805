package live

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
	"fettle.dev/fettle/internal/kube/kubelet/node"
	"fettle.dev/fettle/internal/testvm"
)

const inVM = "FETTLE_TEST_UNIT_IN_VM"

const unitFile = `[Service]
ExecStart=/bin/sh -c 'test ! -e /run/broken || { echo "configured policy differs"; exit 1; }; exec sleep 6000'
Restart=always
RestartSec=1
`

// TestUnitInVM: a unit as the kubelet's under a real systemd.
func TestUnitInVM(t *testing.T) {
	if os.Getenv(inVM) != "" {
		underSystemd(t)
		return
	}
	if testing.Short() || os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		t.Skip("boots a machine; FETTLE_TEST_NIGHTLY=1 runs it")
	}
	program := filepath.Join(t.TempDir(), "live.test")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vm := testvm.Boot(t, testvm.Options{MemoryMiB: 1024})
	vm.Put(program, "/root/live.test")
	vm.Write("/etc/systemd/system/kubelet.service", unitFile)
	vm.Must("systemctl daemon-reload && systemctl start kubelet.service")
	out, code := vm.Run(inVM + "=1 /root/live.test -test.v -test.run '^TestUnitInVM$' 2>&1")
	if code != 0 || !strings.Contains(out, "--- PASS") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func underSystemd(t *testing.T) {
	u := &Unit{Host: host.Live(), Name: "kubelet.service", GuardAfter: 15 * time.Second}
	is := func(unit string) string {
		out, _ := exec.Command("systemctl", "is-active", unit).Output() // another state is exit code 3
		return strings.TrimSpace(string(out))
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
	do(u.Ended)
	do(u.Stop)
	if is(u.Name) != "inactive" || is(guard+".timer") != "active" {
		t.Errorf("stopped: kubelet %s, guard %s", is(u.Name), is(guard+".timer"))
	}
	if err := u.Ended(t.Context()); !errors.Is(err, node.ErrEnded) {
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
	if err := os.WriteFile("/run/broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do(u.Start)
	wait("its end", func() bool { return errors.Is(u.Ended(t.Context()), node.ErrEnded) })
	wait("its last words", func() bool { return strings.Contains(u.LastWords(t.Context()), "configured policy differs") })
	do(u.Stop)
	if err := os.Remove("/run/broken"); err != nil {
		t.Fatal(err)
	}
	do(u.Start)
	wait("the start", func() bool { return is(u.Name) == "active" })
	do(u.Ended)
	do(u.Stop)
}
