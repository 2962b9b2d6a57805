package postgresql

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// How long a server may take to start, with recovery.
const startTime = 2 * time.Minute

// control tells the servers. What a reload is to be later than is remembered.
type control struct {
	*product.Control
	mu   sync.Mutex
	told map[string]float64 // by the main file: when it had read its files last, since the epoch
}

func newControl() *control {
	c := &control{told: map[string]float64{}}
	c.Control = &product.Control{
		Name:      "postgresql",
		Unit:      func(h *host.Host, main string) string { return clusterOf(h, main).Unit },
		Mains:     func(h *host.Host) ([]string, error) { return conf.Mains(instances(h)) },
		Running:   process,
		Reload:    c.reload,
		Ready:     c.ready,
		Start:     start,
		Stop:      stop,
		Complaint: complaint,
		Patience:  startTime,
	}
	return c
}

// process is the postmaster of a cluster.
func process(_ context.Context, h *host.Host, main string) (product.Process, error) {
	files, _ := readSettings(h, main)
	p, err := serverOf(h, or(files.dir, path.Dir(main)))
	switch {
	case errors.Is(err, errStopped):
		return product.Process{}, product.ErrStopped
	case p.pid == 0:
		return product.Process{}, err
	}
	return product.Numbered(h, p.pid)
}

// activation says what makes a parameter of a cluster take effect.
func (c *control) activation(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
	restart := slices.Contains(atStart, key)
	files, _ := readSettings(h, main)
	if asked, err := question(ctx, h, main, files.dir); err == nil {
		if r, ok := asked.Settings[key]; ok {
			restart = r.Context == "postmaster"
		}
	}
	return c.Activation(ctx, h, main, restart)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// reload makes it read its files again, which it says when it has.
func (c *control) reload(ctx context.Context, h *host.Host, main string, p product.Process) error {
	files, err := readSettings(h, main)
	if err != nil {
		return err
	}
	before, err := question(ctx, h, main, files.dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.told[main] = before.Loaded
	c.mu.Unlock()
	return product.Reload(ctx, h, p, "HUP")
}

// ready wants an answer to a query, with the files read again. A server that was
// restarted has read them later than the one before.
func (c *control) ready(ctx context.Context, h *host.Host, main string, _ product.Process) error {
	files, err := readSettings(h, main)
	if err != nil {
		return product.Final(err)
	}
	now, err := question(ctx, h, main, files.dir)
	c.mu.Lock()
	since := c.told[main]
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case len(now.Errors) > 0:
		return product.Final(fmt.Errorf("the server does not take %s", strings.Join(now.Errors, "; ")))
	case now.Loaded <= since:
		return errors.New("it has not read its files again")
	}
	return nil
}

// start and stop are Debian's own tool, where no systemd runs.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	d := clusterOf(h, main).debian
	if d == nil {
		return product.Start{}, fmt.Errorf("no systemd runs here that could restart the server of %s", main)
	}
	return product.Start{Argv: []string{"pg_ctlcluster", "--skip-systemctl-redirect", d[0], d[1], "start"}, Within: startTime}, nil
}

func stop(ctx context.Context, h *host.Host, main string, _ product.Process) error {
	d := clusterOf(h, main).debian
	_, err := host.RunCommand(ctx, h, host.Command{Argv: []string{"pg_ctlcluster", "--skip-systemctl-redirect", d[0], d[1], "stop", "-m", "fast"}, Timeout: startTime})
	return err
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
