package puppetserver

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// Loopback returns webserver.conf for a server behind a front end that terminates TLS: it listens
// only on a port of 127.0.0.1, without TLS. Other lines stay. It returns an error for more than one
// listener, because their purposes are unknown.
func Loopback(text string, port int) (string, error) {
	all, err := hocon(text)
	if err != nil {
		return "", err
	}
	for _, a := range slices.Backward(all) {
		rest, ok := strings.CutPrefix(a.Key, "webserver.")
		if !ok {
			continue
		}
		inner, of := rest, ""
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			of, inner = rest[:dot], rest[dot+1:]
		}
		switch {
		case !slices.Contains([]string{"host", "port", "ssl-host", "ssl-port", "client-auth"}, inner):
		case of != "":
			return "", fmt.Errorf("%d: several servers (%s) are configured; unknown which one agents use", a.Line, of)
		default:
			if text, err = without(text, a); err != nil {
				return "", err
			}
		}
	}
	for _, l := range []struct{ key, value string }{{"port", fmt.Sprint(port)}, {"host", "127.0.0.1"}} { // each line is inserted before the others
		if text, err = WithOption(text, "webserver."+l.key, l.value); err != nil {
			return "", err
		}
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line, _, _ = strings.Cut(line, "//")
		for _, word := range []string{"ssl-port", "ssl-host", "include "} {
			if strings.Contains(line, word) {
				return "", fmt.Errorf("%d: the value of %s is not a plain scalar; rewrite it as one", n, strings.TrimSpace(word))
			}
		}
	}
	return text, nil
}

// without removes the line of an assignment, or returns an error if the line contains more.
func without(text string, a conf.Assignment) (string, error) {
	begin := strings.LastIndexByte(text[:a.From], '\n') + 1
	end := len(text)
	if n := strings.IndexByte(text[a.To:], '\n'); n >= 0 {
		end = a.To + n + 1
	}
	_, key, _ := strings.Cut(a.Key, ".")
	before := strings.Trim(strings.TrimSpace(text[begin:a.From]), `"`)
	before = strings.Trim(strings.TrimRight(before, " \t:="), `"`)
	behind, _, _ := strings.Cut(text[a.To:end], "#")
	behind, _, _ = strings.Cut(behind, "//")
	if before != key && before != a.Key || strings.Trim(behind, ", \t\r\n") != "" {
		return "", fmt.Errorf("%d: %s shares its line with other text; put it on its own line", a.Line, a.Key)
	}
	return text[:begin] + text[end:], nil
}

// WithOption sets an option in a HOCON text: in its line, or else in the braces of its object, or
// at the end.
func WithOption(text, key, value string) (string, error) {
	all, err := hocon(text)
	if err != nil {
		return "", err
	}
	literal, err := syntax{}.Literal(value)
	if err != nil {
		return "", err
	}
	for _, a := range slices.Backward(all) {
		if a.Key == key {
			return text[:a.From] + literal + text[a.To:], nil
		}
	}
	line := syntax{}.Line(key, literal) + "\n"
	at, err := syntax{}.Place(text, key)
	if err != nil {
		section, _, _ := strings.Cut(key, ".")
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + section + ": {\n" + line + "}\n", nil
	}
	text = text[:at] + line + text[at:]
	if all, err = hocon(text); err != nil || !slices.ContainsFunc(all, func(a conf.Assignment) bool { return a.Key == key }) {
		return "", fmt.Errorf("%d: nested object; set %s by hand", strings.Count(text[:at], "\n")+1, key)
	}
	return text, nil
}

// WithJava sets Java memory sizes in the text of a file with JAVA_ARGS; sizes uses the names of
// javaArguments. It changes all occurrences, because Java uses the last one.
func WithJava(text string, sizes map[string]string) (string, error) {
	had := map[string]bool{}
	for _, name := range []string{"heap", "heap_min", "code_cache"} {
		value := sizes[name]
		if value == "" {
			continue
		}
		for _, a := range slices.Backward(java(text)) {
			if a.Key == name {
				text, had[name] = text[:a.From]+value+text[a.To:], true
			}
		}
	}
	missing := ""
	for _, name := range []string{"heap_min", "heap", "code_cache"} {
		if sizes[name] != "" && !had[name] {
			missing += javaArguments[name] + sizes[name] + " "
		}
	}
	if missing == "" {
		return text, nil
	}
	at, end := -1, 0
	for line := range strings.Lines(text) {
		if head := javaLine().FindString(line); head != "" {
			at = end + len(head)
		}
		end += len(line)
	}
	missing = strings.TrimSpace(missing)
	switch {
	case at < 0:
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + "JAVA_ARGS=\"" + missing + "\"\n", nil
	case at == len(text) || text[at] != '"' && text[at] != '\'':
		return "", fmt.Errorf("%d: JAVA_ARGS has no quotes; add quotes", strings.Count(text[:at], "\n")+1)
	}
	return text[:at+1] + missing + " " + text[at+1:], nil
}
