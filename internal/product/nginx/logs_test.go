package nginx

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestLogs(t *testing.T) {
	dir := machine.Dir(t)
	for name, text := range map[string]string{
		"/etc/nginx/nginx.conf": `events {}
stream { log_format main '$remote_addr'; access_log /var/log/stream.log main; }
http {
	log_format main '$remote_addr "$request" '  # two strings
		"$status ${request_time}";
	log_format j escape=json '{"u":"$request_uri",'
	  '"t":$request_time}';
	log_format bad '$remote_addr '
		'$a$b';
	access_log /var/log/nginx/a.log Main buffer=32k;
	include sites/*;
}
`,
		"/etc/nginx/sites/one": `server {
	access_log /var/log/nginx/$host/x.log j;
	access_log logs/relative.log;
	location / { access_log off; if ($a) { access_log /var/log/nginx/if.log main; } }
	location /x { access_log syslog:server=127.0.0.1 main; access_log /var/log/bad.log bad; }
}
`,
	} {
		machine.WriteFile(t, dir, name, text)
	}
	h := host.Mounted(dir)
	all, err := Logs(h, "/etc/nginx/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range all {
		l := &all[i]
		text := "built in " + l.Name
		if l.BuiltIn == "" {
			text = l.Format.String() + " " + l.Format.Value()
		}
		got[l.Path+l.Goes] = l.At + " " + text
	}
	const main, site = "/etc/nginx/nginx.conf:", "/etc/nginx/sites/one:"
	for name, want := range map[string]string{
		"/var/log/nginx/a.log":               main + "10 " + main + `4 $remote_addr "$request" $status ${request_time}`,
		"/var/log/nginx/*/x.log":             site + "2 " + main + `6 escape=json {"u":"$request_uri","t":$request_time}`,
		"/usr/share/nginx/logs/relative.log": site + "3 built in combined",
		"/var/log/nginx/if.log":              site + "4 " + main + `4 $remote_addr "$request" $status ${request_time}`,
		"syslog:server=127.0.0.1":            site + "5 " + main + `4 $remote_addr "$request" $status ${request_time}`,
		"/var/log/bad.log":                   site + "5 " + main + `8 $remote_addr $a$b`,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("and %q", got)
	}
	l, _, err := accesslog.Of(all, "/var/log/bad.log")
	if err == nil {
		_, err = l.Compile()
	}
	if err == nil || !strings.Contains(err.Error(), main+"9:6: log_format, $b: no separator between $a and $b") {
		t.Error(err)
	}

	machine.WriteFile(t, dir, "/etc/nginx/nginx.conf", "events {}\nhttp {\n server { access_log /x nope; }\n}\n")
	if _, err := Logs(h, "/etc/nginx/nginx.conf"); err == nil || !strings.Contains(err.Error(), main+`3: no log_format named "nope"`) {
		t.Error(err)
	}
	machine.WriteFile(t, dir, "/etc/nginx/nginx.conf", "events {}\nhttp { server { } }\n")
	if all, err := Logs(h, "/etc/nginx/nginx.conf"); err != nil || len(all) != 1 || all[0].Path != "/var/log/nginx/access.log" {
		t.Errorf("%+v, %v", all, err)
	}
}
