package postgresql

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/setting"
)

// activation says what makes a parameter of a cluster take effect.
func activation(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
	c := clusterOf(h, main)
	files, _ := readSettings(h, main)
	if _, err := serverOf(h, or(files.dir, path.Dir(main))); c.Unit == "" || errors.Is(err, errStopped) || errors.Is(err, host.ErrNotRecorded) {
		return setting.Activation{}, false
	}
	a := setting.Activation{Program: c.Unit, Restart: slices.Contains(atStart, key)}
	if asked, err := question(ctx, h, main, files.dir); err == nil {
		if r, ok := asked.Settings[key]; ok {
			a.Restart = r.Context == "postmaster"
		}
	}
	return a, true
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// How long a server may take to start, with recovery, and to read its files.
const (
	startTime  = 2 * time.Minute
	reloadTime = 30 * time.Second
)

// activate restarts or reloads a cluster and waits until a connection answers
// with the new files read.
func activate(ctx context.Context, h *host.Host, a setting.Activation) error {
	all, err := clusters(h)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(c cluster) bool { return c.Unit == a.Program })
	if i < 0 {
		return fmt.Errorf("no cluster of %s is set up any more", a.Program)
	}
	c := all[i]
	files, err := readSettings(h, c.Main)
	if err != nil {
		return err
	}
	action, limit, since := "restart", startTime, 0.0
	if !a.Restart {
		action, limit = "reload", reloadTime
		before, err := question(ctx, h, c.Main, files.dir)
		if err != nil {
			return err
		}
		since = before.Loaded
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := control(ctx, h, c, action, limit); err != nil {
		return err
	}
	for {
		now, err := question(ctx, h, c.Main, files.dir)
		switch {
		case err == nil && len(now.Errors) > 0:
			return fmt.Errorf("the server does not take %s", strings.Join(now.Errors, "; "))
		case err == nil && now.Loaded > since:
			return nil
		case err == nil:
			err = errors.New("it has not read its files again")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// control runs what the distribution has for it: systemctl, or Debian's own tool
// where no systemd runs.
func control(ctx context.Context, h *host.Host, c cluster, action string, limit time.Duration) error {
	argv := []string{"systemctl", action, c.Unit}
	if _, err := h.Files.Stat("/run/systemd/system"); err != nil {
		if c.debian == nil {
			return fmt.Errorf("no systemd runs here that could %s %s", action, c.Unit)
		}
		argv = []string{"pg_ctlcluster", "--skip-systemctl-redirect", c.debian[0], c.debian[1], action}
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv, Timeout: limit})
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		if argv[0] == "systemctl" { // which itself only says that it has failed
			if logged, err := h.Exec.Run(ctx, host.Command{Argv: []string{"journalctl", "-q", "-n", "20", "-o", "cat", "--no-pager", "-u", c.Unit}}); err == nil {
				res.Stderr = append(res.Stderr, "\n"+string(logged.Stdout)...)
			}
		}
		return fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), res.ExitCode, complaint(string(res.Stderr)+string(res.Stdout)))
	}
	return nil
}

// complaint is what an output says of the reason: the server's last words, and
// what it logged just before them, which often says more.
func complaint(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	after := func(line, word string) (string, bool) {
		_, rest, ok := strings.Cut(line, word)
		return strings.TrimSpace(rest), ok
	}
	for i, l := range slices.Backward(lines) {
		fatal, ok := after(l, "FATAL:")
		if !ok {
			continue
		}
		for _, earlier := range slices.Backward(lines[max(0, i-4):i]) {
			why, ok := after(earlier, "LOG:")
			if ok && (strings.Contains(why, "could not") || strings.Contains(why, "parameter") || strings.Contains(why, "configuration")) {
				return why + "; " + fatal
			}
		}
		return fatal
	}
	return lines[len(lines)-1]
}

// effect says whether the running server has the value of its files.
func effect(ctx context.Context, h *host.Host, main, key, _ string) (plugin.Verdict, string) {
	files, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	asked, err := question(ctx, h, main, files.dir)
	switch {
	case errors.Is(err, errStopped):
		return plugin.OK, "in force from the server's next start"
	case err != nil:
		return plugin.Unknown, err.Error()
	}
	r, ok := asked.Settings[key]
	switch {
	case !ok:
		return plugin.Unsupported, "this version of PostgreSQL has no such parameter"
	case r.Pending:
		return plugin.NeedsRestart, "the server runs with " + r.Value + " until it is restarted"
	case r.File == "" && r.Source != "configuration file":
		return plugin.Overridden, "the server runs with " + r.Value + ", set by its " + r.Source
	}
	return plugin.OK, ""
}
