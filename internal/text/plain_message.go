package text

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// goMessages maps patterns of messages that name functions and types, from Go's libraries or
// the expression language, to plainer texts.
var goMessages = sync.OnceValue(func() []struct {
	*regexp.Regexp
	instead string
} {
	const reason = `(no such file or directory|permission denied|not recorded in this copy|is a directory|not a directory|file exists|operation not permitted|` +
		`too many levels of symbolic links|input/output error|invalid argument|file name too long|read-only file system|no space left on device|` +
		`no such device|no such device or address|bad file descriptor|device or resource busy|directory not empty|no such process|leads outside)`
	var out []struct {
		*regexp.Regexp
		instead string
	}
	for _, p := range [][2]string{
		{`\b(?:open|openat|lstat|stat|fstatat|readlink|readlinkat|readdirent|read|write|mkdir|mkdirat|unlink|unlinkat|remove|chdir|chmod|chown|lchown|fork/exec|statfs) ([^\s:][^:\n]*): ` + reason, `$1: $2`},
		{`\bexec: "([^"]+)": executable file not found in \$PATH`, `$1: not found in $$PATH`},
		{`\bexec: "([^"]+)": `, `$1: `},
		{`\bdial (?:tcp|udp|unix)[46]? (\S+): (?:connect: )?`, `$1: `},
		{`\blookup (\S+)(?: on \S+)?: `, `$1: `},
		{`\b(?:read|write) (?:tcp|udp|unix)[46]? \S+->\S+: (?:(?:read|write): )?`, ``},
		{`\bparse ("(?:[^"\\]|\\.)*"): (?:first path segment in URL cannot contain colon|missing protocol scheme)`, `$1 is not a URL such as http://HOST:PORT`},
		{`\bparse ("(?:[^"\\]|\\.)*"): `, `$1: `},
		{`\bstrconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`, `$1 is not a number`},
		{`\bstrconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): value out of range`, `$1 is out of range`},
		{`\bjson: cannot unmarshal (\w+)(?: \S+)? into Go (?:value|struct field (\S+)) of type \S+`, `unexpected $1 in the JSON`},
		{`\bjson: unknown field `, `unknown field `},
		{`\btime: (?:invalid duration|unknown unit "[^"]*" in duration|missing unit in duration) ("[^"]*")`, `$1 is not a duration such as 30s or 5m`},
		{`\binvalid character ('(?:[^'\\]|\\.)+') (?:looking for|in|after) [^:;\n]*`, `invalid JSON at $1`},
		{`\binvalid input: magic number mismatch`, `the file has another format`},
		{`\bunexpected token EOF`, `it is truncated`},
		{`\bunexpected token \w+\(("(?:[^"\\]|\\.)*")\)`, `unexpected $1`},
		{`\bunexpected EOF\b`, `it is truncated`},
		{`\bunexpected end of JSON input`, `the JSON is truncated`},
		{`\bcontext deadline exceeded( \(Client\.Timeout exceeded while awaiting headers\))?`, `no answer in time`},
	} {
		out = append(out, struct {
			*regexp.Regexp
			instead string
		}{regexp.MustCompile(p[0]), p[1]})
	}
	return out
})

// PlainMessage removes the names of Go functions and types from a message. It also removes
// repetitions, such as the name of a file in front of an error that contains it.
func PlainMessage(text string) string {
	if !strings.ContainsAny(text, ":(") && !strings.Contains(text, "unexpected") && !strings.Contains(text, "context") && !strings.Contains(text, "invalid") {
		return text
	}
	for _, p := range goMessages() {
		text = p.ReplaceAllString(text, p.instead)
	}
	parts := strings.Split(text, ": ")
	return strings.Join(slices.Compact(parts), ": ")
}
