package nginx

import (
	"strings"
	"testing"

	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
)

const mainFile = "/etc/nginx/nginx.conf"

var tree = map[string]string{
	mainFile: `user nginx; worker_processes auto;
include modules.d/*.conf; # a comment; { }
events { worker_connections 1024; }
http {
	log_format main '$remote_addr "x" { ; } \' '
	                "${b}";
	keepalive_timeout 65 60;
	content_by_lua_block { if a then b = {1, "}\"}", '{'} end; -- it's } here
		--[==[ } ]] ]==] c = [[ } ]]
	}
	upstream back { server 127.0.0.1:1 max_fails=2; server b; }
	upstream kept { server unix:/run/x; keepalive 4; }
	server { listen 443 quic; listen [::]:8443 ssl backlog=2048; }
	include conf.d/*.conf;
	map $a ${b}c { default 0; "~*\.(js|css){1}$" 1; }
}
`,
	"/etc/nginx/modules.d/a.conf":    "worker_rlimit_nofile\n\t4096;\n",
	"/etc/nginx/conf.d/b.conf":       "client_max_body_size 10m;\nserver {\n  listen 80;\n  location / {\n    proxy_read_timeout 1h30m;\n  }\n}",
	"/etc/nginx/conf.d/.c.conf":      "client_max_body_size 11m;\n",
	"/sys/devices/system/cpu/online": "0-2,5\n",
	"/var/lib/dpkg/status":           "Package: nginx\nStatus: install ok installed\nVersion: 1:1.20.1-2\n",
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
	product.Reads(t, i, map[string]string{
		"worker_processes": "auto " + mainFile + ":1", "worker_connections": "1024 " + mainFile + ":3", "keepalive_timeout": "65 60 " + mainFile + ":7",
		"worker_rlimit_nofile": "4096 /etc/nginx/modules.d/a.conf:1", "client_max_body_size": "10m /etc/nginx/conf.d/b.conf:1",
		"http/server/location //proxy_read_timeout": "1h30m /etc/nginx/conf.d/b.conf:5", "http/log_format": `main $remote_addr "x" { ; } '  ${b} ` + mainFile + ":5",
		"http/map $a ${b}c/default": " " + mainFile, "gzip": " " + mainFile,
	}, map[string]any{
		"workers": 4.0, "version": "1.20.1", "listen_backlog": 2048.0, "upstreams_without_keepalive": []string{"back"},
	})
	if network, address := i.Files.listens(); network != "tcp" || address != "[::1]:8443" {
		t.Errorf("it is asked at %s %s", network, address)
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"include nginx.conf;", "nginx.conf:1: /etc/nginx/nginx.conf includes itself"},
		{"a b;\ninclude none.conf;", "nginx.conf:2: "},
		{"http {\na b;\n", "nginx.conf:1: the block http is not closed"},
		{"a b;\n}", `nginx.conf:2: unexpected "}"`},
		{"a b", `"a" does not end with ";"`},
		{";", `unexpected ';'`},
		{"a_by_lua_block { '}' --[[ }", "nginx.conf:1: the block a_by_lua_block is not closed"},
		{"a 'b;", "a quote is not closed"},
		{"a 'b'c;", "a quote is not closed, or something follows it"},
		{strings.Repeat("a {", 30), "nest more than 20"},
	} {
		h := machine.Mounted(t, map[string]string{mainFile: c.text})
		if _, err := readSettings(h, mainFile); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestValues(t *testing.T) {
	conftest.Reads(t, readDuration, map[string]float64{"75s": 75, "0": 0, "60": 60, "500ms": 0.5, "1h30m": 5400, "65 60": 65, "1d": 86400}, "", "s", "-1", "1.5s", "30m1h", "5x", " 5", "1s1s")
	conftest.Reads(t, readSize, map[string]float64{"1m": 1 << 20, "8k": 8192, "0": 0, "1G": 1 << 30})
	conftest.Checks(t, check, [][3]string{
		{"events/worker_connections", "5", ""}, {"worker_processes", "auto", ""}, {"worker_processes", "0", "want auto"},
		{"http/server/proxy_pass", "x", "not a tuning option"}, {"load_module", "x", "not a tuning option"},
	})
	for value, want := range map[string]bool{"5": true, "5; evil": false, "5 }": false, "$x": false, "": false, "a\nb": false, "65 60": true} {
		if _, err := (syntax{}).Literal(value); (err == nil) != want {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A line that no file has goes where it belongs.
func TestPlace(t *testing.T) {
	for key, want := range map[string]string{
		"worker_rlimit_nofile": "events\n{ # a\n}\nhttp {\n}\nworker_rlimit_nofile 5;", "events/worker_connections": "events\n{ # a\n\tworker_connections 5;\n}\nhttp {\n}",
		"http/gzip": "events\n{ # a\n}\nhttp {\n\tgzip 5;\n}",
	} {
		s, text := syntax{}, "events\n{ # a\n}\nhttp {\n}"
		at, err := s.Place(text, key)
		got := ""
		if err == nil {
			got = text[:at] + s.Line(key, "5") + "\n" + text[at:]
			if at == len(text) {
				got = text + "\n" + s.Line(key, "5")
			}
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
	for key, text := range map[string]string{
		"http/gzip": "events {}", "http/server/gzip": "http {\n}", "events/worker_connections": "events { }\nhttp {\n}", "http/none": "http {\n}",
	} {
		if at, err := (syntax{}).Place(text, key); err == nil {
			t.Errorf("%s in %q: %d", key, text, at)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add(tree[mainFile], "a b;", "worker_connections", "5")
	f.Add("events {\n}\ninclude x.conf;", "worker_processes 4 ; # x", "worker_processes", "auto")
	f.Add("http {\ninclude x.conf;\n}", "gzip on;", "gzip", "off")
	f.Add("http { gzip 'on'; }", "", "http/gzip", "off")
	f.Add("events {\n} #", "", "worker_rlimit_nofile", "4")
	f.Fuzz(func(t *testing.T, main, more, key, value string) {
		product.Bytes(t, Product, map[string]string{mainFile: main, "/etc/nginx/x.conf": more}, mainFile+"#"+key, value)
	})
}
