package satellite

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/fact"
)

// kind is a kind of log line that shows a problem.
type kind struct {
	name, doc string
	files     []string
	match     func(line []byte) bool
	server    bool // only on a server, not on a Capsule
}

// sign is the number of lines of a kind, with the position of the newest.
type sign struct {
	count   int
	at      string
	unknown string
	absent  bool
	cut     []string // logs read only at their end
}

var (
	journals  = []string{"/sos_commands/logs/journalctl_--no-pager", "/sos_commands/logs/journalctl_--no-pager_--boot", "/var/log/messages", "/var/log/syslog"}
	accessLog = []string{"/var/log/httpd/foreman-ssl_access_ssl.log", "/var/log/httpd/foreman_access.log", "/var/log/httpd/rhsm-pulpcore-https-443_access_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-8443_access_ssl.log", "/var/log/apache2/foreman-ssl_access_ssl.log"}
	errorLog  = []string{"/var/log/httpd/error_log", "/var/log/httpd/foreman-ssl_error_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-443_error_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-8443_error_ssl.log", "/var/log/apache2/error.log"}
)

// signs lists the kinds. A process that was killed for lack of memory counts by the kernel's line
// "Out of memory: Killed process" or "Memory cgroup out of memory: Killed process". The line
// "oom-kill:" is about the same process and does not count.
var signs = []kind{
	{"pool_timeouts", "Requests that got no connection of the database pool in time (production.log).", []string{"/var/log/foreman/production.log"}, contains("ActiveRecord::ConnectionTimeoutError"), true},
	{"http_503", "Requests that httpd answered with 503 (its access logs).", accessLog, statusIs("503"), false},
	{"max_request_workers", "Times that httpd reached MaxRequestWorkers (its error logs).", errorLog, contains("MaxRequestWorkers", "MaxClients", "scoreboard is full"), false},
	{"oom_kills", "Processes that the kernel killed for want of memory (the journal or /var/log/messages).", journals, contains("ut of memory: Kill"), false},
	{"qpid_not_attached", "Errors of qpidd whose management objects are not purged yet (the journal).", journals, contains("Channel exception: not-attached", "not-attached: Channel"), false},
	{"proxy_timeouts", "Requests that httpd gave up waiting for (its error logs).", errorLog, contains("The timeout specified has expired"), false},
	{"connection_resets", "Connections that the other side reset (httpd's error logs).", errorLog, contains("Connection reset by peer"), false},
	{"mqtt_refused", "Connections that mosquitto refused for want of files (the journal or /var/log/messages).", journals, mosquittoRefuses, false},
}

func contains(words ...string) func([]byte) bool {
	all := make([][]byte, len(words))
	for i, w := range words {
		all[i] = []byte(w)
	}
	return func(line []byte) bool {
		return slices.ContainsFunc(all, func(w []byte) bool { return bytes.Contains(line, w) })
	}
}

// mosquittoRefuses matches mosquitto's message at the limit of open files (src/net.c).
func mosquittoRefuses(line []byte) bool {
	return bytes.Contains(line, []byte("mosquitto")) && bytes.Contains(line, []byte("Unable to accept new connection"))
}

// statusIs returns a function that matches a status in httpd's common or combined format: the
// number after the quoted request.
func statusIs(status string) func([]byte) bool {
	want := []byte(`" ` + status + " ")
	return func(line []byte) bool {
		_, rest, quoted := bytes.Cut(line, []byte(`"`))
		if !quoted {
			return false
		}
		for { // to the end of the request; a quote in it is written \"
			j := bytes.IndexByte(rest, '"')
			switch {
			case j < 0:
				return false
			case j > 0 && rest[j-1] == '\\':
				rest = rest[j+1:]
				continue
			}
			return bytes.HasPrefix(rest[j:], want)
		}
	}
}

// sign answers with the number of lines of a kind in its logs.
func (s *satellite) sign(k kind) fact.Answer {
	if p := s.find(); k.server && p.unknown == "" && p.role == "capsule" {
		return fact.Answer{}
	}
	if _, ok := s.logs[k.name]; !ok {
		s.count(k.files)
	}
	sg := s.logs[k.name]
	switch {
	case sg.unknown != "":
		return fact.Answer{Unknown: sg.unknown, At: sg.at}
	case sg.absent:
		return fact.Answer{At: sg.at}
	}
	return s.subject.Counted(sg.count, sg.at, sg.cut...)
}

// count counts all kinds of lines in the same logs, so each log is read once.
func (s *satellite) count(files []string) {
	of := slices.DeleteFunc(slices.Clone(signs), func(k kind) bool { return !slices.Equal(k.files, files) })
	found := make([]sign, len(of))
	all := sign{absent: true, at: files[0]} // data that all kinds share
	for _, p := range files {
		counters := make([]counter, len(of))
		for i, k := range of {
			counters[i].match = k.match
		}
		before, err := s.subject.Log(p, func(line []byte) {
			for i := range counters {
				counters[i].line(line)
			}
		})
		if err != nil {
			if why := s.why(p, err); why != "" && all.absent && all.unknown == "" {
				all.unknown = why
			}
			continue
		}
		if all.absent {
			all = sign{at: p}
		}
		if before > 0 {
			all.cut = append(all.cut, p)
		}
		for i, c := range counters {
			if c.n == 0 {
				continue
			}
			found[i].count += c.n
			found[i].at = p
			if before == 0 {
				found[i].at += ":" + strconv.Itoa(c.newest)
			} // otherwise the line number is unknown
		}
		if slices.Equal(files, journals) {
			break // the others have the same messages
		}
	}
	for i, k := range of {
		sg := all
		sg.count, sg.at = found[i].count, cmp.Or(found[i].at, all.at)
		s.logs[k.name] = sg
	}
}

// counter counts the lines that match, and keeps the number of the last one.
type counter struct {
	match             func([]byte) bool
	n, newest, number int
}

func (c *counter) line(text []byte) {
	if c.number++; c.match(text) {
		c.n, c.newest = c.n+1, c.number
	}
}
