package satellite

import (
	"bytes"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/rule"
)

// kind is a sort of line in logs that says what is wrong.
type kind struct {
	name, doc string
	// files are patterns; the names of rotated logs do not match.
	files []string
	match func(line []byte) bool
	// server is true of what a Capsule has not.
	server bool
}

// sign is how often a kind is in the logs, and where the newest is.
type sign struct {
	count   int
	at      string
	unknown string
	absent  bool
}

// maxLog is how much of the end of each log is read, in bytes.
const maxLog = 16 << 20

var (
	journals  = []string{"/sos_commands/logs/journalctl_--no-pager", "/sos_commands/logs/journalctl_--no-pager_--boot", "/var/log/messages", "/var/log/syslog"}
	accessLog = []string{"/var/log/httpd/foreman-ssl_access_ssl.log", "/var/log/httpd/foreman_access.log", "/var/log/httpd/rhsm-pulpcore-https-443_access_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-8443_access_ssl.log", "/var/log/apache2/foreman-ssl_access_ssl.log"}
	errorLog  = []string{"/var/log/httpd/error_log", "/var/log/httpd/foreman-ssl_error_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-443_error_ssl.log", "/var/log/httpd/rhsm-pulpcore-https-8443_error_ssl.log", "/var/log/apache2/error.log"}
)

// signs is the table of them. Of what the kernel logs when it kills a process
// only "Out of memory: Killed process" and "Memory cgroup out of memory: Killed
// process" are counted: "oom-kill:" is of the same one.
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

// mosquittoRefuses matches what mosquitto says when it may open no more files
// (src/net.c).
func mosquittoRefuses(line []byte) bool {
	return bytes.Contains(line, []byte("mosquitto")) && bytes.Contains(line, []byte("Unable to accept new connection"))
}

// statusIs matches a line of httpd's common or combined format: the number after
// the request, which is in quotes.
func statusIs(status string) func([]byte) bool {
	want := []byte(`" ` + status + " ")
	return func(line []byte) bool {
		_, rest, quoted := bytes.Cut(line, []byte(`"`))
		if !quoted {
			return false
		}
		for { // the end of the request; a quote in it is written \"
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

// sign counts a kind of line in the ends of its logs.
func (s *satellite) sign(k kind) rule.Answer {
	if p := s.find(); k.server && p.unknown == "" && p.role == "capsule" {
		return rule.Answer{}
	}
	sg, ok := s.logs[k.name]
	if !ok {
		sg = s.count(k)
		s.logs[k.name] = sg
	}
	switch {
	case sg.unknown != "":
		return rule.Answer{Unknown: sg.unknown, At: sg.at}
	case sg.absent:
		return rule.Answer{At: sg.at}
	}
	return rule.Answer{Value: float64(sg.count), At: sg.at}
}

func (s *satellite) count(k kind) sign {
	out := sign{absent: true, at: k.files[0]}
	for _, p := range k.files {
		c := counter{match: k.match}
		before, err := s.host.Lines(p, maxLog, c.line)
		if err != nil {
			if why := s.why(p, err); why != "" && out.absent && out.unknown == "" {
				out.unknown = why
			}
			continue
		}
		switch {
		case out.absent:
			out = sign{at: p}
		}
		out.count += c.n
		if c.n > 0 {
			out.at = p
			if before == 0 {
				out.at += ":" + strconv.Itoa(c.newest)
			} // further in than fettle reads, nobody counted the lines
		}
		if slices.Equal(k.files, journals) {
			break // they have the same messages
		}
	}
	if !out.absent {
		out.unknown = ""
	}
	return out
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
