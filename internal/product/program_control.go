package product

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/systemd"
)

// Control checks, reloads and restarts one product's programs. Its functions take an instance's
// main file.
type Control struct {
	// Name is the program's name if no unit runs it: "redis-server".
	Name string
	// Unit returns the service that would run the instance, or "".
	Unit func(h *host.Host, main string) string
	// UnitFiles is true if the unit's own files contain settings. systemd must then reload them
	// before a restart.
	UnitFiles bool
	// Mains lists the main files of all instances.
	Mains func(h *host.Host) ([]string, error)
	// Running returns the main process; the error is ErrStopped if none runs.
	Running func(ctx context.Context, h *host.Host, main string) (Process, error)
	// Check runs before a reload or restart. It returns an error if the program would not start
	// with its configuration; nil if nothing can check it.
	Check func(ctx context.Context, h *host.Host, main string) error
	// Reads lists an instance's files; nil if their times do not show whether the program has read
	// them.
	Reads func(h *host.Host, main string) []string
	// Reload makes a running program read its files again.
	Reload func(ctx context.Context, h *host.Host, main string, p Process) (Reloaded, error)
	// Ready returns nil once the program is healthy and has read its files.
	Ready func(ctx context.Context, h *host.Host, main string) error
	// Stop ends the program; nil sends SIGTERM.
	Stop func(ctx context.Context, h *host.Host, main string, p Process) error
	// Start returns the command that starts the program if no unit does.
	Start func(h *host.Host, main string, before Process) (Start, error)
	// Complaint finds the reason of a failed start in the service's log; nil means the last line.
	Complaint func(log string) string
	// Patience limits the wait for Ready; 0 means 30 s.
	Patience time.Duration

	mu sync.Mutex
	// mains maps the name of each program with a planned activation to its main file. refusals has
	// the programs that were not activated, with the reason.
	mains    map[string]string
	refusals map[string]bool
}

// Reloaded returns nil once a reload is complete, when the program serves with its new files. It
// runs before Ready; a nil Reloaded means that Ready is enough.
type Reloaded func(ctx context.Context) error

// ReloadBy returns a Control.Reload that uses systemd, or else a signal. It does not wait.
func ReloadBy(signal string) func(ctx context.Context, h *host.Host, main string, p Process) (Reloaded, error) {
	return func(ctx context.Context, h *host.Host, _ string, p Process) (Reloaded, error) {
		return nil, Reload(ctx, h, p, signal)
	}
}

// Service returns a Control.Unit for a product whose service has one of these names.
func Service(names ...string) func(h *host.Host, main string) string {
	return func(h *host.Host, main string) string { return Unit(h, main, names...) }
}

// ConfigTest returns a Control.Check that runs the product's command. name is the command in
// errors; complaint extracts the fault from its output.
func ConfigTest(name string, command func(h *host.Host, main string) host.Command, complaint func(messages string) string) func(ctx context.Context, h *host.Host, main string) error {
	return func(ctx context.Context, h *host.Host, main string) error {
		res, err := h.Exec.Run(ctx, command(h, main))
		if err != nil || res.ExitCode == 0 {
			return err
		}
		return fmt.Errorf("%s: %s", name, complaint(string(res.Stderr)+string(res.Stdout)))
	}
}

// Start is a command that starts a server.
type Start struct {
	Argv []string
	Env  []string
	Dir  string // working directory; "" means "/"
	// Background is set for a program that does not daemonize: fettle then starts it in the
	// background.
	Background bool
	// UID and GID are the user and group of the program; 0 means root.
	UID, GID int
	// Within limits the call; 0 means one minute.
	Within time.Duration
	// Complaint finds the reason of a failure in the output; nil means the last line.
	Complaint func(text string) string
}

