package satellite

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
)

func TestLogs(t *testing.T) {
	s := sosreport(t, satelliteFiles(map[string]string{
		"var/log/foreman/production.log":            "-> ../../../sos_strings/foreman/production.log.tailed",
		"sos_strings/foreman/production.log.tailed": "x\nActiveRecord::ConnectionTimeoutError: could not\ny\n" + "ActiveRecord::ConnectionTimeoutError: again\n",
		"var/log/httpd/foreman-ssl_access_ssl.log":  "h - - [d] \"GET / HTTP/1.1\" 503 1 \"-\" \"a\"\nh - - [d] \"GET /503?q=\\\" HTTP/1.1\" 200 503 \"-\" \"503 \"\nbroken\n",
		"var/log/httpd/error_log":                   "AH00484: server reached MaxRequestWorkers setting\n(104)Connection reset by peer: x\n[proxy] The timeout specified has expired\n",
		"sos_commands/logs/journalctl_--no-pager":   "qpidd[1]: [Broker] error Channel exception: not-attached: Channel 2 is not attached\nkernel: Out of memory: Killed process 7 (ruby)\n",
		"var/log/messages":                          "kernel: Out of memory: Killed process 7 (ruby)\n",
	}))
	check(t, s, answers{"log.pool_timeouts": 2, "log.http_503": 1, "log.max_request_workers": 1, "log.connection_resets": 1, "log.proxy_timeouts": 1, "log.qpid_not_attached": 1, "log.oom_kills": 1})
	if a := s.Answer("satellite.log.pool_timeouts"); a.At != "/var/log/foreman/production.log:4" {
		t.Errorf("%+v", a)
	}
	check(t, sosreport(t, satelliteFiles(nil)), answers{"log.pool_timeouts": unknown, "log.http_503": unknown, "log.oom_kills": unknown})
	check(t, mounted(t, map[string]string{"usr/share/foreman/VERSION": "3.3.0\n"}), answers{"log.pool_timeouts": absent})
}

// Of a large log the end is read, and no uncounted line is reported; none in
// it is not known to be none.
func TestLargeLog(t *testing.T) {
	const (
		log   = "/var/log/foreman/production.log"
		other = "/var/log/httpd/foreman_access.log"
		ssl   = "/var/log/httpd/foreman-ssl_access_ssl.log"
		none  = "not found in the last 1 MiB of "
		sign  = "ActiveRecord::ConnectionTimeoutError\n"
		away  = "h - - [d] \"GET / HTTP/1.1\" 503 1\n"
	)
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10)
	for _, c := range []struct {
		name, input string
		files       map[string]string
		all         bool
		want        fact.Answer // LowerBound and Unknown by their beginning
		unread      string
	}{
		{"short", "pool_timeouts", map[string]string{log: sign}, false, fact.Answer{Value: 1.0, At: log + ":1"}, ""},
		{"one at the end", "pool_timeouts", map[string]string{log: sign + long + sign}, false, fact.Answer{Value: 1.0, At: log, LowerBound: "counted only in the last 1 MiB of " + log + "; --logs all"}, log},
		{"all", "pool_timeouts", map[string]string{log: sign + long + sign}, true, fact.Answer{Value: 2.0, At: log + ":1026"}, ""},
		{"at the beginning", "pool_timeouts", map[string]string{log: sign + long}, false, fact.Answer{At: log, Unknown: none + log + "; --logs all"}, log},
		{"at the beginning, all", "pool_timeouts", map[string]string{log: sign + long}, true, fact.Answer{Value: 1.0, At: log + ":1"}, ""},
		{"none at all", "pool_timeouts", map[string]string{log: "x\n" + long}, true, fact.Answer{Value: 0.0, At: log}, ""},
		{"in one of two", "http_503", map[string]string{ssl: away + long, other: away}, false, fact.Answer{Value: 1.0, At: other + ":1", LowerBound: "counted only in the last 1 MiB of " + ssl}, ssl},
		{"in neither", "http_503", map[string]string{ssl: away + long, other: "x\n"}, false, fact.Answer{At: ssl, Unknown: none + ssl}, ssl},
	} {
		tree := map[string]string{"usr/share/foreman/VERSION": "3.3.0\n"}
		for p, text := range c.files {
			tree[p[1:]] = text
		}
		s := mounted(t, tree)
		if s.LogBytes = 1 << 20; c.all {
			s.LogBytes = 0
		}
		a := s.Answer("satellite.log." + c.input)
		if a.Value != c.want.Value || a.At != c.want.At || !begins(a.LowerBound, c.want.LowerBound) || !begins(a.Unknown, c.want.Unknown) {
			t.Errorf("%s: %+v, want %+v", c.name, a, c.want)
		}
		if (c.unread != "") != (len(s.Unread) == 1) || c.unread != "" && s.Unread[c.unread] == 0 {
			t.Errorf("%s: not read %v, want of %q", c.name, s.Unread, c.unread)
		}
	}
}

// begins: text has the beginning, and is empty where that is.
func begins(text, with string) bool {
	return strings.HasPrefix(text, with) && (text == "") == (with == "")
}

func TestPendingTasks(t *testing.T) {
	const head = "id,type,label,started_at,ended_at,state,result\n"
	s := sosreport(t, satelliteFiles(map[string]string{"sos_commands/foreman/foreman_tasks_tasks": head +
		"1,T,Actions::Katello::Host::Update,a,,running,\n2,T,Actions::Katello::Host::Update,a,b,stopped,success\n3,T,Actions::Katello::ContentView::Publish,a,,paused,\n" +
		"4,T,\"Actions::Katello::Host::UploadPackageProfile\",\"a\nb\",,planned,\n5,T,Actions::Katello::Ho"}))
	check(t, s, answers{"pending_host_tasks": 2})
	if a := s.Answer("satellite.pending_host_tasks"); a.At != "/sos_commands/foreman/foreman_tasks_tasks:5" {
		t.Errorf("%+v", a)
	}
	check(t, sosreport(t, satelliteFiles(map[string]string{"sos_commands/foreman/foreman_tasks_tasks": "psql: error\n"})), answers{"pending_host_tasks": unknown})
	check(t, sosreport(t, satelliteFiles(nil)), answers{"pending_host_tasks": unknown})
}
