package nginx

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// processes finds the processes of an instance. It omits workers that are finishing their last
// requests.
func processes(ctx context.Context, h *host.Host, main string) (product.Group, error) {
	found, err := instances(h)
	if err != nil {
		return product.Group{}, err
	}
	g, err := product.Only(ctx, h, "nginx servers", main, func(p product.Process) bool { return belongs(h, p, main, len(found) == 1) }, "nginx")
	g.Children = slices.DeleteFunc(g.Children, func(c product.Process) bool {
		title := strings.Join(c.Argv, " ")
		return !strings.Contains(title, "worker process") || strings.Contains(title, "shutting down")
	})
	return g, err
}

// belongs reports whether a server was started with a main file. Without -c, a server uses the main
// file of its installation. The process title contains the command line: "nginx: master process
// nginx -c FILE".
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

// configTest runs nginx -t.
var configTest = product.ConfigTest("nginx -t", func(_ *host.Host, main string) host.Command {
	return host.Command{Argv: []string{"nginx", "-t", "-q", "-c", main}}
}, complaint)

// complaint returns the line of nginx -t's output that names the fault.
func complaint(text string) string {
	for line := range strings.Lines(text) {
		if _, what, ok := strings.Cut(line, "[emerg]"); ok {
			if _, rest, ok := strings.Cut(what, "#"); ok { // remove the prefix PID#TID:
				if _, message, ok := strings.Cut(rest, ": "); ok {
					what = message
				}
			}
			return strings.TrimSpace(what)
		}
	}
	return strings.TrimSpace(text)
}

// noWorker is the time without workers after which reload fails. nginx starts workers at once,
// which takes seconds on a busy machine, and never replaces one that failed to start.
const noWorker = 10 * time.Second

// reload replaces the workers. Its wait ends when new workers accept connections.
func reload(ctx context.Context, h *host.Host, main string, p product.Process) (product.Reloaded, error) {
	before, err := processes(ctx, h, main)
	if err != nil {
		return nil, err
	}
	var none time.Time // time since which no worker runs
	return func(ctx context.Context) error {
		now, err := processes(ctx, h, main)
		if err != nil {
			return err
		}
		switch {
		case slices.ContainsFunc(now.Children, func(p product.Process) bool { return slices.ContainsFunc(before.Children, p.Same) }):
			return errors.New("a worker with the old configuration still serves requests; see nginx's error log")
		case len(now.Children) > 0:
			none = time.Time{}
			return nil
		case none.IsZero():
			none = h.Clock.Now()
		case h.Clock.Now().Sub(none) > noWorker:
			return product.Final(errors.New("nginx runs no worker with the new configuration; see nginx's error log"))
		}
		return errors.New("nginx runs no worker with the new configuration yet")
	}, product.Reload(ctx, h, p, "HUP")
}

// ready waits until nginx accepts a connection on one of its sockets.
func ready(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Final(err)
	}
	network, address := s.listens()
	if network == "" {
		return nil
	}
	return product.Accepts(ctx, network, address)
}
