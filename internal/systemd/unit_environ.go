package systemd

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// directories maps settings such as RuntimeDirectory= to the parent directory and to the
// variable that names the created directory (systemd.exec(5)).
var directories = map[string]struct{ below, variable string }{
	"RuntimeDirectory": {"/run", "RUNTIME_DIRECTORY"}, "StateDirectory": {"/var/lib", "STATE_DIRECTORY"}, "CacheDirectory": {"/var/cache", "CACHE_DIRECTORY"},
	"LogsDirectory": {"/var/log", "LOGS_DIRECTORY"}, "ConfigurationDirectory": {"/etc", "CONFIGURATION_DIRECTORY"},
}

// Environment returns the environment of the unit's processes: Environment=, then
// EnvironmentFile= in order, without UnsetEnvironment=. If a file cannot be read, unread is
// its path and env has only later variables, because the file may set any variable. Otherwise
// unread is "".
func (u *Unit) Environment() (env map[string]Value, unread string) {
	env = map[string]Value{}
	if u.Partial {
		unread = u.Name
	}
	for key, in := range directories {
		var made []string
		at := ""
		for _, v := range u.All("Service", key) {
			for _, word := range strings.Fields(u.expand(v.Text)) {
				name, _, _ := strings.Cut(word, ":") // the rest is a link name
				made, at = append(made, path.Join(in.below, name)), v.At
			}
		}
		if len(made) > 0 {
			env[in.variable] = Value{strings.Join(made, ":"), at}
		}
	}
	for _, v := range u.All("Service", "Environment") {
		for _, word := range u.assignments(v.Text) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = Value{value, v.At}
		}
	}
	for _, v := range u.All("Service", "EnvironmentFile") {
		name, optional := strings.CutPrefix(u.expand(v.Text), "-")
		files := []string{name}
		if strings.ContainsAny(name, "*?[") {
			files, _ = host.Glob(u.reader.host.Files, name)
		}
		for _, f := range files {
			f = path.Clean(f)
			text, err := u.reader.host.Files.ReadFile(f)
			switch {
			case err == nil:
				for _, a := range EnvironmentFile(string(text)) {
					env[a.Name] = Value{a.Value, f + ":" + strconv.Itoa(a.Line)}
				}
			case optional && u.reader.absent(f, err):
			default: // not recorded, or required: systemd would not start the unit without it
				unread = f
				clear(env)
			}
		}
	}
	for _, v := range u.All("Service", "UnsetEnvironment") {
		words, _ := split(v.Text)
		for _, w := range words {
			name, value, whole := strings.Cut(u.expand(w), "=")
			if !whole || env[name].Text == value {
				delete(env, name)
			}
		}
	}
	return env, unread
}

// absent reports whether the machine certainly lacks the file. On a copy this needs a listing
// of the directory without the name.
func (r *Reader) absent(file string, err error) bool {
	if !host.Unknown(err) {
		return errors.Is(err, fs.ErrNotExist)
	}
	if l := r.list(path.Dir(file)); l.err != nil {
		return false
	}
	_, err = r.host.Files.Lstat(file)
	return host.NotFound(err)
}

var assignment = text.LazyRegexp(`^[A-Za-z_][A-Za-z0-9_]*=`)

// assignments returns the words of Environment= that systemd accepts: all words before an
// unterminated quote.
func (u *Unit) assignments(text string) []string {
	words, _ := split(text)
	var out []string
	for _, w := range words {
		if w = u.expand(w); assignment().MatchString(w) {
			out = append(out, w)
		}
	}
	return out
}

// expand replaces the specifiers that depend only on the unit's name.
func (u *Unit) expand(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	base := strings.TrimSuffix(u.Name, path.Ext(u.Name))
	prefix, instance, _ := strings.Cut(base, "@")
	return strings.NewReplacer("%%", "%", "%n", u.Name, "%N", base, "%p", prefix, "%P", unescape(prefix), "%i", instance, "%I", unescape(instance)).Replace(s)
}

// unescape reverses systemd-escape(1): "-" is "/", \x2d is "-".
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '-' {
			b.WriteByte('/')
			continue
		}
		if strings.HasPrefix(s[i:], `\x`) && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// split splits a line into words like systemd: separated by blanks, with "..." and '...'
// quotes and C escapes. ok is false for an unterminated quote or an invalid escape; words
// before it are still returned.
func split(s string) (words []string, ok bool) {
	var b strings.Builder
	var quote byte
	inWord := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			text, n := escaped(s[i+1:])
			if n == 0 {
				return words, false
			}
			b.WriteString(text)
			i += n
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case strings.IndexByte(" \t\n\r", c) >= 0:
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return words, false
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, true
}

// escaped decodes the escape after a backslash. n is the length of the escape, or 0 if it is
// invalid.
func escaped(s string) (text string, n int) {
	if s == "" {
		return "", 0
	}
	if i := strings.IndexByte(`abfnrtv\"'s`, s[0]); i >= 0 {
		return string("\a\b\f\n\r\t\v\\\"' "[i]), 1
	}
	number := func(from, to, base, bits int) (string, int) {
		if len(s) < to {
			return "", 0
		}
		v, err := strconv.ParseUint(s[from:to], base, bits)
		if err != nil || v == 0 {
			return "", 0
		}
		if bits == 8 {
			return string([]byte{byte(v)}), to
		}
		return string(rune(v)), to
	}
	switch {
	case s[0] == 'x':
		return number(1, 3, 16, 8)
	case s[0] == 'u':
		return number(1, 5, 16, 16)
	case s[0] == 'U':
		return number(1, 9, 16, 32)
	case s[0] >= '0' && s[0] <= '7':
		return number(0, 3, 8, 8)
	}
	return "", 0
}
