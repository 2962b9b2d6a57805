package mosquitto

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// processes finds the process of an instance.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	return product.Only(ctx, h, "mosquitto brokers", main, func(p product.Process) bool { return belongs(h, p, main) }, "mosquitto")
}

// belongs reports whether a broker process was started with a main file.
func belongs(h *host.Host, p product.Process, main string) bool {
	for n, a := range p.Argv[:max(0, len(p.Argv)-1)] {
		if a == "-c" || a == "--config-file" {
			real, err := h.Files.Resolve(p.Argv[n+1])
			return err == nil && real == main || p.Argv[n+1] == main
		}
	}
	return false
}

// errMute is returned if a broker cannot be queried.
var errMute = errors.New("no listener accepts clients without TLS and without a user name")

// report is a broker's $SYS topics, and those of its options that a connection reveals.
type report struct {
	Sys    map[string]string `json:"sys"`
	Limits map[string]string `json:"limits,omitempty"`
}

// question queries the broker of an instance; the error is product.ErrStopped if none runs.
func question(ctx context.Context, h *host.Host, main string, s settings) (report, error) {
	all := s.listeners()
	n := slices.IndexFunc(all, func(l listener) bool { return l.plain })
	if n < 0 {
		return report{}, errMute
	}
	return host.QueryJSON(ctx, h, "mosquitto "+main, func(ctx context.Context, _ *host.Host) (report, error) {
		m, code, err := open(ctx, all[n])
		if err != nil {
			return report{}, err
		}
		defer m.close()
		if code != 0 {
			return report{}, errMute
		}
		sys, err := m.sys()
		if err != nil {
			return report{}, err
		}
		more, err := limits(ctx, all[n])
		if err != nil {
			more = nil // before 1.6 the broker does not support MQTT 5
		}
		return report{sys, more}, nil
	})
}

// ready waits until each plain listener responds to CONNECT, and each other listener accepts a
// connection. It checks twice: the broker reads its files before the second response (src/loop.c).
func ready(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Final(err)
	}
	for range 2 {
		for _, l := range s.listeners() {
			if !l.plain {
				c, err := dial(ctx, l)
				if err != nil {
					return err
				}
				c.Close()
				continue
			}
			m, code, err := open(ctx, l)
			if err != nil {
				return fmt.Errorf("%s: %w", l.address, err)
			}
			m.close()
			if code == 3 { // server unavailable
				return fmt.Errorf("%s: does not accept clients", l.address)
			}
		}
	}
	return nil
}

// start returns the command line with which the broker ran before.
func start(h *host.Host, main string, before product.Process) (product.Start, error) {
	argv := before.Argv
	if before.PID == 0 {
		argv = []string{"mosquitto", "-c", main, "-d"}
	}
	background := !slices.Contains(argv, "-d") && !slices.Contains(argv, "--daemon")
	return product.Start{Argv: argv, Background: background}, nil
}

// keeps returns an error if a restart for this option would lose retained messages or messages of
// disconnected clients.
func keeps(h *host.Host, key, _ string) error {
	if !needsRestart(key) {
		return nil
	}
	all, err := instances(h)
	if err != nil {
		return err
	}
	for _, in := range all {
		s, err := readSettings(h, in.Main)
		if err != nil {
			return err
		}
		if _, err := processes(context.Background(), h, in.Main); err == nil && s.text("persistence", "false") != "true" {
			return fmt.Errorf("%s: %s needs a restart, which without persistence loses retained and queued messages; restart by hand", in.Main, key)
		}
	}
	return nil
}
