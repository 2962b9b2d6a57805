// testvm boots the Debian test root in QEMU, in software, with more hardware than the test
// machine: four NUMA nodes, NVMe, SCSI and virtio disks, two network devices. systemd, D-Bus,
// polkit and udev are unmodified. Only tests import it.

package vm

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options are the options of a virtual machine. The zero value is the machine in the package
// comment.
type Options struct {
	// Append is added to the kernel command line.
	Append string
	// Forward are TCP ports of the guest for Address, in addition to that of ssh.
	Forward []int
	// MemoryMiB is the size of main memory, a quarter of it on each node; 0 means 2048.
	MemoryMiB int
	// Servers adds the root with the servers whose tuning is tested (test/root/servers). Their
	// units and files are as installed, but disabled.
	Servers bool
	// ATA adds a disk on the SATA controller.
	ATA bool
	// Peripherals adds a USB controller with a tablet, and an HD Audio card.
	Peripherals bool
	// Queues makes two nodes of two CPUs, and adds a network device with four queues on node 1.
	// Its other end is a tap device of this machine that has only a link-local address.
	Queues bool
	// Ready is the systemd unit that Boot waits for; "" means multi-user.target.
	Ready string
	// ARM64 makes it a machine of arm64 with pages of 64 KiB (test/root/arm64), whose kernel has
	// no modules: there are no NVMe and SCSI disks. It has no ssh, servers or TuneD.
	ARM64 bool
	// EveryTier boots the machine in make test too. Other machines belong to the slow matrix,
	// which make test-nightly runs.
	EveryTier bool
}

// VM is one virtual machine. It ends with its test. Its root disk starts as the cached image,
// which is never written; changes of the machine persist across Reboot and Kill, until the VM
// ends.
type VM struct {
	t       testing.TB
	o       Options
	cache   string // kernel and disk
	dir     string // sockets, overlay, disks, the console's log
	share   string // /run/test in the guest
	ports   map[int]int
	qemu    *exec.Cmd
	ended   <-chan struct{}
	monitor *monitor
	stderr  bytes.Buffer

	mu      sync.Mutex
	conn    net.Conn
	bootID  string
	boots   chan string
	waiting map[int64]chan Reply
	next    int64
	added   []addedDisk
	disks   int
}

// bootTime limits the time of a boot until the machine is ready: it needs about 55 s of
// processor time, and the processors are often not idle.
const bootTime = 12 * time.Minute

// Boot starts a machine and waits until it is ready. Tests of one package should share a
// machine: boot in a parent test and use t.Run.
func Boot(t testing.TB, o Options) *VM {
	t.Helper()
	vm := build(t, o)
	vm.Start()
	return vm
}

// Append adds to the kernel command line from the next boot on. QEMU starts the kernel itself,
// so tests of a boot loader's file must read the file.
func (vm *VM) Append(arguments string) { vm.o.Append += " " + arguments }

func (vm *VM) file(name string) string { return filepath.Join(vm.dir, name) }

