// systemctl asks systemd about services and tells them, with systemctl(1)
// and journalctl(1), whose output of properties is a stable interface.

package systemd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Service is what systemd says of a unit.
type Service struct {
	Load, Active string // LoadState, ActiveState
	MainPID      int    // 0 where none runs
	CanReload    bool
	Restarts     int // by itself, since somebody has told it to start
	// Started is when its main process was, on CLOCK_MONOTONIC; 0 where none ever was.
	Started time.Duration
}

// Show asks for one.
func Show(ctx context.Context, h *host.Host, unit string) (Service, error) {
	out, err := host.Run(ctx, h, "systemctl", "show", "--property=LoadState,ActiveState,MainPID,CanReload,NRestarts,ExecMainStartTimestampMonotonic", "--", unit)
	if err != nil {
		return Service{}, err
	}
	var s Service
	for line := range strings.Lines(out) {
		key, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch key {
		case "LoadState":
			s.Load = v
		case "ActiveState":
			s.Active = v
		case "MainPID":
			s.MainPID, _ = strconv.Atoi(v)
		case "NRestarts":
			s.Restarts, _ = strconv.Atoi(v)
		case "ExecMainStartTimestampMonotonic":
			us, _ := strconv.ParseInt(v, 10, 64)
			s.Started = time.Duration(us) * time.Microsecond
		case "CanReload":
			s.CanReload = v == "yes"
		}
	}
	return s, nil
}

// RunJob makes systemd restart, reload or start a unit. The error has what the
// service itself has said last; complaint finds that in its log, nil takes the
// last line.
func RunJob(ctx context.Context, h *host.Host, verb, unit string, within time.Duration, complaint func(log string) string) error {
	if verb != "reload" {
		// A unit that was started a few times within seconds is not started any more
		// otherwise, whoever did that (StartLimitBurst=).
		_, _ = host.Run(ctx, h, "systemctl", "reset-failed", "--", unit)
	}
	began := h.Clock.Now()
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{"systemctl", verb, "--", unit}, Timeout: within})
	if err != nil || res.ExitCode == 0 {
		return err
	}
	err = fmt.Errorf("systemctl %s %s: exit %d", verb, unit, res.ExitCode)
	if said := failureLog(ctx, h, unit, began, complaint); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	// "Job for X.service failed because ..."; the rest names other commands.
	first, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr)), "\n")
	if first == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, first)
}

// maxRestarts is how often systemd starts a service again that ends as soon as it is
// started, until it counts as failed: a slow one, or one that systemd lets wait,
// never comes to its limit (StartLimitBurst= in StartLimitIntervalSec=).
const maxRestarts = 3

// FailureOf is the error of a service that systemd has given up, or starts again and
// again; nil of any other.
func FailureOf(ctx context.Context, h *host.Host, unit string, since time.Time, complaint func(log string) string) error {
	s, err := Show(ctx, h, unit)
	if err != nil || s.Active != "failed" && s.Restarts < maxRestarts {
		return nil //nolint:nilerr // who cannot ask waits longer
	}
	text := unit + " has failed"
	if said := failureLog(ctx, h, unit, since, complaint); said != "" {
		text += ": " + said
	}
	return errors.New(text)
}

// failureLog is what the processes of a unit have logged since a time; "" where
// nothing is known.
func failureLog(ctx context.Context, h *host.Host, unit string, since time.Time, complaint func(log string) string) string {
	_, _ = host.Run(ctx, h, "journalctl", "--sync")
	// Of the unit's processes, without what systemd says of it.
	out, err := host.Run(ctx, h, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=50",
		"--since=@"+strconv.FormatInt(since.Unix(), 10), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return ""
	}
	return FailureText(out, complaint)
}

// FailureText is what a text says of a failure: what complaint finds, else its last line.
func FailureText(text string, complaint func(string) string) string {
	text = strings.TrimSpace(text)
	if complaint != nil && text != "" {
		text = strings.TrimSpace(complaint(text))
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
