package nginx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// processes finds those of an instance; workers that only finish what they have
// begun are not among them.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	all, err := product.Find(ctx, h, "nginx")
	if err != nil {
		return product.Group{}, err
	}
	found, err := instances(h)
	if err != nil {
		return product.Group{}, err
	}
	mains := slices.DeleteFunc(product.Main(all), func(p product.Process) bool {
		return !belongs(h, p, main, len(found) == 1)
	})
	switch len(mains) {
	case 0:
		return product.Group{}, product.ErrStopped
	case 1:
		g := product.Group{Main: mains[0]}
		for _, c := range product.Children(all, g.Main.PID) {
			if title := strings.Join(c.Argv, " "); strings.Contains(title, "worker process") && !strings.Contains(title, "shutting down") {
				g.Children = append(g.Children, c)
			}
		}
		return g, nil
	}
	return product.Group{}, fmt.Errorf("%d servers run with %s", len(mains), main)
}

// belongs says whether a server has been started with a main file; one that was
// started with none has that of where it is installed. Its title is its command
// line: "nginx: master process nginx -c FILE".
func belongs(h *host.Host, p product.Process, main string, only bool) bool {
	words := strings.Fields(strings.Join(p.Argv, " "))
	if len(words) > 3 && words[0] == "nginx:" && words[1] == "master" {
		words = words[3:]
	}
	file, prefix := "", ""
	for n, w := range words[:max(0, len(words)-1)] {
		switch w {
		case "-c":
			file = words[n+1]
		case "-p":
			prefix = words[n+1]
		}
	}
	switch {
	case file == "" && prefix == "":
		program := ""
		if len(words) > 0 {
			program = words[0]
		}
		return only || strings.HasPrefix(main, "/usr/local/") == strings.HasPrefix(program, "/usr/local/") && !strings.HasPrefix(main, "/etc/opt/")
	case file == "":
		file = "conf/nginx.conf"
	}
	if !strings.HasPrefix(file, "/") {
		if !strings.HasPrefix(prefix, "/") {
			return only && path.Base(file) == path.Base(main)
		}
		file = path.Join(prefix, file)
	}
	real, err := h.Files.Resolve(file)
	return err == nil && real == main || file == main
}

// control tells a server; it remembers the workers that a reload is to replace.
type control struct {
	*product.Control
	mu   sync.Mutex
	told map[string]told // by the main file
}

type told struct {
	old []product.Process
	// barren is since when no worker is seen; zero where one is.
	barren time.Time
}

func newControl() *control {
	c := &control{told: map[string]told{}}
	c.Control = &product.Control{
		Name:  "nginx",
		Unit:  func(h *host.Host, main string) string { return product.Unit(h, main, "nginx.service") },
		Mains: func(h *host.Host) ([]string, error) { return conf.Mains(instances(h)) },
		Running: func(ctx context.Context, h *host.Host, main string) (product.Process, error) {
			g, err := processes(ctx, h, main)
			return g.Main, err
		},
		Check: configTest,
		Reads: func(h *host.Host, main string) []string {
			s, _ := readSettings(h, main)
			return s.files
		},
		Reload: c.reload,
		Ready:  c.ready,
	}
	return c
}

// configTest is nginx -t: it refuses what the server would not take.
func configTest(ctx context.Context, h *host.Host, main string) error {
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{"nginx", "-t", "-q", "-c", main}})
	if err != nil {
		return err
	}
	if res.ExitCode == 0 {
		return nil
	}
	return fmt.Errorf("nginx -t: %s", complaint(string(res.Stderr)))
}

// complaint is what of an output says what is wrong.
func complaint(text string) string {
	for line := range strings.Lines(text) {
		if _, what, ok := strings.Cut(line, "[emerg]"); ok {
			if _, rest, ok := strings.Cut(what, "#"); ok { // PID#TID:
				if _, message, ok := strings.Cut(rest, ": "); ok {
					what = message
				}
			}
			return strings.TrimSpace(what)
		}
	}
	return strings.TrimSpace(text)
}

func (c *control) reload(ctx context.Context, h *host.Host, main string, p product.Process) error {
	g, err := processes(ctx, h, main)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.told[main] = told{old: g.Children}
	c.mu.Unlock()
	return product.Reload(ctx, h, p, "HUP")
}

// barren is after how long without any worker none is to be expected: nginx starts
// them at once, which on a busy machine takes seconds, and none again that has failed to
// begin.
const barren = 10 * time.Second

// ready waits until other workers take connections than those before the reload,
// and for an answer on a socket.
func (c *control) ready(ctx context.Context, h *host.Host, main string, _ product.Process) error {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Final(err)
	}
	g, err := processes(ctx, h, main)
	if err != nil {
		return err
	}
	c.mu.Lock()
	told := c.told[main]
	if len(g.Children) > 0 {
		told.barren = time.Time{}
	} else if told.barren.IsZero() {
		told.barren = h.Clock.Now()
	}
	c.told[main] = told
	c.mu.Unlock()
	switch {
	case slices.ContainsFunc(g.Children, func(p product.Process) bool {
		return slices.ContainsFunc(told.old, p.Same)
	}):
		return errors.New("a worker with the old configuration still serves: its error log says why")
	case len(g.Children) == 0 && h.Clock.Now().Sub(told.barren) > barren:
		return product.Final(errors.New("no worker runs with the new configuration: its error log says why"))
	case len(g.Children) == 0:
		return errors.New("no worker runs with the new configuration")
	}
	network, address := s.listens()
	if network == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// effect says whether the running server has read the file.
func effect(ctx context.Context, h *host.Host, main, _, _ string) (plugin.Verdict, string) {
	s, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	g, err := processes(ctx, h, main)
	g.Changed = product.Changed(ctx, h, main, s.files)
	return product.Effect(g.Taken(), err)
}
