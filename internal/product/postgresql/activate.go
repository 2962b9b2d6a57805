package postgresql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// startTime limits a server's start, including recovery.
const startTime = 2 * time.Minute

// process returns the postmaster of a cluster.
func process(_ context.Context, h *host.Host, main string) (product.Process, error) {
	files, _ := readSettings(h, main)
	p, err := serverOf(h, cmp.Or(files.dir, path.Dir(main)))
	if p.pid == 0 {
		return product.Process{}, err
	}
	return product.Numbered(h, p.pid)
}

// needsRestart reports whether a parameter of a cluster takes effect only at a restart.
func needsRestart(ctx context.Context, h *host.Host, main, key string) bool {
	files, _ := readSettings(h, main)
	if asked, err := question(ctx, h, main, files.dir); err == nil {
		if r, ok := asked.Settings[key]; ok {
			return r.Context == "postmaster"
		}
	}
	return slices.Contains(atStart, key)
}

// reload sends the signal to read the files again. Its wait ends when the server reports that it
// has.
func reload(ctx context.Context, h *host.Host, main string, p product.Process) (product.Reloaded, error) {
	before, err := current(ctx, h, main)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		now, err := current(ctx, h, main)
		if err == nil && now.Loaded <= before.Loaded {
			err = errors.New("the server has not reloaded its files")
		}
		return err
	}, product.Reload(ctx, h, p, "HUP")
}

// ready waits until the server answers a query.
func ready(ctx context.Context, h *host.Host, main string) error {
	_, err := current(ctx, h, main)
	return err
}

// current queries the cluster's running server. The error is final if fettle or the server cannot
// read the files.
func current(ctx context.Context, h *host.Host, main string) (*answer, error) {
	files, err := readSettings(h, main)
	if err != nil {
		return nil, product.Final(err)
	}
	a, err := question(ctx, h, main, files.dir)
	if err == nil && len(a.Errors) > 0 {
		return nil, product.Final(fmt.Errorf("the server rejects %s", strings.Join(a.Errors, "; ")))
	}
	return a, err
}

// start uses Debian's pg_ctlcluster, for machines without a running systemd.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	d := clusterOf(h, main).debian
	if d == nil {
		return product.Start{}, fmt.Errorf("systemd does not run on this machine; restart the server of %s by hand", main)
	}
	return product.Start{Argv: []string{"pg_ctlcluster", "--skip-systemctl-redirect", d[0], d[1], "start"}, Within: startTime}, nil
}

func stop(ctx context.Context, h *host.Host, main string, _ product.Process) error {
	d := clusterOf(h, main).debian
	_, err := host.RunCommand(ctx, h, host.Command{Argv: []string{"pg_ctlcluster", "--skip-systemctl-redirect", d[0], d[1], "stop", "-m", "fast"}, Timeout: startTime})
	return err
}

// complaint returns the reason in a start's output: the server's fatal message, or the message just
// before it if that names the cause.
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

// effect returns OK if the running server has the value that its files set.
func effect(ctx context.Context, h *host.Host, main, key string) (plugin.Verdict, string) {
	files, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	asked, err := question(ctx, h, main, files.dir)
	switch {
	case errors.Is(err, product.ErrStopped):
		return plugin.OK, "in force after the next start of the server"
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
