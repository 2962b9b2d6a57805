package product

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
)

// beingStopped reports whether systemd is stopping a service whose process still runs.
func beingStopped(ctx context.Context, h *host.Host, unit string) bool {
	if unit == "" || !host.HasSystemd(h) {
		return false
	}
	s, err := systemd.Show(ctx, h, unit)
	return err == nil && s.Active == "deactivating"
}

// controllable returns an error if systemd cannot reload or restart process p through a unit, for
// example because a cluster manager or a container engine started it. idle is true if p is stopped
// and has no unit: then nothing needs to be done.
func controllable(ctx context.Context, h *host.Host, unit string, p Process, restart bool) (idle bool, err error) {
	if strings.HasPrefix(unit, "user@") {
		return false, fmt.Errorf("process %d belongs to a user's systemd (%s); restart it as that user", p.PID, unit)
	}
	s, err := systemd.Show(ctx, h, unit)
	switch {
	case err != nil:
		return false, err
	case s.Load != "loaded" && p.PID == 0:
		return true, nil
	case s.Load == "masked":
		return false, fmt.Errorf("%s is masked and would not start again; run systemctl unmask first, or restart it by hand", unit)
	case s.Load != "loaded":
		return false, fmt.Errorf("systemd cannot load %s (%s); see systemctl status %s", unit, s.Load, unit)
	case p.PID != 0 && s.MainPID != 0 && s.MainPID != p.PID && s.MainPID != p.Parent:
		return false, fmt.Errorf("%s runs process %d, which runs process %d; restart that with the tools of %s", unit, s.MainPID, p.PID, unit)
	case !restart && !s.CanReload:
		return false, fmt.Errorf("%s cannot reload (no ExecReload=); restart it by hand", unit)
	}
	return false, nil
}

// Reload makes a process read its files again: through systemd if a unit runs it, otherwise by a
// signal.
func Reload(ctx context.Context, h *host.Host, p Process, signal string) error {
	if host.HasSystemd(h) && p.Unit != "" {
		return systemd.RunJob(ctx, h, "reload", p.Unit, 0, nil)
	}
	return sendSignal(ctx, h, signal, p.PID)
}
