package product

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// Signal sends a signal by its name to one process: 0 and less, which kill(2) takes for
// groups of them, are refused.
func Signal(ctx context.Context, h *host.Host, name string, pid int) error {
	if pid <= 0 {
		return fmt.Errorf("SIG%s is for one process, and %d is the number of none", name, pid)
	}
	_, err := host.Run(ctx, h, "/bin/sh", "-c", `kill -s "$1" "$2"`, "sh", name, strconv.Itoa(pid))
	return err
}

// Catches waits until a process catches a signal and does not hold it back
// (proc_pid_status(5), SigCgt and SigBlk): one that starts itself anew may lose what
// comes before, or end by it. The error says which it still does when ctx ends.
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
			return fmt.Errorf("process %d holds back signal %d (%s)", pid, signal, signal)
		}
		return nil
	})
}
