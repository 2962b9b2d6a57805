package haproxy

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product"
	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
)

const mainFile = "/etc/haproxy/haproxy.cfg"

var tree = map[string]string{
	mainFile: `# a comment
global
    log /dev/log local0
    stats timeout 30s
    stats socket /run/haproxy.sock mode 660 level admin # here
    maxconn	4000 # not 5000
    setenv A "b c"
    tune.bufsize "$SIZE"
.if feature(OPENSSL)
    tune.ssl.cachesize 5
.endif
defaults base
    mode http
    timeout connect 5s
    timeout client "1m"
frontend web
    bind *:8080,*:8081
    bind :443 ssl
    default_backend app
backend app
    server a 127.0.0.1:1 maxconn 10
backend unused
    acl x path_reg '\.(js|css)$' "a#b" c\#d
`,
	"/etc/haproxy/conf.d/20.cfg":          "listen mqtt from base\n  bind unix@/run/m.sock\n  maxconn 8000\n  timeout server 30s\n  server b 10.0.0.1:1883\ndefaults\nfrontend bare\n  bind ipv6@[::1]:5\n  backlog 100\n",
	"/etc/haproxy/conf.d/.x.cfg":          "global\n  maxconn 1\n",
	"/etc/haproxy/conf.d/x.conf":          "global\n  maxconn 2\n",
	"/etc/haproxy/conf.d/30.cfg":          "global\n  nbthread 4\n",
	"/lib/systemd/system/haproxy.service": "[Service]\nEnvironment=\"CFGDIR=/etc/haproxy/conf.d\"\nExecStart=/usr/sbin/haproxy -Ws -f $CONFIG -f $CFGDIR\n",
	"/var/lib/dpkg/status":                "Package: haproxy\nStatus: install ok installed\nVersion: 2.4.22-3\n",
}

func TestRead(t *testing.T) {
	h := machine.Mounted(t, tree)
	all, err := Product.Find(t.Context(), h)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	i := all[0].(*installed)
	if i.FileErr != nil {
		t.Fatal(i.FileErr)
	}
	testkitproduct.Reads(t, i, map[string]string{
		"maxconn": "4000 " + mainFile + ":6", "nbthread": "4 /etc/haproxy/conf.d/30.cfg:2", "ulimit-n": " " + mainFile,
		"defaults base/timeout-client": "1m " + mainFile + ":15", "listen mqtt/maxconn": "8000 /etc/haproxy/conf.d/20.cfg:3",
		"global/setenv": "A b c " + mainFile + ":7", "backend unused/acl": `x path_reg \.(js|css)$ a#b c#d ` + mainFile + ":23",
	}, map[string]any{
		"passthrough_443": nil, "ports": []string{"8080", "8081", "443", "5"},
		"version": "2.4.22", "stats_socket": "/run/haproxy.sock", "listen_backlog": 8000.0,
		"missing_timeouts": []string{"backend app: timeout server", "frontend bare: timeout client"}, "frontends_beyond_maxconn": []string{"listen mqtt: 8000"},
	})
	for option, want := range map[string]string{
		"tune.bufsize": "comes from an environment variable", "tune.ssl.cachesize": "haproxy.cfg:10: inside .if", "timeout-server": "2 defaults sections found (defaults base, defaults)",
		"none": "not a tuning option", "global/a#b": "is not an option name",
	} {
		if got := i.Option(option).File.Unknown(); !strings.Contains(got, want) {
			t.Errorf("%s is unknown for %q, want %q", option, got, want)
		}
	}
	if network, address := i.Files.serves(); network != "tcp" || address != "127.0.0.1:8080" {
		t.Errorf("it is asked at %s %s", network, address)
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"maxconn 5\n", `haproxy.cfg:1: "maxconn" is outside any section`},
		{"global\n  user 'a\n", "haproxy.cfg:2: a quote is not closed"},
		{"global\n  user a\\", "haproxy.cfg:2: a quote is not closed, or nothing follows a backslash"},
		{".endif\n", "haproxy.cfg:1: .endif without .if"},
		{"global\n.if 1\n user x\n", "haproxy.cfg:3: .if without .endif"},
		{strings.Repeat("\n", maxLines+1), "more than 200000 lines"},
	} {
		h := machine.Mounted(t, map[string]string{mainFile: c.text})
		if _, err := readSettings(h, mainFile); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text[:min(20, len(c.text))], err, c.want)
		}
	}
}

func TestValues(t *testing.T) {
	conftest.Reads(t, readDuration, map[string]float64{"5000": 5, "0": 0, "30s": 30, "1m": 60, "500us": 5e-4, "2h": 7200, "1d": 86400, "7ms": 0.007}, "", "s", "-1", "1.5s", "1h30m", "5x", " 5")
	for address, want := range map[string]string{
		"*:80": "tcp 127.0.0.1:80", ":::443": "tcp [::1]:443", "[::1]:443": "tcp [::1]:443", "ipv4@10.0.0.1:80-90": "tcp 10.0.0.1:80", "/run/x": "unix /run/x",
		"unix@/run/x": "unix /run/x", "abns@x": " ", "fd@5": " ", "quic4@:443": " ", "80": " ", "a:b": " ",
	} {
		if network, at := reach(address); network+" "+at != want {
			t.Errorf("%s is reached at %s %s, want %s", address, network, at, want)
		}
	}
	for name, p := range contexts {
		if key, err := (syntax{}).Key(name); err != nil || key != p+"/"+name || parameter(key) == nil {
			t.Errorf("%s: %s, %v", name, key, err)
		}
	}
	if len(contexts) != len(parameters) {
		t.Errorf("%d sections of options, %d options", len(contexts), len(parameters))
	}
	conftest.Checks(t, check, [][3]string{
		{"global/maxconn", "5", ""}, {"defaults/timeout client", "5x", "not a HAProxy time"}, {"defaults/http-reuse", "often", "not one of"},
		{"global/chroot", "/", "not a tuning option"}, {"frontend web/bind", ":80", "not a tuning option"},
	})
}

