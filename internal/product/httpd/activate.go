package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// processes finds those of an instance.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	all, err := product.Find(ctx, h, "apache2", "httpd")
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
		return product.Group{Main: mains[0], Children: product.Children(all, mains[0].PID)}, nil
	}
	return product.Group{}, fmt.Errorf("%d servers run with %s", len(mains), main)
}

// belongs says whether a server has been started with a main file, or with its
// directory; one that was started with neither has the distribution's own.
func belongs(h *host.Host, p product.Process, main string, only bool) bool {
	file := ""
	for n, a := range p.Argv[:max(0, len(p.Argv)-1)] {
		switch a {
		case "-f":
			file = p.Argv[n+1]
		case "-d":
			if file == "" {
				file = path.Join(p.Argv[n+1], path.Base(main))
			}
		}
	}
	if file == "" {
		return only || strings.HasPrefix(main, "/etc/apache2/") || strings.HasPrefix(main, "/etc/httpd/")
	}
	if !strings.HasPrefix(file, "/") {
		file = path.Join(instanceOf(h, main).root, file)
	}
	real, err := h.Files.Resolve(file)
	return err == nil && real == main
}

// tool is the program that checks and tells an instance, with the environment of its unit,
// to which Debian's apache2ctl adds the variables of envvars, and with the options that its
// unit or the distribution's file gives it.
func tool(h *host.Host, main string, words ...string) host.Command {
	in := instanceOf(h, main)
	env := unitEnvironment(h, in.unit)
	if in.envvars != "" {
		return host.Command{Argv: append([]string{"apache2ctl"}, words...), Env: append(env, "APACHE_CONFDIR="+path.Dir(main))}
	}
	argv := []string{"httpd"}
	for _, d := range commandDefines(h, in, nil) {
		if d != "FOREGROUND" || !slices.Contains(words, "-k") { // the unit's httpd does not go to the background
			argv = append(argv, "-D", d)
		}
	}
	return host.Command{Argv: append(append(argv, "-f", main), words...), Env: env}
}

func newControl() *product.Control {
	return &product.Control{
		Name:  "httpd",
		Unit:  func(h *host.Host, main string) string { return product.Unit(h, main, instanceOf(h, main).unit) },
		Mains: func(h *host.Host) ([]string, error) { return conf.Mains(servers(h)) },
		Running: func(ctx context.Context, h *host.Host, main string) (product.Process, error) {
			g, err := processes(ctx, h, main)
			return g.Main, err
		},
		Check: configTest,
		Reads: func(h *host.Host, main string) []string {
			s, _ := readSettings(h, instanceOf(h, main))
			return s.files
		},
		Reload:    product.ReloadBy("USR1"), // a graceful restart: requests that are being served are finished
		Ready:     ready,
		Complaint: complaint,
		Start: func(h *host.Host, main string, _ product.Process) (product.Start, error) {
			c := tool(h, main, "-k", "start")
			return product.Start{Argv: c.Argv, Env: c.Env}, nil
		},
	}
}

// configTest is httpd -t: it refuses what the server would not start with.
func configTest(ctx context.Context, h *host.Host, main string) error {
	res, err := h.Exec.Run(ctx, tool(h, main, "-t"))
	if err != nil {
		return err
	}
	if res.ExitCode == 0 {
		return nil
	}
	return fmt.Errorf("httpd -t: %s", complaint(string(res.Stderr)+string(res.Stdout)))
}

// complaint is what of an output says what is wrong.
func complaint(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for n, l := range lines {
		if strings.Contains(l, "Syntax error") {
			return strings.Join(lines[n:min(n+2, len(lines))], " ")
		}
	}
	for _, l := range lines {
		if strings.Contains(l, "AH00526") || strings.Contains(l, "rror") {
			return l
		}
	}
	return lines[0]
}

// ready waits for a process that was started since the files were changed, and
// for an answer on a port.
func ready(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, instanceOf(h, main))
	if err != nil {
		return product.Final(err)
	}
	g, err := processes(ctx, h, main)
	if err != nil {
		return err
	}
	changed := product.Changed(ctx, h, main, s.files)
	if !slices.ContainsFunc(g.Children, func(p product.Process) bool { return p.StartedS > changed }) {
		return errors.New("it has started no process with its new configuration")
	}
	if len(s.listen) == 0 {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(s.listen[0]))
	if err != nil {
		return err
	}
	return conn.Close()
}

// address is where a Listen can be reached from here.
func address(listen string) string {
	at, port, err := net.SplitHostPort(listen)
	if err != nil {
		at, port = "", listen
	}
	if at == "" || at == "0.0.0.0" || at == "*" || at == "::" {
		at = "127.0.0.1"
	}
	return net.JoinHostPort(at, port)
}

// effect says whether the running server has read the file.
func effect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	if key == ulimitVariable {
		return ulimitEffect(ctx, h, main, value)
	}
	s, err := readSettings(h, instanceOf(h, main))
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	g, err := processes(ctx, h, main)
	g.Changed = product.Changed(ctx, h, main, s.files)
	switch {
	case !slices.Contains(atStart, key):
		return product.Effect(g.Taken(), err)
	case err == nil && g.TakenAtStart() != product.Yes:
		return plugin.Unknown, "its files were changed since it was started, and it does not say what it runs with"
	}
	return product.Effect(g.TakenAtStart(), err)
}
