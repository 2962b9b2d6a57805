package haproxy

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// logFormats are the proxy options that select a log format; the last one applies.
var logFormats = []string{"httplog", "httpslog", "tcplog"}

// Logs returns the logs of the frontends that log requests: with option httplog or httpslog, or
// with log-format. HAProxy logs to a syslog daemon: the file comes from rsyslog's configuration, or
// else is Debian's and Red Hat's default.
func Logs(h *host.Host, main string) ([]accesslog.Log, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return nil, err
	}
	paths := rsyslog(h)
	var out []accesslog.Log
	for n, x := range s.sections {
		if x.kind != "frontend" && x.kind != "listen" {
			continue
		}
		o, ok, err := s.effectiveOf(n, func(o option) bool {
			return o.option == "log-format" || o.option == "option" && len(o.words) > 1 && slices.Contains(logFormats, o.words[1])
		})
		if err != nil {
			return nil, err
		}
		if !ok || o.words[1] == "tcplog" {
			continue // these formats log connections, not requests
		}
		l := accesslog.Log{Language: "haproxy", At: o.Place.String(), What: o.option + " for " + x.key(), Goes: "the syslog of " + x.key()}
		if o.option == "option" {
			l.Name = strings.Join(o.words[1:], " ")
			l.What = "option for " + x.key()
			if l.BuiltIn = logformat.HAProxyFormats[l.Name]; l.BuiltIn == "" {
				return nil, fmt.Errorf("%s: unknown log format: option %s", o.Place, l.Name)
			}
			l.BuiltIn = logformat.HAProxyCaptures(l.BuiltIn, s.captures(n, "request"), s.captures(n, "response"))
		} else {
			l.Format = conf.Quoted{File: o.File, Line: o.number, Column: o.column, Raw: o.args, Read: firstWord}
		}
		for _, p := range paths {
			l.Path = p
			out = append(out, l)
		}
	}
	return out, nil
}

// captures returns how many headers a proxy captures for its log; of is "request" or "response".
func (s settings) captures(proxy int, of string) (n int) {
	for _, o := range s.options {
		if o.section != proxy || len(o.words) < 2 {
			continue
		}
		switch {
		case o.option == "capture" && o.words[1] == of, o.option == "declare" && len(o.words) > 2 && o.words[1] == "capture" && o.words[2] == of,
			o.option == "http-"+of && o.words[1] == "capture" && slices.Contains(o.words, "len"):
			n++
		}
	}
	return n
}

// firstWord returns the first word of arguments; raw may end within it.
func firstWord(raw string) string {
	w, _, _, _ := word(raw, 0)
	return w
}

// usual is the default log file of Debian's package and of Red Hat's documentation.
const usual = "/var/log/haproxy.log"

var (
	toFile   = text.LazyRegexp(`(?m)(?:^|[\s;&{])-?(/[^\s;"'{}]*)\s*;?`)
	template = text.LazyRegexp(`(?i)file="([^"]+)"`)
)

// rsyslog returns the files to which rsyslog writes HAProxy's lines.
func rsyslog(h *host.Host) []string {
	names := []string{"/etc/rsyslog.conf"}
	if found, err := host.Glob(h.Files, "/etc/rsyslog.d/*.conf"); err == nil {
		names = append(names, found...)
	}
	paths := []string{usual}
	for _, name := range names {
		text, err := h.Files.ReadFile(name)
		if err != nil {
			continue
		}
		near := 0 // lines after a selector that may still name a file
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || line == "" {
				continue
			}
			if strings.Contains(line, "haproxy") {
				near = 4
			}
			if near--; near < 0 || strings.HasPrefix(line, "$") || strings.HasPrefix(line, "module") {
				continue
			}
			for _, re := range []func() string{
				func() string { return submatch(template().FindStringSubmatch(line)) },
				func() string { return submatch(toFile().FindStringSubmatch(line)) },
			} {
				if p := re(); strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "/dev/") && !strings.HasSuffix(p, "/dev/log") && !slices.Contains(paths, p) {
					paths = append(paths, p)
				}
			}
		}
	}
	return paths
}

func submatch(m []string) string {
	if len(m) < 2 {
		return ""
	}
	return m[1]
}