// Capsules behind a load balancer.
func TestPasses(t *testing.T) {
	for text, want := range map[string]string{
		"listen https\n bind *:443\n balance source\n server a a:443\n":                                  "source",
		"defaults\n balance leastconn\nfrontend a\n bind :80,:443\n default_backend b\nbackend b\n":      "leastconn",
		"frontend a\n bind :443\n default_backend b\nbackend b\n":                                        "roundrobin",
		"defaults\n mode http\nfrontend a\n bind :443\n default_backend b\nbackend b\n balance source\n": "",
		"frontend a\n bind :4430\n": "", "frontend a\n bind :443\n": "",
	} {
		h := machine.Mounted(t, map[string]string{mainFile: text})
		s, err := readSettings(h, mainFile)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.passes("443"); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// A line that no file has goes where it belongs.
func TestPlace(t *testing.T) {
	for _, c := range []struct{ text, key, want string }{
		{"global\n user x\ndefaults\n mode http\n", "global/maxconn", "global\n\tmaxconn 5\n user x\ndefaults\n mode http\n"},
		{"global\n user x\ndefaults # all\n mode http\n", "defaults/timeout client", "global\n user x\ndefaults # all\n\ttimeout client 5\n mode http\n"},
		{"defaults a\ndefaults b\n", "defaults b/retries", "defaults a\ndefaults b\n\tretries 5\n"},
		{"defaults a\n", "defaults/retries", "is ambiguous: line "},
		{"defaults\ndefaults\n", "defaults/retries", "is ambiguous: line "},
		{"global", "global/maxconn", "no section global that starts on its own line"},
		{"", "global/maxconn", "no section global"},
		{".if defined(A)\nglobal\n.endif\n", "global/maxconn", "line 2 begins section global inside a condition"},
		{"frontend web\n", "frontend web/maxconn", "add it by hand"},
		{"global\n", "global/user", "add it by hand"},
	} {
		at, err := (syntax{}).Place(c.text, c.key)
		got := ""
		if err == nil {
			got = c.text[:at] + syntax{}.Line(c.key, "5") + "\n" + c.text[at:]
		}
		if got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q, %s: %q, %v, want %q", c.text, c.key, got, err, c.want)
		}
	}
}

func TestProcesses(t *testing.T) {
	h := machine.Mounted(t, tree)
	for _, c := range []struct {
		argv string
		want bool
	}{
		{"haproxy -Ws -f " + mainFile + " -f /etc/haproxy/conf.d -p /run/x", true},
		{"haproxy -D -- a " + mainFile, true}, {"haproxy -f /etc/haproxy", true}, {"haproxy -f /etc/other.cfg", false}, {"haproxy -f", false},
	} {
		if got := belongs(h, product.Process{Argv: strings.Fields(c.argv)}, mainFile); got != c.want {
			t.Errorf("%s: %v", c.argv, got)
		}
	}
	for out, want := range map[string]string{
		"[NOTICE]   (7) : version is 2.6\n[ALERT]    (7) : config : parsing [/x:3] : 'maxconn' expects one.\nmore": "config : parsing [/x:3] : 'maxconn' expects one.",
		"cannot open": "cannot open",
	} {
		if got := complaint(out); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := readInfo("Unknown command\n"); err == nil {
		t.Error("a server that does not say it is believed")
	}
	if _, err := question(t.Context(), h, mainFile, settings{}); err != errNoSocket { //nolint:errorlint // that very one
		t.Error(err)
	}
}

func FuzzBytes(f *testing.F) {
	f.Add(tree[mainFile], "maxconn", "5")
	f.Add("global\ndefaults\n timeout  client 5s # x\r\n", "timeout-client", "7s")
	f.Add("global\ndefaults a\nfrontend b\n maxconn 3", "frontend b/maxconn", "4")
	f.Add("defaults a\n", "defaults a/retries", "4")
	f.Add("global\n maxconn \"5\"\n.if x\n.endif", "maxconn", "1\\ 2")
	f.Fuzz(func(t *testing.T, main, key, value string) {
		testkitproduct.Bytes(t, Product, map[string]string{mainFile: main}, mainFile+"#"+key, value)
	})
}

func FuzzInfo(f *testing.F) {
	f.Add("Name: HAProxy\nPid: 5\nMaxconn: 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		if info, err := readInfo(text); err == nil && info["Pid"] == "" {
			t.Fatal("an answer of nobody")
		}
	})
}
