package balance

import (
	"bufio"
	"context"
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
// incomplete work: STATE-DIR N PID CPUS. On a machine with several nodes it moves it to the nodes
// that it chooses.
func moveAndDie() {
	ctx, e := context.Background(), newEngine(os.Args[1])
	left, _ := strconv.Atoi(os.Args[2])
	e.At = func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	state, err := e.State()
	if err != nil {
		panic(err)
	}
	r, err := Plan(ctx, e.Host, state, Options{Processes: os.Args[3:4], Utilization: 120, Local: 90}, os.Getpid())
	switch {
	case err != nil:
	case r.Nodes > 1:
		err = Run(ctx, e, r, os.Getpid())
	default:
		pid, _ := strconv.Atoi(os.Args[3])
		var task host.Task
		if task, err = e.Host.Sched.Task(pid); err == nil {
			d := Decision{PID: pid, Name: task.Comm, Nodes: "0", CPUs: os.Args[4], Move: true, id: task.TaskID}
			if d.spread, err = cpu.ReadSpread(e.Host, d.id); err == nil {
				if err = move(ctx, e, &d); err == nil && d.Result != Moved {
					err = fmt.Errorf("%+v", d)
				}
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
