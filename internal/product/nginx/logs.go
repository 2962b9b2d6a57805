package nginx

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// logDirective is a log_format or an access_log.
type logDirective struct {
	key   string // including its blocks
	block string // the innermost block, identified by its beginning
	words []string
	conf.Quoted
}

// keepLog records a log directive; text is the whole text of its file.
func (r *reader) keepLog(file, text, key, block string, d directive) {
	line, column := conf.PositionOf(text, d.from)
	r.logs = append(r.logs, logDirective{key, block, d.words, conf.Quoted{File: file, Line: line, Column: column, Raw: d.args, Read: formatText}})
}

// formatText returns the format in the arguments of log_format, without escape=.
func formatText(raw string) string {
	words := wordsOf(raw)
	if len(words) < 2 {
		return ""
	}
	if strings.HasPrefix(words[1], "escape=") {
		return words[1] + " " + strings.Join(words[2:], "")
	}
	return strings.Join(words[1:], "")
}

// wordsOf returns the words of arguments; raw may end within the last one.
func wordsOf(raw string) []string {
	var out []string
	for i := 0; i < len(raw); {
		switch {
		case strings.IndexByte(blank, raw[i]) >= 0:
			i++
		case raw[i] == '#': // a comment between strings
			n := strings.IndexByte(raw[i:], '\n')
			if n < 0 {
				return out
			}
			i += n
		default:
			w, next, ok := word(raw, i)
			if !ok && next == len(raw) { // the closing quote is after the end of raw
				w = unescape.Replace(raw[i+1:])
			}
			if next <= i {
				return out
			}
			out, i = append(out, w), next
		}
	}
	return out
}

// Default log paths of nginx in Debian's and Red Hat's builds: --prefix and --http-log-path.
const (
	builtPrefix = "/usr/share/nginx"
	builtLog    = "/var/log/nginx/access.log"
)

var variable = text.LazyRegexp(`\$(\{[^}]*\}|[A-Za-z0-9_]+)`)

// Logs returns the request logs of a main file and its includes, each with its format
// (ngx_http_log_module: access_log in http, server, location, if and limit_except).
func Logs(h *host.Host, main string) ([]accesslog.Log, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return nil, err
	}
	formats := map[string]*logDirective{}
	for i := range s.logs {
		if d := &s.logs[i]; d.key == "http/log_format" && len(d.words) > 1 {
			formats[strings.ToLower(d.words[0])] = d
		}
	}
	var out []accesslog.Log
	says := false // true if http itself has an access_log
	for i := range s.logs {
		d := &s.logs[i]
		if path.Base(d.key) != "access_log" || !strings.HasPrefix(d.key, "http/") || len(d.words) == 0 {
			continue
		}
		says = says || d.key == "http/access_log"
		if d.words[0] == "off" {
			continue
		}
		l := accesslog.Log{Language: "nginx", At: d.String(), What: "access_log", BuiltIn: logformat.NginxCombined, Name: "combined"}
		if len(d.words) > 1 {
			l.Name = d.words[1]
			f, ok := formats[strings.ToLower(l.Name)]
			switch {
			case ok:
				l.BuiltIn, l.Format = "", f.Quoted
			case !strings.EqualFold(l.Name, "combined"):
				return nil, fmt.Errorf("%s: no log_format named %q", d, l.Name)
			}
		} else if f, ok := formats["combined"]; ok {
			l.BuiltIn, l.Format = "", f.Quoted
		}
		destination(&l, d.words[0])
		l.Scopes = []string{"nginx " + main + " " + d.block}
		l.Some = slices.ContainsFunc(d.words[1:], func(w string) bool { return strings.HasPrefix(w, "if=") })
		out = append(out, l)
	}
	if !says {
		out = append(out, accesslog.Log{Path: builtLog, Language: "nginx", BuiltIn: logformat.NginxCombined, Name: "combined", At: main, What: "no access_log in http"})
	}
	return out, nil
}

func destination(l *accesslog.Log, to string) {
	if strings.HasPrefix(to, "syslog:") || strings.HasPrefix(to, "memory:") || to == "stderr" || to == "" {
		l.Goes = to
		return
	}
	if !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "$") {
		to = builtPrefix + "/" + to
	}
	l.Path = path.Clean(to)
	if parts := variable().FindAllStringIndex(to, -1); parts != nil {
		var b strings.Builder
		at := 0
		for _, p := range parts {
			b.WriteString(accesslog.Literal(to[at:p[0]]) + "*")
			at = p[1]
		}
		l.Path, l.Pattern = path.Clean(b.String()+accesslog.Literal(to[at:])), true
	}
}
