package slow_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// mutex.py: threads that hold one mutex of glibc in turn, and sleep meanwhile.
const mutexScript = `import ctypes, threading
c = ctypes.CDLL(None)
m = ctypes.create_string_buffer(64)
def work():
    while True:
        c.pthread_mutex_lock(m); c.usleep(10000); c.pthread_mutex_unlock(m)
for _ in range(40): threading.Thread(target=work).start()
`

// thrash.py: writes to random pages of 120 MiB.
const thrashScript = `import mmap, random
n = 120 << 8
m = mmap.mmap(-1, n << 12)
while True: m[random.randrange(n) << 12] = 1
`

// deaf.py: listens and never accepts. clients.py: connects again and again.
const (
	deafScript = `import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8080)); s.listen(128)
time.sleep(1e6)
`
	clientsScript = `import socket, threading
def one():
    while True:
        s = socket.socket(); s.settimeout(1)
        try: s.connect(("127.0.0.1", 8080)); s.recv(1)
        except OSError: pass
        s.close()
for _ in range(20): threading.Thread(target=one).start()
`
)

// run starts units of shell commands in a guest.
func run(vm *testkitvm.VM, unit, command string, properties ...string) {
	more := ""
	for _, p := range properties {
		more += " --property=" + p
	}
	vm.Must("systemd-run --quiet --unit=" + unit + more + " " + command)
}

const burners = `sh -c 'for i in 1 2 3 4 5 6; do while :; do :; done & done; wait'`

// TestGuest makes a machine slow in different ways. Each time fettle check names the reason and
// the unit. A machine that the host delays is asked again.
func TestGuest(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{MemoryMiB: 1024})
	vm.Put(root.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	for name, text := range map[string]string{"mutex": mutexScript, "thrash": thrashScript, "deaf": deafScript, "clients": clientsScript} {
		vm.Write("/root/"+name+".py", text)
	}
	for _, c := range []struct {
		name  string
		begin func()
		// reason is the id of the most likely reason, item its item, and unit who is named.
		reason, item, unit string
		stop               string
	}{
		{"mutex", func() { run(vm, "locked", "python3 /root/mutex.py") }, "lock", "python3 (pid", "locked.service", "locked"},
		{"listen queue", func() {
			vm.Must("sysctl -q net.core.somaxconn=4")
			run(vm, "deaf", "python3 /root/deaf.py")
			run(vm, "clients", "python3 /root/clients.py")
		}, "listen-queue", "8080", "deaf.service", "clients deaf"},
		{"memory limit", func() {
			vm.Must("dd if=/dev/zero of=/swapfile bs=1M count=200 && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile")
			run(vm, "thrash", "python3 /root/thrash.py", "MemoryMax=60M")
		}, "memory-limit", "/system.slice/thrash.service", "thrash.service", "thrash"},
		{"disk", func() {
			disk := "/dev/disk/by-id/virtio-" + vm.AddDisk("virtio")
			vm.Must("until [ -b " + disk + " ]; do sleep 0.2; done; modprobe dm-delay && dmsetup create slow --table \"0 $(blockdev --getsz " + disk + ") delay " + disk + " 0 300\"")
			run(vm, "reader", "sh -c 'while :; do dd if=/dev/mapper/slow of=/dev/null bs=4k count=100 iflag=direct; done'")
		}, "disk", "dm-0", "reader.service", "reader"},
		{"CPU limit", func() { run(vm, "capped", burners, "CPUQuota=20%") }, "cpu-throttled", "/system.slice/capped.service", "capped.service", ""},
		{"neighbor, next to a CPU limit", func() {
			// fettle has as many shares as the neighbor.
			run(vm, "neighbor", burners)
			run(vm, "victim", burners, "CPUWeight=10")
		}, "cpu", "", "neighbor.service", "neighbor victim capped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.begin()
			var d *slow.Diagnosis
			if !root.Eventually(5*time.Minute, func() bool {
				d = diagnose(t, vm)
				return d.Reason == c.reason && strings.HasPrefix(d.Causes[0].Item, c.item) && names(d, c.unit)
			}) {
				t.Errorf("the reason is %q: %+v, %+v", d.Reason, d.Causes, d.Who)
			}
			t.Log(d.Headline.Lines, d.Lines())
			if c.stop != "" {
				vm.Must("systemctl kill --signal=KILL " + c.stop)
			}
		})
	}
}

// diagnose runs fettle check in a guest.
func diagnose(t *testing.T, vm *testkitvm.VM) *slow.Diagnosis {
	t.Helper()
	var audit struct{ Slow *slow.Diagnosis }
	if err := json.Unmarshal([]byte(vm.Must("fettle check --output json 2>/dev/null")), &audit); err != nil || audit.Slow == nil {
		t.Fatal("no diagnosis: ", err)
	}
	return audit.Slow
}

// names reports whether a unit is named as the one that uses or waits the most.
func names(d *slow.Diagnosis, unit string) bool {
	for _, r := range d.Who {
		if r.Group != nil && r.Group.Unit == unit {
			return true
		}
	}
	return false
}
