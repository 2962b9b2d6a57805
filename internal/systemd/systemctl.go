// This file uses systemctl(1) and journalctl(1), whose property output is a
// stable interface.

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

// Service is the state of a unit.
type Service struct {
	Load, Active string // LoadState, ActiveState
	MainPID      int    // 0 without a main process
	CanReload    bool
	Restarts     int // automatic restarts since the last start
	// Started is when the main process started, on CLOCK_MONOTONIC; 0 without a start.
	Started time.Duration
}

// Show returns the state of a unit.
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

// RunJob makes systemd restart, reload or start a unit within a time limit. The error contains
// the service's own last message, which complaint extracts from the log. A nil complaint
// extracts the last line.
func RunJob(ctx context.Context, h *host.Host, verb, unit string, within time.Duration, complaint func(log string) string) error {
	if verb != "reload" {
		// Otherwise systemd would not start a unit that was started several times within
		// seconds (StartLimitBurst=).
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
	// Keep "Job for X.service failed because ..."; the other lines suggest commands.
	first, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr)), "\n")
	if first == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, first)
}

// maxRestarts is the number of automatic restarts after which a service counts
// as failed. A slow service, or one with a restart delay, never reaches
// systemd's own limit (StartLimitBurst= in StartLimitIntervalSec=).
const maxRestarts = 3

// FailureOf returns an error if systemd has given up on a service or keeps
// restarting it, and nil otherwise.
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

// failureLog returns the last log message of a unit's processes since a time, or "".
func failureLog(ctx context.Context, h *host.Host, unit string, since time.Time, complaint func(log string) string) string {
	_, _ = host.Run(ctx, h, "journalctl", "--sync")
	// Only messages of the unit's processes, not systemd's messages about the unit.
	out, err := host.Run(ctx, h, "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=50",
		"--since=@"+strconv.FormatInt(since.Unix(), 10), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return ""
	}
	return FailureText(out, complaint)
}

// FailureText returns the part of a text that describes a failure: complaint's result, or the
// last line.
func FailureText(text string, complaint func(string) string) string {
	text = strings.TrimSpace(text)
	if complaint != nil && text != "" {
		text = strings.TrimSpace(complaint(text))
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
