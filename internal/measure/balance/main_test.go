package balance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
)

// TestMain runs this program as a process to move, or as one that moves it, in tests and in a
// guest.
func TestMain(m *testing.M) {
	switch mode := os.Getenv("FETTLE_TEST_BALANCE"); mode {
	case "":
		os.Exit(m.Run())
	case "hold":
		hold()
	case "move":
		moveAndDie()
	default:
		panic(mode)
	}
}

// hold has memory interleaved over all nodes, under the default policy, and works. It starts a
// child for each line on standard input.
func hold() {
	mib, _ := strconv.Atoi(os.Args[1])
	runtime.LockOSThread()
	const interleave, mostNodes = 3, 64 // MPOL_INTERLEAVE (linux/mempolicy.h)
	text, _ := os.ReadFile("/sys/devices/system/node/online")
	nodes := uint64(1)
	if len(text) > 3 && text[1] == '-' {
		nodes = 1<<(text[2]-'0'+1) - 1
	}
	policy := func(mode, mask uintptr) {
		if _, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, mode, mask, mostNodes); errno != 0 {
			panic(errno)
		}
	}
	policy(interleave, uintptr(unsafe.Pointer(&nodes)))
	memory, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	policy(0, 0)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			child := exec.Command("sleep", "600")
			if err := child.Start(); err != nil {
				panic(err)
			}
			fmt.Println(child.Process.Pid)
		}
		if len(os.Args) < 3 { // the test has ended
			os.Exit(0)
		}
	}()
	fmt.Println("ready")
	if len(os.Args) < 3 {
		time.Sleep(time.Hour) // works only in the guest
	}
	for i := 0; ; i = (i + 4096) % len(memory) {
		memory[i]++
	}
}

func newEngine(dir string) *tune.Engine {
	h := host.Live()
	return &tune.Engine{Host: h, Kinds: table.Kinds(h), Plugins: table.All, StateDir: dir, Main: profile.DefaultMain(), User: "test", Reason: "test"}
}

// moveAndDie moves a process, and kills itself at the n-th point at which a crash could leave
// incomplete work: STATE-DIR N PID NODE CPUS. On a machine with several nodes, which is a guest, the
// kernel's balancing is off meanwhile.
func moveAndDie() {
	ctx, e := context.Background(), newEngine(os.Args[1])
	left, _ := strconv.Atoi(os.Args[2])
	e.At = func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err := moveTo(ctx, e, os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func moveTo(ctx context.Context, e *tune.Engine, pid, node, cpus string) (err error) {
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	task, err := e.Host.Sched.Task(number)
	if err != nil {
		return err
	}
	d := Decision{PID: number, Name: task.Comm, Nodes: node, CPUs: cpus, Move: true, id: task.TaskID}
	if d.spread, err = cpu.ReadSpread(e.Host, d.id); err != nil {
		return err
	}
	if len(placement.ReadNodes(e.Host).Nodes) > 1 {
		to, _ := strconv.Atoi(node)
		d.spread = cpu.Spread{to: d.spread.Total()}
		restore, err := switchOff(ctx, e)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	if err := move(ctx, e, &d); err != nil {
		return err
	}
	if d.Result != Moved {
		return fmt.Errorf("%+v", d)
	}
	return nil
}