// Activation implements setting.Activator for one product's kind. It returns false if the program
// does not run.
func (c *Control) Activation(ctx context.Context, h *host.Host, main string, restart bool) (setting.Activation, bool) {
	p, err := c.Running(ctx, h, main)
	if err != nil || beingStopped(ctx, h, p.Unit) {
		return setting.Activation{}, false
	}
	name := c.name(h, main, p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mains == nil {
		c.mains = map[string]string{}
	}
	c.mains[name] = main
	return setting.Activation{Program: name, Restart: restart}, true
}

// Restarts is like Activation, but for products that read their options only at start.
func (c *Control) Restarts(ctx context.Context, h *host.Host, main, _ string) (setting.Activation, bool) {
	return c.Activation(ctx, h, main, true)
}

// name returns the name of an instance's program in an activation.
func (c *Control) name(h *host.Host, main string, p Process) string {
	if host.HasSystemd(h) {
		if p.Unit != "" {
			return p.Unit
		}
		if p.PID == 0 && c.Unit != nil {
			if u := c.Unit(h, main); u != "" {
				return u
			}
		}
	}
	return c.Name + " " + main
}

// Of returns the main file for the program name of an activation, even if another process planned
// it before a crash.
func (c *Control) Of(ctx context.Context, h *host.Host, name string) (string, error) {
	c.mu.Lock()
	main, ok := c.mains[name]
	c.mu.Unlock()
	if ok {
		return main, nil
	}
	if main, ok := strings.CutPrefix(name, c.Name+" "); ok {
		return main, nil
	}
	mains, err := c.Mains(h)
	if err != nil {
		return "", err
	}
	for _, m := range mains {
		p, err := c.Running(ctx, h, m)
		if err != nil {
			p = Process{}
		}
		if c.name(h, m, p) == name {
			return m, nil
		}
	}
	return "", fmt.Errorf("%s no longer runs an instance of %s", name, c.Name)
}

// Activate implements setting.Activator: it checks the configuration, reloads or restarts the
// program and waits until it is healthy. If Check or the unit refuses, the later rollback leaves
// the program alone too.
func (c *Control) Activate(ctx context.Context, h *host.Host, a setting.Activation) error {
	main, err := c.Of(ctx, h, a.Program)
	if err != nil {
		return err
	}
	patience := c.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.setRefused(a.Program, false) {
		return nil // rollback of a refused change
	}
	if c.Check != nil {
		if err := c.Check(ctx, h, main); err != nil {
			return c.refused(a.Program, err)
		}
	}
	if c.Reads != nil {
		if err := settle(ctx, h, c.Reads(h, main)); err != nil {
			return err
		}
	}
	before, err := c.Running(ctx, h, main)
	switch {
	case errors.Is(err, ErrStopped) && !a.Restart:
		return nil // the program has stopped meanwhile, and reads its files at its next start
	case err != nil && !errors.Is(err, ErrStopped):
		return err
	}
	unit := ""
	if host.HasSystemd(h) && (before.Unit != "" || before.PID == 0) && !strings.HasPrefix(a.Program, c.Name+" ") {
		unit = a.Program
		if idle, err := controllable(ctx, h, unit, before, a.Restart); err != nil {
			return c.refused(a.Program, err)
		} else if idle {
			return nil
		}
	}
	began := h.Clock.Now()
	var reloaded Reloaded
	switch {
	case !a.Restart:
		reloaded, err = c.Reload(ctx, h, main, before)
	case unit != "":
		if c.UnitFiles {
			if _, err := host.Run(ctx, h, "systemctl", "daemon-reload"); err != nil {
				return err
			}
		}
		err = systemd.RunJob(ctx, h, "restart", unit, patience, c.Complaint)
	default:
		err = c.restart(ctx, h, main, before)
	}
	if err != nil {
		return err
	}
	return c.wait(ctx, h, main, before, a.Restart, reloaded, func() error {
		if unit == "" {
			return nil
		}
		return systemd.FailureOf(ctx, h, unit, began, c.Complaint)
	})
}

// refused records that a program was not activated, and returns the reason with the program's name.
func (c *Control) refused(program string, why error) error {
	c.setRefused(program, true)
	return fmt.Errorf("%w (neither reloaded nor restarted)", why)
}

// setRefused records whether a program is refused, and returns the previous value.
func (c *Control) setRefused(program string, now bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == nil {
		c.refusals = map[string]bool{}
	}
	before = c.refusals[program]
	c.refusals[program] = now
	return before
}

// restart stops a program and starts it again, without systemd.
func (c *Control) restart(ctx context.Context, h *host.Host, main string, before Process) error {
	if c.Start == nil {
		return fmt.Errorf("systemd does not run on this machine; restart %s by hand", c.Name)
	}
	start, err := c.Start(h, main, before) // before the process ends
	start.Complaint = c.Complaint
	if err != nil {
		return err
	}
	if before.PID != 0 {
		stop := c.Stop
		if stop == nil {
			stop = func(ctx context.Context, h *host.Host, _ string, p Process) error {
				return sendSignal(ctx, h, "TERM", p.PID)
			}
		}
		if err := stop(ctx, h, main, before); err != nil {
			return err
		}
		if err := Until(ctx, func() error {
			if p, ok := one(h, "/proc/"+strconv.Itoa(before.PID), before.PID, 0); ok {
				return fmt.Errorf("process %d has not ended", p.PID)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return Run(ctx, h, start)
}

// wait waits for Ready. It fails if the program has ended; failed returns the reason if systemd has
// given up restarting it.
func (c *Control) wait(ctx context.Context, h *host.Host, main string, before Process, restarted bool, reloaded Reloaded, failed func() error) error {
	gone, asked := 0, h.Clock.Now()
	return Until(ctx, func() error {
		p, err := c.Running(ctx, h, main)
		switch {
		case errors.Is(err, ErrStopped):
			// A server that goes to the background has no process for a moment (seconds on a busy
			// machine). 50 tries take about 5 s.
			if gone++; gone > 50 {
				err = final{fmt.Errorf("%s was started but has ended again", c.Name)}
			}
		case err != nil:
		case restarted && p.Same(before):
			err = fmt.Errorf("process %d has not been replaced", p.PID)
		default:
			gone = 0
			if reloaded != nil {
				err = reloaded(ctx)
			}
			if err == nil {
				err = c.Ready(ctx, h, main)
			}
		}
		if now := h.Clock.Now(); err != nil && (gone > 50 || now.Sub(asked) > time.Second) {
			if f := failed(); f != nil {
				return final{f}
			}
			asked = h.Clock.Now()
		}
		return err
	})
}

// final wraps an error that ends Until.
type final struct{ error }

// Final wraps an error so that Until stops.
func Final(err error) error { return final{err} }

// Until repeats try until it succeeds, returns a Final error, or the context ends.
func Until(ctx context.Context, try func() error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := try()
		var f final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &f):
			return f.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timeout while waiting for the program: %w", err)
		case <-time.After(pause):
		}
	}
}

// background starts a program that stays in the foreground, detached from the terminal.
const background = `setsid "$@" </dev/null >/dev/null 2>&1 &`

// Run starts a server that no systemd unit runs.
func Run(ctx context.Context, h *host.Host, s Start) error {
	argv := s.Argv
	if s.UID != 0 || s.GID != 0 {
		argv = append([]string{"setpriv", "--reuid=" + strconv.Itoa(s.UID), "--regid=" + strconv.Itoa(s.GID), "--init-groups", "--"}, argv...)
	}
	if s.Background {
		argv = append([]string{"/bin/sh", "-c", background, "sh"}, argv...)
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv, Env: s.Env, Dir: s.Dir, Timeout: s.Within})
	if err != nil || res.ExitCode == 0 {
		return err
	}
	return fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), res.ExitCode, systemd.FailureText(string(res.Stdout)+string(res.Stderr), s.Complaint))
}

// collections is the configuration directory of Red Hat's software collections. A collection's name
// is the prefix of its units' names.
const collections = "/etc/opt/rh/"

// Unit returns the first installed service among names, with the collection's prefix if the main
// file belongs to one; "" if none is installed.
func Unit(h *host.Host, main string, names ...string) string {
	prefix := ""
	if rest, ok := strings.CutPrefix(main, collections); ok {
		prefix, _, _ = strings.Cut(rest, "/")
		prefix += "-"
	}
	for _, n := range names {
		for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"} {
			if _, err := h.Files.Stat(dir + "/" + prefix + n); err == nil {
				return prefix + n
			}
		}
	}
	return ""
}
