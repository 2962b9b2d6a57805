package satellite

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// apache is what the files that the installer writes for httpd say.
type apache struct {
	modules map[string]entryAt // LoadModule, by module
	server  map[string]entryAt // directives of the module that handles requests
	mpm     string
	proxy   entryAt
	unknown string
	absent  bool
}

type entryAt struct{ text, at string }

const modules = "/etc/httpd/conf.modules.d"

func (s *satellite) readApache() *apache {
	if s.apache != nil {
		return s.apache
	}
	a := &apache{modules: map[string]entryAt{}, server: map[string]entryAt{}}
	s.apache = a
	list, err := s.host.Files.ReadDir(modules)
	if err != nil {
		a.unknown = s.why(modules, err)
		a.absent = a.unknown == ""
		return a
	}
	var names []string
	for _, e := range list {
		if ext := path.Ext(e.Name()); ext == ".conf" || ext == ".load" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names) // as httpd takes IncludeOptional's
	byFile := map[string]map[string]entryAt{}
	for _, name := range names {
		f := s.read(path.Join(modules, name))
		if f.unknown != "" {
			a.unknown = f.unknown
			return a
		}
		byFile[name] = map[string]entryAt{}
		for _, d := range directives(f.text) {
			if d.name == "loadmodule" && len(d.args) > 1 {
				a.modules[d.args[0]] = entryAt{d.args[1], f.at(d.line)}
			} else if len(d.args) == 1 {
				byFile[name][d.name] = entryAt{d.args[0], f.at(d.line)}
			}
		}
	}
	for _, m := range []string{"event", "worker", "prefork"} {
		if _, ok := a.modules["mpm_"+m+"_module"]; ok && a.mpm == "" {
			a.mpm = m
		}
	}
	if d, ok := byFile[a.mpm+".conf"]; ok {
		a.server = d
	}
	for _, name := range names {
		if d, ok := byFile[name]["proxytimeout"]; ok {
			a.proxy = d
		}
	}
	return a
}

// directed is one line of httpd's configuration.
type directed struct {
	name string // in lower case
	args []string
	line int
	// in is how deep in sections it is.
	in int
}

// directives reads httpd's syntax as far as these files need it: a directive a
// line, goes on after a backslash, words in quotes. Sections are entered.
func directives(text string) []directed {
	var out []directed
	number, first, pending, depth := 0, 0, "", 0
	for raw := range strings.Lines(text) {
		number++
		row := strings.TrimRight(raw, "\r\n")
		if pending == "" {
			first = number
		}
		if len(pending) < 1<<16 && strings.HasSuffix(row, `\`) {
			pending += row[:len(row)-1]
			continue
		}
		row, pending = strings.TrimSpace(pending+row), ""
		switch {
		case row == "" || row[0] == '#':
		case strings.HasPrefix(row, "</"):
			depth = max(0, depth-1)
		case row[0] == '<':
			depth++
		default:
			if w := quoted(row); len(w) > 0 {
				out = append(out, directed{strings.ToLower(w[0]), w[1:], first, depth})
			}
		}
	}
	return out
}

// quoted cuts a line into words; "..." and '...' are one, with a backslash before
// a quote in them.
func quoted(row string) []string {
	var out []string
	for row = strings.TrimLeft(row, " \t"); row != ""; row = strings.TrimLeft(row, " \t") {
		if q := row[0]; q == '"' || q == '\'' {
			var b strings.Builder
			i := 1
			for ; i < len(row) && row[i] != q; i++ {
				if row[i] == '\\' && i+1 < len(row) && row[i+1] == q {
					i++
				}
				b.WriteByte(row[i])
			}
			out, row = append(out, b.String()), row[min(i+1, len(row)):]
			continue
		}
		end := strings.IndexAny(row, " \t")
		if end < 0 {
			end = len(row)
		}
		out, row = append(out, row[:end]), row[end:]
	}
	return out
}

func (s *satellite) mpm() rule.Answer {
	a := s.readApache()
	if a.mpm == "" {
		return rule.Answer{Unknown: a.unknown}
	}
	return rule.Answer{Value: a.mpm, At: a.modules["mpm_"+a.mpm+"_module"].at}
}

// directive is a number of the module that handles requests, by any of its names.
func directive(names ...string) func(*satellite) rule.Answer {
	return func(s *satellite) rule.Answer {
		a := s.readApache()
		for _, n := range names {
			if d, ok := a.server[n]; ok {
				return platform.Typed(d.text, rule.Number, d.at)
			}
		}
		return rule.Answer{Unknown: a.unknown}
	}
}

func (s *satellite) proxyTimeout() rule.Answer {
	a := s.readApache()
	if a.proxy.at == "" {
		return rule.Answer{Unknown: a.unknown}
	}
	return platform.Typed(a.proxy.text, rule.Number, a.proxy.at)
}

// virtualHost is a directive of Foreman's virtual host, the encrypted one first.
func virtualHost(name string) func(*satellite) rule.Answer {
	kind := rule.Number
	if name == "keepalive" {
		kind = rule.Text
	}
	return func(s *satellite) rule.Answer {
		var last rule.Answer
		for _, p := range []string{"/etc/httpd/conf.d/05-foreman-ssl.conf", "/etc/httpd/conf.d/05-foreman.conf"} {
			f := s.read(p)
			if !f.exists {
				last = f.answer()
				continue
			}
			last = rule.Answer{At: p}
			for _, d := range directives(f.text) {
				if d.name == name && len(d.args) == 1 {
					last = platform.Typed(d.args[0], kind, f.at(d.line))
				}
			}
			if last.Value != nil || last.Unknown != "" {
				return last
			}
		}
		return last
	}
}
