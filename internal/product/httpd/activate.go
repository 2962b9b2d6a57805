package httpd

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// processes finds the processes of an instance.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	found, err := instances(h)
	if err != nil {
		return product.Group{}, err
	}
	return product.Only(ctx, h, "httpd servers", main, func(p product.Process) bool { return belongs(h, p, main, len(found) == 1) }, "apache2", "httpd")
}

// belongs reports whether a server was started with a main file or with its directory. A server
// started without either uses the distribution's main file.
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

// tool returns the command that checks and controls an instance. It has the options and the
// environment of the unit, or else the options of the distribution's file. Debian's apache2ctl adds
// the variables of envvars.
func tool(h *host.Host, main string, words ...string) host.Command {
	in := instanceOf(h, main)
	env := unitEnvironment(h, in.unit)
	if in.envvars != "" {
		return host.Command{Argv: append([]string{"apache2ctl"}, words...), Env: append(env, "APACHE_CONFDIR="+path.Dir(main))}
	}
	argv := []string{"httpd"}
	for _, d := range commandDefines(h, in, nil) {
		if d != "FOREGROUND" || !slices.Contains(words, "-k") { // the unit's httpd stays in the foreground
			argv = append(argv, "-D", d)
		}
	}
	return host.Command{Argv: append(append(argv, "-f", main), words...), Env: env}
}

// configTest runs httpd -t.
var configTest = product.ConfigTest("httpd -t", func(h *host.Host, main string) host.Command { return tool(h, main, "-t") }, complaint)

// complaint returns the line of httpd -t's output that names the fault.
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

// ready waits for a process that started after the files changed, and for a response on a port.
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
		return errors.New("httpd did not start a process with the new configuration")
	}
	if len(s.listen) == 0 {
		return nil
	}
	return product.Accepts(ctx, "tcp", address(s.listen[0]))
}

// address converts a Listen to an address that this machine can dial.
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
