package haproxy

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestLogs(t *testing.T) {
	dir := machine.Dir(t)
	const main = "/etc/haproxy/haproxy.cfg"
	write := func(text string) {
		machine.WriteFile(t, dir, main, "global\n\tlog /dev/log local0\ndefaults\n\tmode http\n\toption httplog\n"+text)
	}
	machine.WriteFile(t, dir, "/etc/rsyslog.d/49-haproxy.conf", "# Send HAProxy messages to a dedicated logfile\n:programname, startswith, \"haproxy\" {\n  /var/log/lb/haproxy.log\n  stop\n}\n")
	h := host.Mounted(dir)
	format := func(file string) string {
		t.Helper()
		all, err := Logs(h, main)
		if err != nil {
			return err.Error()
		}
		l, why, err := accesslog.Of(all, file)
		if err != nil {
			return err.Error()
		}
		f, err := l.Compile()
		if err != nil {
			return err.Error()
		}
		return f.Source + " | " + f.Why + " | " + why
	}
	for _, c := range []struct{ text, file, want string }{
		{"frontend a\n bind :80\n", "/var/log/haproxy.log.1", "%tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r | option for frontend a of " + main + ":5, format httplog | "},
		{"frontend a\n option httplog clf\n", "/var/log/lb/haproxy.log", "%{+Q}o %{-Q}ci - - [%trg]"},
		{"frontend a\n log-format \"%ci [%tr] %{+Q}r %ST\"\n", "/tmp/some.log", main + ":7 | matched by the log that the configuration sends to the syslog of frontend a"},
		{"frontend a\n log-format %ci\\ [%tr]\\ %XX\\ %ST\n", "/tmp/some.log", main + ":7:25: log-format, %XX: unknown HAProxy log variable"},
		{"frontend a\nfrontend b\n log-format %ci\n", "/var/log/haproxy.log", "in two formats: option for frontend a of " + main + ":5, format httplog; log-format for frontend b of " + main + ":8"},
		{"frontend a\nfrontend b\n option tcplog\n", "/var/log/haproxy.log", "%{+Q}r | option for frontend a"},
		{"frontend a\n option tcplog\n", "/var/log/haproxy.log", "logs in the configuration: none"},
	} {
		write(c.text)
		if got := format(c.file); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
