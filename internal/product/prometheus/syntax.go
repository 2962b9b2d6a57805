package prometheus

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// global is the syntax of the keys below "global:" in prometheus.yml. A key is the bare name, such
// as scrape_interval.
type global struct{ conf.YAML }

const section = "global/"

// Key implements conf.Syntax.
func (global) Key(name string) (string, error) {
	return conf.Words{}.Key(strings.TrimPrefix(name, section))
}

// Assignments implements conf.Syntax.
func (g global) Assignments(text string) ([]conf.Assignment, error) {
	all, err := g.YAML.Assignments(text)
	if err != nil {
		return nil, err
	}
	var out []conf.Assignment
	for _, a := range all {
		if key, ok := strings.CutPrefix(a.Key, section); ok && !strings.Contains(key, "/") {
			a.Key = key
			out = append(out, a)
		}
	}
	return out, nil
}

// Insert implements conf.Inserter. The new line goes before the section's first key, with the same
// indentation.
func (g global) Insert(text, key, literal string) (string, error) {
	all, err := g.Assignments(text)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", fmt.Errorf("global is empty; add its first key by hand")
	}
	line := strings.LastIndexByte(text[:all[0].From], '\n') + 1
	rest := strings.TrimLeft(text[line:], " ")
	indent := text[line : len(text)-len(rest)]
	return text[:line] + indent + g.Line(key, literal) + "\n" + text[line:], nil
}

// Remove implements conf.Inserter.
func (global) Remove(text string, a conf.Assignment) string {
	from := strings.LastIndexByte(text[:a.From], '\n') + 1
	length := strings.IndexByte(text[a.To:], '\n')
	if length < 0 {
		return text[:from]
	}
	return text[:from] + text[a.To+length+1:]
}

// flags is the syntax of a systemd environment file with a variable that holds the command line's
// flags: ARGS in Debian. An option is a flag without its dashes.
type flags struct{ variable string }

// Key implements conf.Syntax.
func (flags) Key(name string) (string, error) {
	return conf.Words{}.Key(strings.TrimPrefix(name, "--"))
}

// body returns the flags in the variable's last line, and their position; ok is false if no line
// sets the variable. The error means inner quotes or escapes, which fettle does not change.
func (f flags) body(text string) (body string, from, line int, ok bool, err error) {
	all := systemd.EnvironmentFile(text)
	i := len(all) - 1
	for i >= 0 && all[i].Name != f.variable {
		i--
	}
	if i < 0 {
		return "", 0, 0, false, nil
	}
	at := 0
	for range all[i].Line - 1 {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	whole, _, _ := strings.Cut(text[at:], "\n")
	cut := strings.IndexByte(whole, '=')
	rest := strings.TrimRight(whole[cut+1:], " \t\r")
	body = strings.TrimLeft(rest, " \t")
	from = at + cut + 1 + len(rest) - len(body)
	if n := len(body); n >= 2 && (body[0] == '"' || body[0] == '\'') && body[n-1] == body[0] {
		body, from = body[1:n-1], from+1
	}
	if cut < 0 || strings.TrimSpace(whole[:cut]) != f.variable || strings.ContainsAny(body, "\"'\\$`\r") || body != all[i].Value {
		return "", 0, 0, true, fmt.Errorf("%d: %s has quotes or escapes, or spans several lines; change it by hand", all[i].Line, f.variable)
	}
	return body, from, all[i].Line, true, nil
}

// Assignments implements conf.Syntax. It returns the flags that have a value.
func (f flags) Assignments(text string) ([]conf.Assignment, error) {
	body, from, line, _, err := f.body(text)
	if err != nil {
		return nil, err
	}
	var out []conf.Assignment
	for i := 0; i < len(body); {
		if strings.IndexByte(" \t", body[i]) >= 0 {
			i++
			continue
		}
		word := body[i:]
		if end := strings.IndexAny(word, " \t"); end >= 0 {
			word = word[:end]
		}
		begin := i
		i += len(word)
		name, value, whole := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		key, err := f.Key(name)
		if err != nil {
			continue
		}
		at := begin + len(name) + 1
		if !whole { // the value is the next word, unless that is a flag
			rest := strings.TrimLeft(body[i:], " \t")
			value = rest
			if end := strings.IndexAny(value, " \t"); end >= 0 {
				value = value[:end]
			}
			if value == "" || value[0] == '-' {
				continue
			}
			at = len(body) - len(rest)
			i = at + len(value)
		}
		if value != "" {
			out = append(out, conf.Assignment{Key: key, Literal: value, Line: line, From: from + at, To: from + at + len(value)})
		}
	}
	return out, nil
}

// Literal implements conf.Syntax. It accepts one word without characters that are special to
// systemd.
func (flags) Literal(value string) (string, error) {
	if value == "" || value[0] == '-' || strings.ContainsAny(value, " \t\r\n\v\f\"'\\$`#;\x00") {
		return "", fmt.Errorf("%q: %w: want one word", value, conf.ErrValue)
	}
	return value, nil
}

// Unquote implements conf.Syntax.
func (flags) Unquote(literal string) string { return literal }

// Line implements conf.Syntax.
func (flags) Line(key, literal string) string { return "--" + key + "=" + literal }

// Insert implements conf.Inserter. The flag goes after the existing ones.
func (f flags) Insert(text, key, literal string) (string, error) {
	body, from, _, ok, err := f.body(text)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", fmt.Errorf("%s is not set; add the line %s=\"\" by hand", f.variable, f.variable)
	}
	word := f.Line(key, literal)
	if body != "" {
		word = " " + word
	}
	return text[:from+len(body)] + word + text[from+len(body):], nil
}

// Remove implements conf.Inserter.
func (f flags) Remove(text string, a conf.Assignment) string {
	from := a.From - len(f.Line(a.Key, ""))
	if from > 0 && text[from-1] == ' ' {
		from--
	}
	return text[:max(0, from)] + text[a.To:]
}

// readFlags parses a command line like Prometheus: --name=value, --name value, and switches, --name
// or --no-name.
func readFlags(argv []string) map[string]string {
	out := map[string]string{}
	for i := 1; i < len(argv); i++ {
		name, ok := strings.CutPrefix(argv[i], "--")
		if !ok {
			continue
		}
		name, value, whole := strings.Cut(name, "=")
		switch {
		case whole:
			out[name] = value
		case i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") && !slices.Contains(switches, name):
			i++
			out[name] = argv[i]
		case strings.HasPrefix(name, "no-"):
			out[name[3:]] = "false"
		default:
			out[name] = "true"
		}
	}
	return out
}

// switches are the flags without a value.
var switches = []string{"web.enable-lifecycle", "web.enable-admin-api", "web.enable-remote-write-receiver", "storage.tsdb.no-lockfile", "storage.tsdb.use-lockfile", "storage.tsdb.wal-compression", "storage.tsdb.allow-overlapping-blocks", "storage.agent.wal-compression", "storage.agent.use-lockfile"}
