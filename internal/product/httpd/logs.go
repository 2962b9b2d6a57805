package httpd

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/conf"
)

// logDirective is a directive of mod_log_config.
type logDirective struct {
	server int // 0 is the main server; virtual hosts count from 1
	name   string
	words  []string
	at     string
	// word returns an argument, from 0, with its position.
	word func(n int) conf.Quoted
}

// logDirectives are the directives that the reader keeps in a separate list.
var logDirectives = []string{"logformat", "customlog", "globallog", "transferlog", "cookielog"}

// keepLog records a directive of mod_log_config; text is the whole text of its file.
func (r *reader) keepLog(file, text string, l line) {
	// Later lines may change the definitions.
	now := &reader{defines: maps.Clone(r.defines), env: r.env}
	lineOf, column := conf.PositionOf(text, l.from)
	at := fmt.Sprintf("%s:%d", file, l.number)
	for _, use := range slices.Backward(r.using) {
		at += ", by Use of " + use
	}
	r.logs = append(r.logs, logDirective{
		server: r.server, name: l.name, words: words(r.resolve(l.args)), at: at,
		word: func(n int) conf.Quoted {
			return conf.Quoted{File: file, Line: lineOf, Column: column, Raw: l.args, Read: func(raw string) string {
				if w := words(now.resolve(raw)); n < len(w) {
					return w[n]
				}
				return ""
			}}
		},
	})
}

// Logs returns the request logs of a main file and its includes (mod_log_config: CustomLog,
// GlobalLog, TransferLog, CookieLog). Formats are looked up after all files are read: first in the
// virtual host, then in the main server, in any order of lines.
func Logs(h *host.Host, main string) ([]accesslog.Log, error) {
	s, err := readSettings(h, instanceOf(h, main))
	if err != nil {
		return nil, err
	}
	var out []accesslog.Log
	for i := range s.logs {
		d := &s.logs[i]
		if d.name == "logformat" || len(d.words) == 0 {
			continue
		}
		l := accesslog.Log{Language: "apache", At: d.at, What: directiveNames[d.name]}
		s.destination(&l, d.words[0])
		switch {
		case d.name == "cookielog":
			l.BuiltIn = `%{Cookie}n "%r" %t`
		case d.name != "transferlog" && len(d.words) > 1:
			s.formatOf(&l, d, d.word(1), d.words[1])
		default:
			s.defaultFormat(&l, d)
		}
		if l.Scopes = []string{scopeOf(main, d.server)}; d.name == "globallog" {
			l.Scopes = s.scopes(main)
		}
		l.Some = d.name != "transferlog" && d.name != "cookielog" && len(d.words) > 2 // a condition: env= or expr=
		out = append(out, l)
	}
	return out, nil
}

// scopeOf returns the scope of a log for one server. A virtual host with its own logs does not
// write to the main server's logs.
func scopeOf(main string, server int) string { return fmt.Sprintf("httpd %s server %d", main, server) }

// scopes returns the main server and the servers that have their own logs.
func (s *settings) scopes(main string) []string {
	all := []string{scopeOf(main, 0)}
	for i := range s.logs {
		d := &s.logs[i]
		if of := scopeOf(main, d.server); d.name != "logformat" && d.name != "globallog" && !slices.Contains(all, of) {
			all = append(all, of)
		}
	}
	return all
}

var directiveNames = map[string]string{"customlog": "CustomLog", "globallog": "GlobalLog", "transferlog": "TransferLog", "cookielog": "CookieLog"}

// formatOf sets the format from CustomLog's second argument, which is a format or the name of one.
func (s *settings) formatOf(l *accesslog.Log, d *logDirective, q conf.Quoted, text string) {
	l.Format = q
	if named, ok := s.named(d.server, text); ok {
		l.Format, l.Name = named.word(0), text
	} else if strings.EqualFold(text, "CLF") {
		l.BuiltIn, l.Name = logformat.ApacheCommon, text
	}
}

// named returns the last LogFormat with a name, in any case, in a server or else in the main
// server.
func (s *settings) named(server int, name string) (*logDirective, bool) {
	for _, of := range []int{server, 0} {
		for i := range slices.Backward(s.logs) {
			if d := &s.logs[i]; d.server == of && d.name == "logformat" && len(d.words) > 1 && strings.EqualFold(d.words[1], name) {
				return d, true
			}
		}
	}
	return nil, false
}

// defaultFormat sets a TransferLog's format: the last LogFormat without a name. This format may be
// the name of another one.
func (s *settings) defaultFormat(l *accesslog.Log, d *logDirective) {
	for _, of := range []int{d.server, 0} {
		for i := range slices.Backward(s.logs) {
			if f := &s.logs[i]; f.server == of && f.name == "logformat" && len(f.words) == 1 {
				s.formatOf(l, &logDirective{server: d.server}, f.word(0), f.words[0])
				return
			}
		}
	}
	l.BuiltIn = logformat.ApacheCommon
}

// destination sets a log's target: a file below ServerRoot, or a program. It knows two programs
// that rotate logs.
func (s *settings) destination(l *accesslog.Log, to string) {
	program, piped := strings.CutPrefix(to, "|")
	if !piped {
		l.Path = below(s.root, to)
		return
	}
	program = strings.TrimLeft(program, "|$")
	l.Goes = "the program " + program
	w := words(program)
	if len(w) == 0 {
		return
	}
	var takes string // options with an argument
	switch path.Base(w[0]) {
	case "rotatelogs", "rotatelogs2":
		takes = "Lpn" // link, program, number of files
	case "cronolog":
		takes = "HPSw"
	default:
		return
	}
	for i := 1; i < len(w); i++ {
		if o := w[i]; len(o) > 1 && o[0] == '-' {
			if !strings.Contains(o, "=") && strings.ContainsAny(o[len(o)-1:], takes) && !strings.HasPrefix(o, "--") {
				i++
			}
			continue
		}
		l.Path, l.Goes = below(s.root, w[i]), ""
		if l.Path, l.Pattern = accesslog.Strftime(l.Path); l.Pattern {
			return
		}
		if path.Base(w[0]) != "cronolog" { // the seconds since 1970, or a number with -n
			l.Path, l.Pattern = accesslog.Literal(l.Path)+"*", true
		}
		return
	}
}

func below(root, name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	return path.Join(root, name)
}
