package table

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestProbeLeavesNothing: the real nginx, httpd and HAProxy are asked how they read their
// files. What these make them create is not there afterwards, and what they do not accept,
// cannot read as their service's user, or never finish reading is told apart.
func TestProbeLeavesNothing(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	const made = "/srv/effects/made"
	write := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dir := range []string{made, "/srv/effects/private", "/run/apache2", "/var/log/nginx"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("/srv/effects/private", 0o700); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	sh("cd /srv/effects/private && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out ../cert.pem -subj /CN=x -days 2 2>&1 && cat ../cert.pem key.pem >both.pem; chmod 600 key.pem both.pem")
	const (
		nginxConf   = "/etc/nginx/nginx.conf"
		haproxyConf = "/etc/haproxy/haproxy.cfg"
		apacheConf  = "/etc/apache2/conf-enabled/zz-probe.conf"
	)
	proxies := "defaults\n  timeout client 5s\n  timeout connect 5s\n  timeout server 5s\nfrontend f\n  bind :80\n  default_backend b\nbackend b\n  server s unknown.invalid:80\n"
	nginx := func(main, http string) string {
		return "user www-data;\nerror_log /srv/logs/nginx/error.log;\npid /run/nginx.pid;\n" + main + "events { worker_connections 333; }\nhttp {\n  access_log /var/log/nginx/a.log;\n  client_body_temp_path " + made + "/nginx;\n" + http + "}\n"
	}
	ask := func(ctx context.Context, product string) internalproduct.Installed {
		t.Helper()
		p := All[slices.IndexFunc(All, func(p internalproduct.Product) bool { return p.Name == product })]
		all, err := p.Find(t.Context(), host.Live())
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %d are found, %v", product, len(all), err)
		}
		all[0].(internalproduct.Prober).Probe(ctx)
		return all[0]
	}
	for _, c := range []struct {
		name, product string
		files         map[string]string
		refused       string // part of why the files are refused
		unknown       string // part of why it cannot be asked
		option, value string
	}{
		{name: "nginx makes a directory, listens on port 80, and cannot find a server", product: "nginx", files: map[string]string{nginxConf: nginx("", "  upstream u { server unknown.invalid:80; }\n  server { listen 192.0.2.1:80; location / { proxy_pass http://other.invalid; } }\n")}, option: "worker_connections", value: "333"},
		{name: "nginx with a mistake", product: "nginx", files: map[string]string{nginxConf: nginx("", "  keepalive_timeout 5x;\n")}, refused: "nginx.conf:8"},
		{name: "nginx with a key of root's", product: "nginx", files: map[string]string{nginxConf: nginx("", "  server { listen 443 ssl; ssl_certificate /srv/effects/cert.pem; ssl_certificate_key /srv/effects/private/key.pem; }\n")}, unknown: "as www-data"},
		{name: "HAProxy runs Lua that writes a file", product: "haproxy", files: map[string]string{
			haproxyConf: "global\n  user haproxy\n  lua-load /srv/effects/a.lua\n" + proxies, "/srv/effects/a.lua": "local f = io.open('" + made + "/haproxy', 'w'); if f then f:write('x'); f:close() end\nos.execute('touch " + made + "/executed')\n",
		}},
		{name: "HAProxy as root writes a file", product: "haproxy", files: map[string]string{haproxyConf: "global\n  lua-load /srv/effects/a.lua\n" + proxies}},
		{name: "HAProxy with a mistake", product: "haproxy", files: map[string]string{haproxyConf: "global\n  user haproxy\n  maxcon 5\n" + proxies}, refused: "haproxy.cfg:3"},
		{name: "HAProxy with a key of root's", product: "haproxy", files: map[string]string{haproxyConf: "global\n  user haproxy\n" + proxies + "listen l\n  bind :443 ssl crt /srv/effects/private/both.pem\n"}, unknown: "/srv/effects/private"},
		{name: "HAProxy that never finishes", product: "haproxy", files: map[string]string{
			haproxyConf: "global\n  user haproxy\n  lua-load /srv/effects/b.lua\n" + proxies, "/srv/effects/b.lua": "os.execute('setsid sleep 4243 & sleep 4243')\n",
		}, unknown: "deadline"},
		{name: "httpd with a macro and a condition on its directives", product: "httpd", files: map[string]string{
			apacheConf: "ServerName localhost\nLoadModule macro_module /usr/lib/apache2/modules/mod_macro.so\n<Macro Waits $s>\nTimeout $s\n</Macro>\nUse Waits 77\n<IfDirective ListenBacklog>\nTimeout 78\n</IfDirective>\n",
		}, option: "Timeout", value: "78"},
		{name: "httpd with a mistake", product: "httpd", files: map[string]string{apacheConf: "ServerName localhost\nTimeot 5\n"}, refused: "line 2 of " + apacheConf},
		{name: "httpd with a certificate of root's", product: "httpd", files: map[string]string{
			apacheConf: "ServerName localhost\nLoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n<VirtualHost *:443>\nSSLEngine on\nSSLCertificateFile /srv/effects/private/both.pem\n</VirtualHost>\n",
		}, unknown: "cannot read /srv/effects/private/both.pem"},
		{name: "httpd with a certificate that is missing", product: "httpd", files: map[string]string{
			apacheConf: "ServerName localhost\nLoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n<VirtualHost *:443>\nSSLEngine on\nSSLCertificateFile /srv/effects/missing.pem\n</VirtualHost>\n",
		}, refused: "/srv/effects/missing.pem"},
	} {
		if err := os.MkdirAll("/srv/logs/nginx", 0o755); err != nil {
			t.Fatal(err)
		}
		write(c.files)
		before := everyFile(t)
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.unknown == "deadline" {
			ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
		}
		i := ask(ctx, c.product)
		cancel()
		refusal := i.Answer("refusal")
		switch asRead := i.(internalproduct.Prober).AsRead(); {
		case c.unknown != "":
			if refusal.Unknown == "" || !strings.Contains(refusal.Unknown, strings.TrimPrefix(c.unknown, "deadline")) || asRead {
				t.Errorf("%s: %+v, want unknown with %q", c.name, refusal, c.unknown)
			}
		case c.refused != "":
			if text, _ := refusal.Value.(string); !strings.Contains(text, c.refused) || asRead {
				t.Errorf("%s: %+v, want %q", c.name, refusal, c.refused)
			}
		case refusal.Value != "" || !asRead:
			t.Errorf("%s: %+v, want accepted", c.name, refusal)
		}
		if c.option != "" {
			if got, _ := i.Option(c.option).File.Get(); got != c.value {
				t.Errorf("%s: %s is %q, want %q", c.name, c.option, got, c.value)
			}
		}
		after := everyFile(t)
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if before[name] != after[name] {
				t.Errorf("%s: it has made or changed %s", c.name, name)
			}
		}
		if c.product == "httpd" {
			if err := os.Remove(apacheConf); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all, err := filepath.Glob("/proc/[0-9]*/cmdline"); err == nil {
		for _, f := range all {
			if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), "sleep\x004243") {
				t.Errorf("%s: what HAProxy has started runs on", f)
			}
		}
	}
}

// everyFile is each file of the root that a program could have made or changed, with its
// size and time.
func everyFile(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"/srv", "/var", "/run", "/tmp", "/etc", "/root", "/dev/shm"} {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := e.Info()
			if err == nil {
				out[name] = st.ModTime().String() + st.Mode().String()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
