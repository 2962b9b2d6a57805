package puppetserver

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// syntax is the syntax of Puppet Server's files: HOCON, and the environment file with JAVA_ARGS.
type syntax struct{}

// javaArguments maps fettle's names of memory sizes to Java's options.
var javaArguments = map[string]string{"heap": "-Xmx", "heap_min": "-Xms", "code_cache": "-XX:ReservedCodeCacheSize="}

var (
	javaLine = text.LazyRegexp(`^\s*(?:export\s+)?JAVA_ARGS\s*=`)
	javaSize = text.LazyRegexp(`^[0-9]{1,12}[kKmMgGtT]?$`)
	plain    = text.LazyRegexp(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	simple   = text.LazyRegexp(`^"[^"\\\n\r]*"$`)
)

// Key implements conf.Syntax.
func (syntax) Key(name string) (string, error) { return conf.Words{}.Key(name) }

// Assignments implements conf.Syntax.
func (syntax) Assignments(text string) ([]conf.Assignment, error) {
	for line := range strings.Lines(text) {
		if javaLine().MatchString(line) {
			return java(text), nil
		}
	}
	return hocon(text)
}

// java returns the memory sizes in the last line JAVA_ARGS=; Java uses the last of each.
func java(text string) (out []conf.Assignment) {
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		head := javaLine().FindString(line)
		if head == "" {
			continue
		}
		out = nil
		for _, name := range []string{"heap", "heap_min", "code_cache"} {
			for from := 0; ; {
				i := strings.Index(line[from:], javaArguments[name])
				if i < 0 {
					break
				}
				from += i + len(javaArguments[name])
				end := from + len(line[from:]) - len(strings.TrimLeft(line[from:], "0123456789kKmMgGtT"))
				whole := end == len(line) || strings.IndexByte(" \t\r\n\"'", line[end]) >= 0
				word := from - len(javaArguments[name])
				begins := word == len(head) || strings.IndexByte(" \t\"'", line[word-1]) >= 0
				if whole && begins && javaSize().MatchString(line[from:end]) {
					out = append(out, conf.Assignment{Key: name, Literal: line[from:end], Line: n + 1, From: begin + from, To: begin + end})
				}
			}
		}
	}
	return out
}

// Literal implements conf.Syntax. It returns a word, or a text in double quotes without escapes.
func (syntax) Literal(value string) (string, error) {
	if plain().MatchString(value) || simple().MatchString(value) {
		return value, nil
	}
	return "", fmt.Errorf("%q: %w: want one word", value, conf.ErrValue)
}

// Unquote implements conf.Syntax.
func (syntax) Unquote(literal string) string {
	if simple().MatchString(literal) {
		return literal[1 : len(literal)-1]
	}
	return literal
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string {
	return "    " + key[strings.LastIndexByte(key, '.')+1:] + ": " + literal
}

// Place implements conf.Placer: the first line inside the braces of the key's object.
func (syntax) Place(text, key string) (int, error) {
	section, _, ok := strings.Cut(key, ".")
	if !ok {
		return 0, fmt.Errorf("JAVA_ARGS has no %s; add it by hand (satellite-installer --puppet-server-jvm-extra-args, --puppet-server-jvm-max-heap-size)", javaArguments[key])
	}
	at := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		at += len(line)
		body := strings.TrimRight(strings.TrimSpace(line), " \t")
		if rest, ok := strings.CutPrefix(body, section); ok && strings.Trim(rest, ":= \t") == "{" && strings.HasSuffix(line, "\n") {
			return at, nil
		}
	}
	return 0, fmt.Errorf("no multi-line object %s for %s; add it by hand", section, key)
}
