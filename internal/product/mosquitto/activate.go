package mosquitto

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// processes finds that of an instance.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	all, err := product.Find(ctx, h, "mosquitto")
	if err != nil {
		return product.Group{}, err
	}
	all = slices.DeleteFunc(product.Main(all), func(p product.Process) bool { return !belongs(h, p, main) })
	switch len(all) {
	case 0:
		return product.Group{}, product.ErrStopped
	case 1:
		return product.Group{Main: all[0]}, nil
	}
	return product.Group{}, fmt.Errorf("%d brokers run with %s", len(all), main)
}

// belongs says whether a broker has been started with a main file.
func belongs(h *host.Host, p product.Process, main string) bool {
	for n, a := range p.Argv[:max(0, len(p.Argv)-1)] {
		if a == "-c" || a == "--config-file" {
			real, err := h.Files.Resolve(p.Argv[n+1])
			return err == nil && real == main || p.Argv[n+1] == main
		}
	}
	return false
}

// errMute says that a broker cannot be asked what it does.
var errMute = errors.New("it has no listener where anybody may ask without TLS and a name")

// answer is what a broker says of itself: its $SYS topics, and options that it runs
// with.
type answer struct {
	Sys    map[string]string `json:"sys"`
	Limits map[string]string `json:"limits,omitempty"`
}

// question asks the broker of an instance; program.ErrStopped where none runs.
func question(ctx context.Context, h *host.Host, main string, s settings) (*answer, error) {
	all := s.listeners()
	n := slices.IndexFunc(all, func(l listener) bool { return l.plain })
	if n < 0 {
		return nil, errMute
	}
	return host.QueryJSON(ctx, h, "mosquitto "+main, func(ctx context.Context, _ *host.Host) (*answer, error) {
		m, code, err := open(ctx, all[n])
		if err != nil {
			return nil, err
		}
		defer m.close()
		if code != 0 {
			return nil, errMute
		}
		sys, err := m.sys()
		if err != nil {
			return nil, err
		}
		more, err := limits(ctx, all[n])
		if err != nil {
			more = nil // before 1.6 there is no MQTT 5
		}
		return &answer{sys, more}, nil
	})
}

// control tells a broker. It has one process, which reads its files again when it
// is told and does not say so: that it was told is known for as long as this
// control lives.
type control struct {
	*product.Control
	mu   sync.Mutex
	told map[string]told // by the main file
}

type told struct {
	process  product.Process
	changedS float64
}

func newControl() *control {
	c := &control{told: map[string]told{}}
	c.Control = &product.Control{
		Name:  "mosquitto",
		Unit:  func(h *host.Host, main string) string { return product.Unit(h, main, "mosquitto.service") },
		Mains: func(h *host.Host) ([]string, error) { return conf.Mains(instances(h)) },
		Running: func(ctx context.Context, h *host.Host, main string) (product.Process, error) {
			g, err := processes(ctx, h, main)
			return g.Main, err
		},
		Reads: func(h *host.Host, main string) []string {
			s, _ := readSettings(h, main)
			return s.files
		},
		Reload: c.reload,
		Ready:  ready,
		Start:  start,
	}
	return c
}

func (c *control) reload(ctx context.Context, h *host.Host, main string, p product.Process) error {
	s, err := readSettings(h, main)
	if err != nil {
		return err
	}
	if err := product.Reload(ctx, h, p, "HUP"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[main] = told{p, product.Changed(ctx, h, main, s.files)}
	return nil
}

// ready wants an answer to CONNECT at each listener that speaks MQTT at once, and a
// connection at the others; twice, since the broker reads its files between the
// first answer and the second at the latest (src/loop.c).
func ready(ctx context.Context, h *host.Host, main string, _ product.Process) error {
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
				return fmt.Errorf("%s: it takes no clients", l.address)
			}
		}
	}
	return nil
}

// start is how it is started by hand: as it was. A restart without persistence
// would lose what it keeps for clients that are away.
func start(h *host.Host, main string, before product.Process) (product.Start, error) {
	argv := before.Argv
	if before.PID == 0 {
		argv = []string{"mosquitto", "-c", main, "-d"}
	}
	background := !slices.Contains(argv, "-d") && !slices.Contains(argv, "--daemon")
	return product.Start{Argv: argv, Background: background}, nil
}

// keeps refuses to ask for what needs a restart of a broker that would lose what it
// keeps for clients that are away.
func keeps(h *host.Host, key string) error {
	_, option := split(key)
	if !slices.Contains(atStart, option) {
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
			return fmt.Errorf("%s: %s needs a restart, which without persistence loses retained messages and those of clients that are away: do it by hand", in.Main, option)
		}
	}
	return nil
}

// effect says whether the running broker has read the file.
func (c *control) effect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	s, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	g, err := processes(ctx, h, main)
	g.Changed = product.Changed(ctx, h, main, s.files)
	c.mu.Lock()
	told := c.told[main]
	c.mu.Unlock()
	_, option := split(key)
	if a, fault := question(ctx, h, main, s); err == nil && fault == nil && a.Limits[option] != "" {
		if a.Limits[option] == canonical(value) {
			return plugin.OK, ""
		}
		return plugin.NeedsRestart, "the broker runs with " + a.Limits[option] + " until it is restarted"
	}
	if err == nil && told.process.Same(g.Main) && told.changedS == g.Changed && !slices.Contains(atStart, option) {
		return plugin.OK, ""
	}
	return product.Effect(g.TakenAtStart(), err)
}
