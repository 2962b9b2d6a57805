package override

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// sysctlLine is one line of a sysctl.d file that is not empty or a comment.
type sysctlLine struct {
	line    int
	text    string // trimmed of white space
	key     string // below /proc/sys, separated by slashes
	value   string
	exclude bool // "-key" without a value
}

// sysctlLineMax is the maximum length of a line in systemd (LONG_LINE_MAX), in bytes.
const sysctlLineMax = 1 << 20

// parseSysctl parses the text of one file. The format has no continuation lines, and no comments
// after a value.
func parseSysctl(text string) ([]sysctlLine, []Problem) {
	var out []sysctlLine
	var problems []Problem
	for n, raw := range systemdLines(text) {
		if len(raw) > sysctlLineMax {
			return out, append(problems, Problem{Line: n, What: "line longer than 1 MiB: systemd-sysctl stops reading here"})
		}
		l := strings.Trim(raw, spaces)
		if l == "" || l[0] == '#' || l[0] == ';' {
			continue
		}
		s := sysctlLine{line: n, text: l}
		key, value, assigned := strings.Cut(l, "=")
		switch {
		case strings.HasPrefix(l, "-"):
			// With a value, the dash means that a failed write is ignored.
			key, s.exclude = key[1:], !assigned
		case !assigned:
			problems = append(problems, Problem{Line: n, What: fmt.Sprintf("not an assignment: %q (want key = value)", clip(l))})
			continue
		}
		s.value = strings.Trim(value, spaces)
		s.key = normalizeSysctl(strings.Trim(key, spaces))
		if s.key == "" || badPath(s.key) {
			problems = append(problems, Problem{Line: n, What: fmt.Sprintf("%q is not a key below /proc/sys", clip(key))})
			continue
		}
		if len(s.key) > pathMax {
			problems = append(problems, Problem{Line: n, What: fmt.Sprintf("%q is longer than a path can be", clip(key))})
			continue
		}
		out = append(out, s)
	}
	return out, problems
}

// pathMax is the maximum length of a path in the kernel, in bytes (linux/limits.h).
const pathMax = 4096

// spaces is systemd's WHITESPACE.
const spaces = " \t\n\r"

func clip(s string) string { return text.Truncate(s, 80) }

func badPath(p string) bool {
	for c := range strings.SplitSeq(p, "/") {
		if c == ".." || strings.ContainsRune(c, 0) {
			return true
		}
	}
	return false
}

// normalizeSysctl converts a key to a path below /proc/sys. The first separator decides whether
// dots or slashes separate (sysctl.d(5)). Empty components are removed.
func normalizeSysctl(key string) string {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		key = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, key)
	}
	parts := strings.Split(key, "/")
	kept := parts[:0]
	for _, p := range parts {
		if p != "" && p != "." {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "/")
}

func isPattern(key string) bool { return strings.ContainsAny(key, "*?[") }

// systemdLines splits text as systemd's read_line does: a line ends at any combination of
// different characters among LF, CR and NUL. It yields line numbers from 1.
func systemdLines(text string) func(yield func(int, string) bool) {
	isEnd := func(c byte) bool { return c == '\n' || c == '\r' || c == 0 }
	return func(yield func(int, string) bool) {
		for n := 1; text != ""; n++ {
			i := strings.IndexAny(text, "\n\r\x00")
			if i < 0 {
				yield(n, text)
				return
			}
			end := i + 1
			for end < len(text) && isEnd(text[end]) && strings.IndexByte(text[i:end], text[end]) < 0 {
				end++
			}
			if !yield(n, text[:i]) {
				return
			}
			text = text[end:]
		}
	}
}

// expandBraces expands braces as glob(3) does with GLOB_BRACE, and converts patterns to Go's.
// It ignores alternatives beyond 1024.
func expandBraces(p string) []string {
	out := braces(p, 1024)
	for i := range out {
		out[i] = goPattern(out[i])
	}
	return out
}

func braces(p string, limit int) []string {
	if len(p) > pathMax { // too long for glob(3) to match
		return []string{p}
	}
	open := -1
	for i := 0; i < len(p); i++ {
		if p[i] == '{' && !strings.HasPrefix(p[i:], "{}") {
			open = i
			break
		}
	}
	if open < 0 {
		return []string{p}
	}
	var parts []string
	depth, start, end := 0, open+1, -1
	for i := open; i < len(p) && end < 0; i++ {
		switch p[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				parts, end = append(parts, p[start:i]), i
			}
		case ',':
			if depth == 1 {
				parts, start = append(parts, p[start:i]), i+1
			}
		}
	}
	if end < 0 {
		return []string{p} // unclosed: literal
	}
	var out []string
	for _, alt := range parts {
		for _, whole := range braces(p[:open]+alt+p[end+1:], limit-len(out)) {
			if len(out) >= limit {
				return out
			}
			out = append(out, whole)
		}
	}
	return out
}
