// Agent runs inside the virtual machine and runs programs on behalf of the test. The test
// root's fettle-agent.service starts it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/testkit/vm"
)

func main() {
	fmt.Fprintln(os.Stderr, "agent:", serve()) // it ends only by an error
	os.Exit(1)
}

func serve() error {
	port, err := open("/dev/virtio-ports/" + vm.Port)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(port)
	send := func(r vm.Reply) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "agent: reply:", err)
		}
	}
	send(vm.Reply{Boot: strings.TrimSpace(string(boot))})
	in := json.NewDecoder(port)
	for {
		var q vm.Request
		if err := in.Decode(&q); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		go func() { send(run(q)) }()
	}
}

// open waits until udev has created the port.
func open(path string) (*os.File, error) {
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil || time.Since(start) > time.Minute {
			return f, err
		}
	}
}

func run(q vm.Request) vm.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(q.TimeoutS*float64(time.Second)))
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, q.Argv[0], q.Argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(q.Stdin), &stdout, &stderr
	c.Env = append(os.Environ(), q.Env...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	// A daemon that a command leaves behind may keep its standard output open.
	c.WaitDelay = 500 * time.Millisecond
	err := c.Run()
	r := vm.Reply{ID: q.ID, Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.Code, r.Error = -1, fmt.Sprintf("killed after %g s", q.TimeoutS)
	case errors.As(err, &exit):
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			r.Code = 128 + int(s.Signal())
		} else {
			r.Code = s.ExitStatus()
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		r.Code, r.Error = -1, err.Error()
	}
	return r
}
