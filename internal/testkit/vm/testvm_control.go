package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// errGone is returned if a reboot or a power cut prevented an answer.
var errGone = errors.New("the machine went down before it answered")

// startToDie starts a command that ends with this process, even if a test times out and no
// cleanup runs. The channel is closed when the command has ended.
func startToDie(c *exec.Cmd) (<-chan struct{}, error) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends the signal when the thread that forked ends, so the thread must
		// live as long as the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := c.Start()
		started <- err
		if err == nil {
			c.Wait()
		}
	}()
	return ended, <-started
}

// listen reads lines from the agent until the connection ends.
func (vm *VM) listen(conn net.Conn, boots chan<- string) {
	in := json.NewDecoder(conn)
	for {
		var r Reply
		if err := in.Decode(&r); err != nil {
			vm.dropWaiting()
			return
		}
		if r.Boot != "" {
			vm.dropWaiting()
			vm.mu.Lock()
			again := r.Boot == vm.bootID // the agent was restarted, not the machine
			vm.bootID = r.Boot
			vm.mu.Unlock()
			if !again {
				select {
				case boots <- r.Boot:
				default: // too many boots
				}
			}
			continue
		}
		vm.mu.Lock()
		answer := vm.waiting[r.ID]
		delete(vm.waiting, r.ID)
		vm.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
}

func (vm *VM) dropWaiting() {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	for id, answer := range vm.waiting {
		close(answer)
		delete(vm.waiting, id)
	}
}

// Exec runs a program in the guest over the serial channel, which needs no network. A TimeoutS
// of 0 means ten minutes. Calls may be concurrent.
func (vm *VM) Exec(q Request) (Reply, error) {
	if q.TimeoutS == 0 {
		q.TimeoutS = 600
	}
	answer := make(chan Reply, 1)
	vm.mu.Lock()
	vm.next++
	q.ID = vm.next
	vm.waiting[q.ID] = answer
	err := json.NewEncoder(vm.conn).Encode(q)
	vm.mu.Unlock()
	if err != nil {
		return Reply{}, err
	}
	select {
	case r, ok := <-answer:
		if !ok {
			return r, errGone
		}
		return r, nil
	case <-vm.ended:
		return Reply{}, errGone
	case <-time.After(time.Duration(q.TimeoutS*float64(time.Second)) + 30*time.Second):
		return Reply{}, fmt.Errorf("no answer within %g s and 30 s more\n%s", q.TimeoutS, vm.state())
	}
}

// Run runs a shell command in the guest and returns its output, standard error after standard
// output, and its exit code.
func (vm *VM) Run(command string) (output string, code int) {
	vm.t.Helper()
	return vm.RunFor(0, command)
}

// RunFor runs a command like Run, which may take longer than ten minutes.
func (vm *VM) RunFor(within time.Duration, command string) (output string, code int) {
	vm.t.Helper()
	r, err := vm.Exec(Request{Argv: []string{"sh", "-c", command}, TimeoutS: within.Seconds()})
	if err != nil {
		vm.t.Fatalf("%s: %v", command, err)
	}
	if r.Error != "" {
		vm.t.Fatalf("%s: %s\n%s%s", command, r.Error, r.Stdout, r.Stderr)
	}
	return string(r.Stdout) + string(r.Stderr), r.Code
}

// Must runs a command like Run, and fails the test unless the exit code is 0.
func (vm *VM) Must(command string) string {
	vm.t.Helper()
	out, code := vm.Run(command)
	if code != 0 {
		vm.t.Fatalf("%s: exit %d\n%s", command, code, out)
	}
	return out
}

// Put copies a file of this machine to the guest, with its mode.
func (vm *VM) Put(from, to string) {
	vm.t.Helper()
	vm.mu.Lock()
	vm.next++
	name := fmt.Sprintf("put%d", vm.next)
	vm.mu.Unlock()
	copyFile(vm.t, from, filepath.Join(vm.share, name))
	vm.Must(fmt.Sprintf("mkdir -p %q && cp --preserve=mode /run/test/%s %q && rm /run/test/%s && sync %q",
		filepath.Dir(to), name, to, name, to))
}

// Write creates a file in the guest.
func (vm *VM) Write(name, content string) {
	vm.t.Helper()
	r, err := vm.Exec(Request{Stdin: []byte(content),
		Argv: []string{"sh", "-c", `mkdir -p "$(dirname "$0")" && cat >"$0"`, name}})
	if err != nil || r.Code != 0 {
		vm.t.Fatalf("write %s: %v %s%s", name, err, r.Error, r.Stderr)
	}
}

// Read returns the content of a file in the guest.
func (vm *VM) Read(name string) string {
	vm.t.Helper()
	r, err := vm.Exec(Request{Argv: []string{"cat", name}})
	if err != nil || r.Code != 0 {
		vm.t.Fatalf("read %s: %v %s%s", name, err, r.Error, r.Stderr)
	}
	return string(r.Stdout)
}

// BootID returns the boot id of the guest's kernel.
func (vm *VM) BootID() string {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return vm.bootID
}

// Address returns host:port on this machine's loopback for a forwarded port of the guest.
func (vm *VM) Address(port int) string {
	vm.t.Helper()
	host, ok := vm.ports[port]
	if !ok {
		vm.t.Fatalf("testvm: port %d is not in Options.Forward", port)
	}
	return fmt.Sprintf("127.0.0.1:%d", host)
}

// SSH returns an ssh command that logs in as root over the network device net0 and runs argv,
// or a shell if argv is empty.
func (vm *VM) SSH(argv ...string) *exec.Cmd {
	vm.t.Helper()
	return exec.Command("ssh", append([]string{"-F", "none", "-q", "-p", fmt.Sprint(vm.ports[22]),
		"-i", vm.file("key"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=60",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "ServerAliveInterval=5", "root@127.0.0.1"}, argv...)...)
}

// SetLink connects or disconnects the cable of a network device (net0, net1).
func (vm *VM) SetLink(device string, up bool) {
	vm.t.Helper()
	vm.Monitor("set_link", map[string]any{"name": device, "up": up})
}

// AddDisk plugs an empty disk of 64 MiB into the running machine. kind is "scsi", "virtio" or
// "nvme" (at most four of the latter two). The returned name is the disk's serial number, for
// RemoveDisk.
func (vm *VM) AddDisk(kind string) string {
	vm.t.Helper()
	vm.mu.Lock()
	vm.disks++
	n := vm.disks
	vm.mu.Unlock()
	name := fmt.Sprintf("added%d", n)
	vm.makeDisk(name+".raw", 64)
	vm.Monitor("blockdev-add", map[string]any{"driver": "raw", "node-name": name,
		"file": map[string]any{"driver": "file", "filename": vm.file(name + ".raw")}})
	d := addedDisk{name: name, bus: fmt.Sprintf("hot%d", n-1)}
	switch kind {
	case "scsi":
		d.driver, d.bus = "scsi-hd", "scsi0.0"
	case "virtio":
		d.driver = "virtio-blk-pci"
	case "nvme":
		d.driver = "nvme"
	default:
		vm.t.Fatalf("testvm: no such kind of disk: %s", kind)
	}
	vm.Monitor("device_add", map[string]any{"driver": d.driver, "bus": d.bus,
		"id": name + "-dev", "drive": name, "serial": name})
	vm.added = append(vm.added, d)
	return name
}

// addedDisk is a disk of AddDisk, which the next Start plugs in again.
type addedDisk struct{ name, driver, bus string }

// RemoveDisk unplugs a disk that AddDisk plugged in.
func (vm *VM) RemoveDisk(name string) {
	vm.t.Helper()
	vm.Monitor("device_del", map[string]any{"id": name + "-dev"})
	vm.added = slices.DeleteFunc(vm.added, func(d addedDisk) bool { return d.name == name })
}

// Monitor sends QEMU a command of its machine protocol (QMP) and returns the answer.
func (vm *VM) Monitor(command string, arguments map[string]any) json.RawMessage {
	vm.t.Helper()
	answer, err := vm.monitor.execute(command, arguments)
	if err != nil {
		vm.t.Fatalf("qemu: %s: %v", command, err)
	}
	return answer
}

// monitor is a QMP connection: one JSON value per line, with events in between.
type monitor struct {
	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
}

func newMonitor(conn net.Conn) (*monitor, error) {
	m := &monitor{conn: conn, in: json.NewDecoder(conn)}
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	var greeting json.RawMessage
	if err := m.in.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qemu's greeting: %w", err)
	}
	_, err := m.execute("qmp_capabilities", nil)
	return m, err
}

func (m *monitor) execute(command string, arguments map[string]any) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn.SetDeadline(time.Now().Add(time.Minute))
	q := map[string]any{"execute": command}
	if arguments != nil {
		q["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(q); err != nil {
		return nil, err
	}
	for {
		var r struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := m.in.Decode(&r); err != nil {
			return nil, err
		}
		if r.Error != nil {
			return nil, errors.New(r.Error.Desc)
		}
		if r.Return != nil {
			return r.Return, nil
		}
	}
}
