package haproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

func newest(all []product.Process) product.Process {
	return slices.MaxFunc(all, func(a, b product.Process) int {
		return cmp.Or(cmp.Compare(a.Ticks, b.Ticks), cmp.Compare(a.PID, b.PID))
	})
}

// processes finds those of an instance. With a master (-W, -Ws) the newest of its
// children serves, and older ones finish what they have begun; without one the
// newest process does.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	all, err := product.Find(ctx, h, "haproxy")
	if err != nil {
		return product.Group{}, err
	}
	mains := slices.DeleteFunc(product.Main(all), func(p product.Process) bool { return !belongs(h, p, main) })
	if len(mains) == 0 {
		return product.Group{}, product.ErrStopped
	}
	g := product.Group{Main: newest(mains)}
	if children := product.Children(all, g.Main.PID); len(children) > 0 {
		g.Children = []product.Process{newest(children)}
	} else if slices.Contains(g.Main.Argv, "-W") || slices.Contains(g.Main.Argv, "-Ws") {
		return g, errors.New("its master runs without a worker")
	}
	return g, nil
}

// worker is the process that serves.
func worker(g product.Group) product.Process {
	if len(g.Children) > 0 {
		return g.Children[0]
	}
	return g.Main
}

// configured are the files and directories that a process was started with.
func configured(p product.Process) []string {
	var out []string
	for n := 1; n < len(p.Argv); n++ {
		switch p.Argv[n] {
		case "-f":
			if n++; n < len(p.Argv) {
				out = append(out, p.Argv[n])
			}
		case "--":
			return append(out, p.Argv[n+1:]...)
		}
	}
	return out
}

// belongs says whether a server has been started with a main file.
func belongs(h *host.Host, p product.Process, main string) bool {
	return slices.ContainsFunc(configured(p), func(f string) bool {
		real, err := h.Files.Resolve(f)
		return err == nil && (real == main || real == path.Dir(main)) || f == main
	})
}

// failures are how often in a row a master has failed to start a new worker, as it
// tells itself when it starts again (src/mworker.c, HAPROXY_PROCESSES); 0 where it
// does not, before 2.5 and since 3.1.
func failures(h *host.Host, p product.Process) int {
	environ, err := h.Files.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
	if err != nil {
		return 0
	}
	_, list, _ := strings.Cut("\x00"+string(environ), "\x00HAPROXY_PROCESSES=")
	list, _, _ = strings.Cut(list, "\x00")
	for _, process := range strings.Split(list, "|") {
		if !strings.HasPrefix(process, "type=m;") {
			continue
		}
		_, count, _ := strings.Cut(process, ";failedreloads=")
		count, _, _ = strings.Cut(count, ";")
		n, _ := strconv.Atoi(count)
		return n
	}
	return 0
}

// control tells a server; it remembers what a reload is to replace.
type control struct {
	*product.Control
	mu   sync.Mutex
	told map[string]told // by the main file
}

type told struct {
	worker   product.Process
	failures int
}

func newControl() *control {
	c := &control{told: map[string]told{}}
	c.Control = &product.Control{
		Name:  "haproxy",
		Unit:  func(h *host.Host, main string) string { return product.Unit(h, main, "haproxy.service") },
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

// configTest is haproxy -c: it refuses what the server would not take.
func configTest(ctx context.Context, h *host.Host, main string) error {
	argv := []string{"haproxy", "-c"}
	for _, a := range arguments(h, main) {
		argv = append(argv, "-f", a)
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv})
	if err != nil {
		return err
	}
	if res.ExitCode == 0 {
		return nil
	}
	return fmt.Errorf("haproxy -c: %s", complaint(string(res.Stderr)+string(res.Stdout)))
}

// complaint is what of an output says what is wrong.
func complaint(text string) string {
	for line := range strings.Lines(text) {
		if _, what, ok := strings.Cut(line, "[ALERT]"); ok {
			if _, rest, ok := strings.Cut(what, " : "); ok {
				what = rest
			}
			return strings.TrimSpace(what)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// settling is how long a master may take until it hears again.
const settling = 20 * time.Second

// reload starts a new worker, to which the old one hands its sockets and then
// finishes what it has begun. A master that starts itself anew, as after a reload that
// failed, loses what it is told before it listens (2.6: nine of ten that came as soon as
// it had counted its failure).
func (c *control) reload(ctx context.Context, h *host.Host, main string, p product.Process) error {
	g, err := processes(ctx, h, main)
	if err != nil {
		return err
	}
	if len(g.Children) > 0 {
		settled, end := context.WithTimeout(ctx, settling)
		defer end()
		if err := product.Catches(settled, h, g.Main.PID, syscall.SIGUSR2); err != nil {
			return fmt.Errorf("its master is not ready to be told: %w", err)
		}
	}
	c.mu.Lock()
	c.told[main] = told{worker(g), failures(h, g.Main)}
	c.mu.Unlock()
	switch {
	case p.Unit != "" && host.HasSystemd(h), len(g.Children) > 0:
		return product.Reload(ctx, h, p, "USR2")
	case slices.Contains(g.Main.Argv, "-db"):
		return errors.New("it runs in the foreground without a master (-W), so it cannot be reloaded")
	}
	argv := g.Main.Argv
	if n := slices.IndexFunc(argv, func(a string) bool { return a == "-sf" || a == "-st" }); n > 0 {
		argv = argv[:n] // of the reload before, always at the end
	}
	argv = append(slices.Clone(argv), "-sf", strconv.Itoa(g.Main.PID))
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("haproxy -sf: %s", complaint(string(res.Stderr)+string(res.Stdout)))
	}
	return err
}

// ready waits until another worker than before answers as the one that serves, on
// the stats socket and where clients come in.
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
	c.mu.Unlock()
	if worker(g).Same(told.worker) {
		err := errors.New("the worker with the old configuration still serves: its log says why")
		if failures(h, g.Main) > told.failures {
			return product.Final(err)
		}
		return err
	}
	info, err := question(ctx, h, main, s)
	switch {
	case errors.Is(err, errNoSocket):
	case err != nil:
		return err
	case info["Pid"] != strconv.Itoa(worker(g).PID):
		return fmt.Errorf("process %s still answers, not %d with the new configuration", info["Pid"], worker(g).PID)
	}
	network, address := s.serves()
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
func effect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	s, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	g, err := processes(ctx, h, main)
	if field := fields[strings.TrimPrefix(key, "global/")]; err == nil && field != "" {
		if info, err := question(ctx, h, main, s); err == nil && info[field] == canonical(value) {
			return plugin.OK, ""
		} else if err == nil && info[field] != "" {
			return plugin.Drifted, "the server runs with " + info[field]
		}
	}
	g.Changed = product.Changed(ctx, h, main, s.files)
	return product.Effect(g.Taken(), err)
}