func (vm *VM) command(argv ...string) {
	vm.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		vm.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// Start switches on a machine after Kill or Poweroff, and waits until it is ready.
func (vm *VM) Start() {
	vm.t.Helper()
	if vm.Running() {
		vm.t.Fatal("testvm: the machine is already running")
	}
	for boots := 1; ; boots++ {
		err := vm.start(bootTime)
		if err == nil {
			return
		}
		if !errors.Is(err, errWedged) || boots == mostBoots {
			vm.t.Fatal(err)
		}
		vm.t.Logf("the power is cut, and the machine switched on again: %v", err)
	}
}

// start switches the machine on and waits until it is ready, at most the time within. The error
// describes the machine's state; after errWedged the machine is off again.
func (vm *VM) start(within time.Duration) error {
	wedged := vm.watch()
	err := vm.boot(within)
	if state := wedged(); state != "" {
		return fmt.Errorf("%w\n%s", errWedged, state)
	}
	return err
}

func (vm *VM) boot(within time.Duration) error {
	end := time.Now().Add(within)
	os.Remove(vm.file("agent"))
	os.Remove(vm.file("qmp"))
	vm.stderr.Reset()
	vm.monitor = nil
	vm.qemu = exec.Command(vm.o.program(), vm.arguments()...)
	vm.qemu.Stderr = &vm.stderr
	ended, err := startToDie(vm.qemu)
	if err != nil {
		return err
	}
	vm.ended = ended
	conn, err := vm.dial("agent", end)
	if err != nil {
		return err
	}
	vm.mu.Lock()
	vm.conn, vm.bootID = conn, ""
	vm.boots = make(chan string, 16)
	vm.waiting = map[int64]chan Reply{}
	vm.mu.Unlock()
	go vm.listen(conn, vm.boots)
	if conn, err = vm.dial("qmp", end); err != nil {
		return err
	}
	if vm.monitor, err = newMonitor(conn); err != nil {
		return err
	}
	if vm.o.Queues {
		vm.command("ip", "link", "set", vm.Tap(), "up")
	}
	return vm.waitReady(end)
}

// dial connects to a socket that QEMU is about to create.
func (vm *VM) dial(name string, end time.Time) (net.Conn, error) {
	for {
		conn, err := net.Dial("unix", vm.file(name))
		if err == nil {
			return conn, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("qemu runs, and has not opened its socket: %w", err)
		}
		select {
		case <-vm.ended:
			return nil, fmt.Errorf("qemu ended: %s", vm.stderr.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (vm *VM) waitReady(end time.Time) error {
	began := time.Now()
	select {
	case <-vm.boots:
	case <-vm.ended:
		return fmt.Errorf("qemu ended during the boot: %s", vm.stderr.String())
	case <-time.After(time.Until(end)):
		return fmt.Errorf("the virtual machine did not boot within %s\n%s", time.Since(began).Round(time.Second), vm.state())
	}
	// To start a unit that the boot is starting waits for it without polling, which would slow
	// down the boot.
	left := max(time.Until(end), time.Minute)
	r, err := vm.Exec(Request{TimeoutS: left.Seconds(), Argv: []string{"systemctl", "start", vm.o.Ready}})
	switch {
	case err != nil: // the error includes the state
		return fmt.Errorf("%s did not become active: %w", vm.o.Ready, err)
	case r.Error != "" || r.Code != 0:
		return fmt.Errorf("%s did not become active: %s%s%s\n%s", vm.o.Ready, r.Error, r.Stdout, r.Stderr, vm.jobs())
	}
	return nil
}

// jobs describes what systemd is waiting for and what has failed, if the guest answers.
func (vm *VM) jobs() string {
	r, err := vm.Exec(Request{TimeoutS: 120, Argv: []string{"sh", "-c",
		"systemctl list-jobs --no-pager; systemctl --failed --no-pager; journalctl --no-pager --boot --lines 50"}})
	if err != nil {
		return fmt.Sprintf("its jobs are not known: %v\n", err)
	}
	return string(r.Stdout) + string(r.Stderr)
}

// Running reports whether the machine is switched on.
func (vm *VM) Running() bool {
	if vm.qemu == nil {
		return false
	}
	select {
	case <-vm.ended:
		return false
	default:
		return true
	}
}

// Reboot restarts the guest as an administrator does, and waits until it is ready. Hot-plugged
// disks remain plugged in.
func (vm *VM) Reboot() {
	vm.t.Helper()
	// Like "systemctl reboot", but without starting logind for the request.
	vm.RebootWith("systemctl start --no-block --job-mode=replace-irreversibly reboot.target")
}

// RebootWith restarts the guest with the given command ("echo b >/proc/sysrq-trigger" is the
// reset button) and waits until it is ready.
func (vm *VM) RebootWith(command string) {
	vm.t.Helper()
	go vm.Exec(Request{Argv: []string{"sh", "-c", command}, TimeoutS: bootTime.Seconds()})
	select {
	case <-vm.ended:
	case <-time.After(bootTime):
		vm.t.Fatalf("the virtual machine did not go down within %s of %q\n%s", bootTime, command, vm.state())
	}
	vm.Start()
}

// Kill cuts the power: data that the guest has not flushed is lost. Start switches it on again.
func (vm *VM) Kill() {
	if vm.Running() {
		vm.qemu.Process.Kill()
		<-vm.ended
	}
}

// Poweroff shuts the guest down cleanly.
func (vm *VM) Poweroff() {
	vm.t.Helper()
	go vm.Exec(Request{Argv: []string{"systemctl", "poweroff"}, TimeoutS: 60})
	select {
	case <-vm.ended:
	case <-time.After(bootTime):
		vm.t.Fatalf("the virtual machine did not power off within %s\n%s", bootTime, vm.state())
	}
}

// Console returns what the guest has printed on its serial line.
func (vm *VM) Console() string {
	data, err := os.ReadFile(vm.file("console"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(data)
}
