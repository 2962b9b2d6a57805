package product

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// sendSignal sends a named signal to one process. It returns an error for a pid below 1, which
// kill(2) treats as a group.
func sendSignal(ctx context.Context, h *host.Host, name string, pid int) error {
	if pid <= 0 {
		return fmt.Errorf("SIG%s: invalid process id %d", name, pid)
	}
	_, err := host.Run(ctx, h, "/bin/sh", "-c", `kill -s "$1" "$2"`, "sh", name, strconv.Itoa(pid))
	return err
}

// Catches waits until a process catches a signal and does not block it (proc_pid_status(5), SigCgt
// and SigBlk). Before that, a process that re-executes itself may lose the signal or die from it.
func Catches(ctx context.Context, h *host.Host, pid int, signal syscall.Signal) error {
	return Until(ctx, func() error {
		text, err := h.Files.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return Final(err)
		}
		caught, blocked := false, false
		for line := range strings.Lines(string(text)) {
			name, mask, _ := strings.Cut(line, ":")
			set, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			in := err == nil && set&(1<<(signal-1)) != 0
			switch name {
			case "SigCgt":
				caught = in
			case "SigBlk":
				blocked = in
			}
		}
		switch {
		case !caught:
			return fmt.Errorf("process %d does not catch signal %d (%s)", pid, signal, signal)
		case blocked:
			return fmt.Errorf("process %d blocks signal %d (%s)", pid, signal, signal)
		}
		return nil
	})
}
