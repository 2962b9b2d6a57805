package puppetserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/unit"
)

// Kind returns the setting kind of Puppet Server's options. It changes the line that sets an
// option; the server reads its files at start.
func Kind(h *host.Host) setting.Kind {
	c := &product.Control{
		Name:     "puppetserver",
		Unit:     unitName,
		Mains:    func(h *host.Host) ([]string, error) { return conf.Mains(mains(h)) },
		Running:  func(ctx context.Context, h *host.Host, _ string) (product.Process, error) { return running(ctx, h) },
		Check:    starts,
		Ready:    ready,
		Start:    start,
		Patience: 5 * time.Minute, // the unit's TimeoutStartSec=; a start waits for all interpreters
	}
	return conf.New(h, conf.Product{
		Name:   Name,
		Syntax: syntax{},
		Roots: func(*host.Host) []string {
			return append([]string{"/etc/sysconfig", "/etc/default"}, layouts[0].Options, layouts[1].Options)
		},
		Instances: mains,
		Alias: func(_ *host.Host, _, key string) string {
			if p := paths[strings.ReplaceAll(key, "-", "_")]; p != "" {
				return p
			}
			return key
		},
		Winner:     winner,
		Canonical:  canonical,
		Check:      check,
		Activation: c.Restarts,
		Activate:   c.Activate,
		Effect:     effect,
	})
}

func mains(h *host.Host) ([]conf.Instance, error) {
	real, err := h.Files.Resolve(path.Join(LayoutOf(h).Options, own))
	if host.NotFound(err) {
		return nil, nil
	}
	return []conf.Instance{{Name: Name, Main: real}}, err
}

// canonical returns one spelling for a size: Java's 2g is 2048m.
func canonical(value string) string {
	if !javaSize().MatchString(value) {
		return value
	}
	if n, err := unit.ParseSize(value); err == nil {
		return fmt.Sprint(int64(n))
	}
	return value
}

// programs are the arguments of Java that identify the server, in Puppet's and Debian's packages.
var programs = []string{"puppet-server-release.jar", "puppetlabs.trapperkeeper.main", "puppetserver.jar"}

// running returns the server's Java process.
func running(ctx context.Context, h *host.Host) (product.Process, error) {
	all, err := product.Find(ctx, h, "java")
	if err != nil {
		return product.Process{}, err
	}
	for _, p := range all {
		if slices.ContainsFunc(p.Argv, func(w string) bool { return slices.Contains(programs, path.Base(w)) }) {
			return p, nil
		}
	}
	return product.Process{}, product.ErrStopped
}

// starts returns an error for memory sizes with which Java would not start.
func starts(_ context.Context, h *host.Host, _ string) error {
	least, ok1, err1 := Java(h, "heap_min")
	most, ok2, err2 := Java(h, "heap")
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return nil //nolint:nilerr // it will say so itself
	}
	a, err1 := unit.ParseSize(least.Literal)
	b, err2 := unit.ParseSize(most.Literal)
	if err1 == nil && err2 == nil && a > b {
		return fmt.Errorf("%s: initial heap (-Xms) %s is above the maximum (-Xmx) %s; Java would not start", most, least.Literal, most.Literal)
	}
	return nil
}

// ready waits until the server's port accepts connections, which happens once its interpreters have
// started.
func ready(ctx context.Context, h *host.Host, _ string) error {
	name, port := "127.0.0.1", "8140"
	if p, ok, err := Option(h, "webserver.ssl-port", "webserver.conf"); err == nil && ok {
		port = Value(p)
	}
	if p, ok, err := Option(h, "webserver.ssl-host", "webserver.conf"); err == nil && ok {
		if ip := net.ParseIP(Value(p)); ip != nil && !ip.IsUnspecified() {
			name = ip.String()
		}
	}
	return product.Accepts(ctx, "tcp", net.JoinHostPort(name, port))
}

func unitName(h *host.Host, main string) string {
	return product.Unit(h, main, "puppetserver.service", "pe-puppetserver.service")
}

// start returns the unit's command, for machines without a running systemd.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	name := unitName(h, main)
	if name == "" {
		return product.Start{}, errors.New("unit puppetserver.service not found; restart Puppet Server by hand")
	}
	u, err := systemd.New(h).Load(name)
	if err != nil {
		return product.Start{}, err
	}
	return product.OfUnit(h, u)
}

// effect returns OK if the server runs with a value. Java's memory sizes are compared with its
// command line; for other options the times of files and process decide.
func effect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	p, err := running(ctx, h)
	switch {
	case errors.Is(err, product.ErrStopped):
		return plugin.OK, "in force after the next start of the server"
	case err != nil:
		return plugin.Unknown, err.Error()
	}
	if option := javaArguments[key]; option != "" {
		for _, w := range slices.Backward(p.Argv) {
			if v, ok := strings.CutPrefix(w, option); ok && canonical(v) != canonical(value) {
				return plugin.NeedsRestart, "the server runs with " + v + " until it is restarted"
			} else if ok {
				return plugin.OK, ""
			}
		}
		return plugin.NeedsRestart, "the server was started without " + option
	}
	at, ok, err := winner(h, main, key)
	if err != nil || !ok {
		return plugin.Unknown, "the running values of Puppet Server are unknown"
	}
	switch product.Since(product.Changed(ctx, h, at.File, []string{at.File}), p, nil) {
	case product.Yes:
		return plugin.OK, ""
	case product.No:
		return plugin.NeedsRestart, "the file was changed after the start of Puppet Server"
	}
	return plugin.Unknown, "the running values of Puppet Server are unknown"
}
