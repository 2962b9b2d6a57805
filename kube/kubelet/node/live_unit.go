package node

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// Unit is a kubelet that systemd starts.
type Unit struct {
	Host *host.Host
	// Name is the unit's name, such as kubelet.service.
	Name string
	// GuardAfter is when the guard starts a stopped kubelet that this process has not started
	// again; 0 means guardAfter.
	GuardAfter time.Duration

	uptime func() (time.Duration, error) // reads CLOCK_MONOTONIC; tests replace it
}

// livePatience limits a systemctl call; systemd itself kills a unit after 90 s.
const livePatience = 2 * time.Minute

// guard is a timer unit that starts the kubelet if fettle does not. The agent that stopped the
// kubelet may be a pod, which nothing restarts without a kubelet.
const guard = "fettle-kubelet-guard"

// steadyAfter is how long a kubelet must run after a restart by systemd to count as steady.
const steadyAfter = time.Minute

// guardAfter is the guard's default delay; fettle normally restarts a kubelet within seconds.
const guardAfter = time.Minute

// Check returns an error unless the unit starts this machine's kubelet.
func (u *Unit) Check(ctx context.Context) error {
	s, err := systemd.Show(ctx, u.Host, u.Name)
	switch {
	case err != nil:
		return fmt.Errorf("cannot reach systemd, which must restart the kubelet: %w", err)
	case s.Load != "loaded":
		return fmt.Errorf("systemd has no unit %s (%s) for the kubelet; name the kubelet's unit", u.Name, s.Load)
	}
	return nil
}

// Stop stops the unit. systemd starts it again only after GuardAfter, by the guard.
func (u *Unit) Stop(ctx context.Context) error {
	u.unguard(ctx) // the guard of a killed process
	_, err := host.Run(ctx, u.Host, "systemd-run", "--quiet", "--collect", "--unit="+guard, fmt.Sprintf("--on-active=%d", int(cmp.Or(u.GuardAfter, guardAfter).Seconds())),
		"--timer-property=AccuracySec=1s", "systemctl", "start", "--", u.Name)
	if err != nil {
		return fmt.Errorf("kubelet not stopped, because nothing would start it again if this process were killed: %w", err)
	}
	return systemd.RunJob(ctx, u.Host, "stop", u.Name, livePatience, nil)
}

// Start starts the unit, and waits as its type requires: a simple unit counts as started at once.
func (u *Unit) Start(ctx context.Context) error {
	err := systemd.RunJob(ctx, u.Host, "start", u.Name, livePatience, nil)
	if err == nil {
		u.unguard(ctx)
	}
	return err
}

// unguard stops the guard timer, if it is active.
func (u *Unit) unguard(ctx context.Context) {
	_, _ = host.Run(ctx, u.Host, "systemctl", "stop", "--", guard+".timer")
}

// Steady returns an error unless the kubelet runs and systemd has not restarted it recently. The
// number of restarts proves nothing: systemd counts them since the last explicit start, possibly
// months ago.
func (u *Unit) Steady(ctx context.Context) error {
	s, err := systemd.Show(ctx, u.Host, u.Name)
	switch {
	case err != nil:
		return err
	case s.Active == "failed", s.Active == "inactive":
		return fmt.Errorf("%w: %s is %s", ErrEnded, u.Name, s.Active)
	case s.Active != "active" && s.Active != "reloading":
		return fmt.Errorf("%s is %s", u.Name, s.Active)
	case s.Restarts == 0:
		return nil
	}
	uptime := u.uptime
	if uptime == nil {
		uptime = monotonic
	}
	now, err := uptime()
	if err != nil {
		return err
	}
	if since := now - s.Started; since < steadyAfter {
		return fmt.Errorf("%w: systemd restarted %s %s ago; it must run for %s first", ErrEnded, u.Name, max(since, 0).Round(time.Second), steadyAfter)
	}
	return nil
}

// monotonic reads the clock of systemd's timestamps.
func monotonic() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano()), err
}

// Ended returns an error if systemd has restarted the kubelet, or it has ended, since the last
// explicit start.
func (u *Unit) Ended(ctx context.Context) error {
	s, err := systemd.Show(ctx, u.Host, u.Name)
	switch {
	case err != nil:
		return err
	case s.Restarts > 0:
		return fmt.Errorf("%w: systemd restarted %s (%s)", ErrEnded, u.Name, text.Count(s.Restarts, "time"))
	case s.Active == "failed", s.Active == "inactive":
		return fmt.Errorf("%w: %s is %s", ErrEnded, u.Name, s.Active)
	}
	return nil
}

// LastWords returns the end of the unit's log.
func (u *Unit) LastWords(ctx context.Context) string {
	text, err := host.Run(ctx, u.Host, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=15", "_SYSTEMD_UNIT="+u.Name)
	if err != nil {
		return "cannot read the kubelet's log: " + err.Error()
	}
	return strings.TrimSpace(text)
}
