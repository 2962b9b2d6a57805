package table

import (
	"context"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// noted is an Exec that notes what is run.
type noted struct {
	host.Exec
	mu   sync.Mutex
	argv [][]string
}

func (n *noted) Run(ctx context.Context, c host.Command) (host.Result, error) {
	n.mu.Lock()
	n.argv = append(n.argv, c.Argv)
	n.mu.Unlock()
	return n.Exec.Run(ctx, c)
}

// sideEffects are files that show that a product's own program has read its files: each
// makes one of what is in made.
var sideEffects = map[string]string{
	"/etc/haproxy/haproxy.cfg":               "global\n  lua-load /srv/effects/a.lua\ndefaults\n  timeout client 5s\nfrontend f\n  bind 127.0.0.1:18080\n",
	"/srv/effects/a.lua":                     "local f = io.open('/srv/effects/made/haproxy', 'w'); f:write('x'); f:close()\n",
	"/etc/nginx/nginx.conf":                  "events {}\nhttp {\n  client_body_temp_path /srv/effects/made/nginx;\n  server { listen 127.0.0.1:18081; }\n}\n",
	"/srv/shop/config/puma.rb":               "File.write('/srv/effects/made/puma', 'x')\nworkers 2\n",
	"/etc/systemd/system/shop.service":       "[Service]\nExecStart=/usr/bin/puma\nWorkingDirectory=/srv/shop\n",
	"/etc/prometheus/prometheus.yml":         "global: {scrape_interval: 15s}\n",
	"/etc/apache2/conf-enabled/zz-test.conf": "Define HERE\nServerName localhost\n",
}

// allowed are programs that answer a question, and change nothing.
var allowed = []string{"rpm", "dpkg-query", "kubelet", "systemctl"}

// TestReadingRunsNothing: to find products and to answer all that rules ask of them runs
// none of their programs, which have side effects when they read their files.
func TestReadingRunsNothing(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	const made = "/srv/effects/made"
	if err := os.MkdirAll(made, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range sideEffects {
		if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := host.Live()
	ran := &noted{Exec: h.Exec}
	h.Exec = ran
	found := map[string]bool{}
	for _, p := range All {
		all, err := p.Find(t.Context(), h)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		for _, i := range all {
			found[p.Name] = true
			for _, o := range p.Parameters {
				i.Option(o.Name)
			}
			for _, in := range p.Inputs {
				i.Answer(strings.TrimPrefix(in.Name, p.Name+"."))
			}
		}
	}
	for _, name := range []string{"haproxy", "nginx", "httpd", "puma", "postgresql", "redis", "prometheus"} {
		if !found[name] {
			t.Errorf("%s is not found: nothing is tested of it", name)
		}
	}
	for _, argv := range ran.argv {
		if !slices.Contains(allowed, path.Base(argv[0])) {
			t.Errorf("to read, %q was run", argv)
		}
	}
	list := func() (names []string) {
		entries, err := os.ReadDir(made)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if got := list(); len(got) > 0 {
		t.Errorf("reading has made %q", got)
	}
	// The products' own checks do make them: otherwise the test would show nothing.
	for _, argv := range [][]string{{"haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"}, {"nginx", "-t"}} {
		out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	if got := list(); !slices.Equal(got, []string{"haproxy", "nginx"}) {
		t.Errorf("the products' own checks have made %q", got)
	}
}
