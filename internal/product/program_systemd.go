package product

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
)

// beingStopped says whether somebody has asked systemd to stop the service of a
// process that still runs.
func beingStopped(ctx context.Context, h *host.Host, unit string) bool {
	if unit == "" || !host.HasSystemd(h) {
		return false
	}
	s, err := systemd.Show(ctx, h, unit)
	return err == nil && s.Active == "deactivating"
}

// tellable says why a unit cannot be told for the sake of a process: another
// program may have started that, a cluster manager or a runner of containers,
// and stands in for it. A unit that nobody can start has nothing to be told of
// while it is stopped: idle is true then.
func tellable(ctx context.Context, h *host.Host, unit string, p Process, restart bool) (idle bool, err error) {
	if strings.HasPrefix(unit, "user@") {
		return false, fmt.Errorf("process %d is run by the systemd of a user (%s): let that user restart it", p.PID, unit)
	}
	s, err := systemd.Show(ctx, h, unit)
	switch {
	case err != nil:
		return false, err
	case s.Load != "loaded" && p.PID == 0:
		return true, nil
	case s.Load == "masked":
		return false, fmt.Errorf("%s is masked, and would not start again: systemctl unmask it first, or restart it by hand", unit)
	case s.Load != "loaded":
		return false, fmt.Errorf("systemd cannot load %s (%s): see systemctl status %s", unit, s.Load, unit)
	case p.PID != 0 && s.MainPID != 0 && s.MainPID != p.PID && s.MainPID != p.Parent:
		return false, fmt.Errorf("%s runs process %d, which has started process %d or had it started: restart that by the means of %s", unit, s.MainPID, p.PID, unit)
	case !restart && !s.CanReload:
		return false, fmt.Errorf("%s has no way to reload (ExecReload=): restart it by hand", unit)
	}
	return false, nil
}

// Reload makes the process of an instance read its files again: through systemd
// where a unit runs it, by a signal elsewhere.
func Reload(ctx context.Context, h *host.Host, p Process, signal string) error {
	if host.HasSystemd(h) && p.Unit != "" {
		return systemd.RunJob(ctx, h, "reload", p.Unit, 0, nil)
	}
	return Signal(ctx, h, signal, p.PID)
}
