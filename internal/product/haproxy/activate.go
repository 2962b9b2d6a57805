package haproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

func newest(all []product.Process) product.Process {
	return slices.MaxFunc(all, func(a, b product.Process) int {
		return cmp.Or(cmp.Compare(a.Ticks, b.Ticks), cmp.Compare(a.PID, b.PID))
	})
}

// processes finds the processes of an instance. Under a master (-W, -Ws) only its newest child
// serves; older ones finish their last requests. Without a master the newest process serves.
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
		return g, errors.New("HAProxy's master runs without a worker")
	}
	return g, nil
}

// worker returns the group's serving process.
func worker(g product.Group) product.Process {
	if len(g.Children) > 0 {
		return g.Children[0]
	}
	return g.Main
}

// configured returns the files and directories in a process's -f arguments.
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

// belongs reports whether a process was started with a main file.
func belongs(h *host.Host, p product.Process, main string) bool {
	return slices.ContainsFunc(configured(p), func(f string) bool {
		real, err := h.Files.Resolve(f)
		return err == nil && (real == main || real == path.Dir(main)) || f == main
	})
}

// failures returns how many times in a row a master failed to start a new worker. The master passes
// this count to itself when it re-executes (src/mworker.c, HAPROXY_PROCESSES). Before 2.5 and since
// 3.1 it does not, and failures returns 0.
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

// configTest runs haproxy -c.
var configTest = product.ConfigTest("haproxy -c", func(h *host.Host, main string) host.Command {
	argv := []string{"haproxy", "-c"}
	for _, a := range arguments(h, main) {
		argv = append(argv, "-f", a)
	}
	return host.Command{Argv: argv}
}, complaint)

// complaint returns the line of haproxy -c's output that names the fault.
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

// settling is the longest time in which a re-executed master may lose signals.
const settling = 20 * time.Second

// reload starts a new worker. The old worker passes its sockets on before it finishes its last
// requests. A master re-executes after a failed reload, and loses a signal that comes too early
// (2.6 lost nine of ten signals that were sent as soon as it had counted the failure).
func reload(ctx context.Context, h *host.Host, main string, p product.Process) (product.Reloaded, error) {
	before, err := processes(ctx, h, main)
	if err != nil {
		return nil, err
	}
	if len(before.Children) > 0 {
		settled, end := context.WithTimeout(ctx, settling)
		defer end()
		if err := product.Catches(settled, h, before.Main.PID, syscall.SIGUSR2); err != nil {
			return nil, fmt.Errorf("HAProxy's master is not ready for a reload: %w", err)
		}
	}
	failed := failures(h, before.Main)
	replaced := func(ctx context.Context) error {
		now, err := processes(ctx, h, main)
		if err != nil || !worker(now).Same(worker(before)) {
			return err
		}
		err = errors.New("the worker with the old configuration still serves requests; see HAProxy's log")
		if failures(h, now.Main) > failed {
			return product.Final(err)
		}
		return err
	}
	switch {
	case p.Unit != "" && host.HasSystemd(h), len(before.Children) > 0:
		return replaced, product.Reload(ctx, h, p, "USR2")
	case slices.Contains(before.Main.Argv, "-db"):
		return nil, errors.New("HAProxy cannot be reloaded: it runs in the foreground without a master (-W)")
	}
	argv := before.Main.Argv
	if n := slices.IndexFunc(argv, func(a string) bool { return a == "-sf" || a == "-st" }); n > 0 {
		argv = argv[:n] // from the previous reload, always last
	}
	argv = append(slices.Clone(argv), "-sf", strconv.Itoa(before.Main.PID))
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("haproxy -sf: %s", complaint(string(res.Stderr)+string(res.Stdout)))
	}
	return replaced, err
}

// ready waits until the new worker responds on the stats socket and on the clients' address.
func ready(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Final(err)
	}
	g, err := processes(ctx, h, main)
	if err != nil {
		return err
	}
	if _, err := answers(ctx, h, main, s, g); err != nil && !errors.Is(err, errNoSocket) {
		return err
	}
	network, address := s.serves()
	if network == "" {
		return nil
	}
	return product.Accepts(ctx, network, address)
}

// answers returns the response to "show info" of the group's worker. If another process responds,
// the error is errAnother.
func answers(ctx context.Context, h *host.Host, main string, s settings, g product.Group) (map[string]string, error) {
	info, err := question(ctx, h, main, s)
	if err == nil && info["Pid"] != strconv.Itoa(worker(g).PID) {
		return nil, errAnother
	}
	return info, err
}

// errAnother is returned if the worker from before a reload still responds.
var errAnother = errors.New("another process answers at HAProxy's stats socket")

// lingers is the time limit for the old worker's responses after a reload: both workers have the
// socket until the old one ends.
const lingers = 5 * time.Second

// ask returns the new worker's report. It waits until the old worker no longer responds.
func ask(ctx context.Context, i *installed) (info map[string]string, err error) {
	for end := i.Host.Clock.Now().Add(lingers); ; time.Sleep(20 * time.Millisecond) {
		info, err = answers(ctx, i.Host, i.Main, i.Files, i.Run)
		if !errors.Is(err, errAnother) || !i.Host.Live || ctx.Err() != nil || i.Host.Clock.Now().After(end) {
			return info, err
		}
		if g, err := processes(ctx, i.Host, i.Main); err == nil {
			g.Changed = i.Run.Changed
			i.Run = g
		}
	}
}
