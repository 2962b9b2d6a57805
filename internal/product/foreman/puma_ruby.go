package foreman

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// number is a number in a configuration: a literal, or an environment variable with its default.
type number struct {
	literal  string // in decimal; "" if none exists
	from, to int    // byte range of a literal in its own call
	variable string
	other    *number
	// conversion is the method applied to the variable's text: "to_i" or "Integer"; "" means the
	// call's own method.
	conversion string
	absent     string // a variable that is not set here, nil in Ruby
	line       int
	unknown    string // why only running the file would show the number
}

// config is a parsed configuration file in Ruby; nil means not set, or not readable without running
// it.
type config struct {
	workers, min, max *number
	state             string // state_path
}

// maxLines is the maximum number of lines of one file.
const maxLines = 20000

// readRuby parses a Puma configuration (puma 5.6, lib/puma/dsl.rb) without running it. It
// understands calls with plain values and with environment variables, but no calls in conditions.
func readRuby(text string) config {
	r := ruby{vars: map[string]*number{}}
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		if n >= maxLines || r.over {
			break
		}
		r.row(line, at, n+1)
		at += len(line)
	}
	return r.config
}

type ruby struct {
	config
	vars  map[string]*number
	depth int      // open blocks and conditions
	docs  []string // ends of open here documents
	over  bool     // after __END__
	rem   bool     // between =begin and =end
}

var (
	opens     = text.LazyRegexp(`^(if|unless|case|while|until|begin|def|class|module|for)\b|\bdo\s*(\|[^|]*\|)?$|\{\s*(\|[^|]*\|)?$|=\s*(if|case|begin)\b`)
	closes    = text.LazyRegexp(`^(end\b|\})`)
	oneLine   = text.LazyRegexp(`[\s;]end$`)
	heredoc   = text.LazyRegexp(`<<[~-]?(['"]?)([A-Za-z_]\w*)(['"]?)`)
	assigns   = text.LazyRegexp(`^([a-z_]\w*)\s*=\s*([^=~].*)$`)
	call      = text.LazyRegexp(`^(workers|threads|state_path)\b\s*(.*)$`)
	modifier  = text.LazyRegexp(`\s(if|unless|while|until|and|or)\s`)
	fetch     = text.LazyRegexp(`^ENV\.fetch\(\s*['"](\w+)['"]\s*(?:,\s*(.+?))?\s*\)(?:\s*\{\s*(.+?)\s*\})?$`)
	index     = text.LazyRegexp(`^ENV\[\s*['"](\w+)['"]\s*\](?:\s*\|\|\s*(.+))?$`)
	digits    = text.LazyRegexp(`^[0-9]{1,9}$`)
	quotedInt = text.LazyRegexp(`^(['"])([0-9]{1,9})(['"])$`)
	name      = text.LazyRegexp(`^[a-z_]\w*$`)
	quoted    = text.LazyRegexp(`^(['"])([^'"\\#]*)(['"])$`)
)

// row parses one line; offset is the position of its first byte in the file.
func (r *ruby) row(line string, offset, n int) {
	body := strings.TrimRight(line, "\r\n \t")
	if len(r.docs) > 0 {
		if strings.TrimSpace(body) == r.docs[0] {
			r.docs = r.docs[1:]
		}
		return
	}
	switch {
	case strings.HasPrefix(body, "=begin"):
		r.rem = true
	case strings.HasPrefix(body, "=end"):
		r.rem = false
		return
	case body == "__END__":
		r.over = true
	}
	if r.rem || r.over {
		return
	}
	body = strings.TrimRight(uncomment(body), " \t")
	code := strings.TrimLeft(body, " \t")
	offset += len(body) - len(code)
	for _, m := range heredoc().FindAllStringSubmatch(code, 8) {
		if m[1] == m[3] && !strings.Contains(m[2], " ") && (m[1] != "" || strings.ToUpper(m[2]) == m[2]) {
			r.docs = append(r.docs, m[2])
		}
	}
	if closes().MatchString(code) {
		r.depth = max(0, r.depth-1)
	}
	if m := call().FindStringSubmatchIndex(code); m != nil {
		r.call(code[m[2]:m[3]], code[m[4]:m[5]], offset+m[4], n)
	} else if m := assigns().FindStringSubmatch(code); m != nil {
		v := r.number(m[2], -1, n)
		if r.depth > 0 {
			v = &number{line: n, unknown: "set inside a condition, which fettle does not evaluate"}
		}
		r.vars[m[1]] = v
	}
	if opens().MatchString(code) && !oneLine().MatchString(code) {
		r.depth++
	}
}

// call parses a call's arguments; offset is the position of their first byte in the file.
func (r *ruby) call(what, args string, offset, n int) {
	if strings.HasPrefix(args, "(") && strings.HasSuffix(args, ")") && whole(args) {
		inner := args[1 : len(args)-1]
		trimmed := strings.TrimLeft(inner, " \t")
		offset += 1 + len(inner) - len(trimmed)
		args = strings.TrimRight(trimmed, " \t")
	}
	parts, starts := split(args)
	if what == "state_path" {
		if m := quoted().FindStringSubmatch(args); m != nil && m[1] == m[3] && r.depth == 0 {
			r.state = m[2]
		}
		return
	}
	if args == "" || args[0] == '=' || args[0] == '.' {
		return // a variable with this name
	}
	targets := []**number{&r.workers}
	if what == "threads" {
		targets = []**number{&r.min, &r.max}
	}
	if len(parts) == 1 && len(targets) == 2 && r.depth == 0 && !strings.HasPrefix(parts[0], "*") {
		r.min = r.number(parts[0], -1, n) // since Puma 6 one number sets both min and max
		r.max = r.min
		return
	}
	for i, t := range targets {
		switch {
		case len(parts) != len(targets):
			*t = &number{line: n, unknown: fmt.Sprintf("fettle does not evaluate Ruby code: %s %s", what, args)}
		case r.depth > 0:
			*t = &number{line: n, unknown: "set inside a condition or a block, which fettle does not evaluate"}
		default:
			*t = r.number(parts[i], offset+starts[i], n)
		}
	}
}

// number parses an expression; from is the offset of a literal that fettle can change, or -1.
func (r *ruby) number(expr string, from, n int) *number {
	return r.deep(expr, from, n, 0)
}

func (r *ruby) deep(expr string, from, n, depth int) *number {
	unknown := &number{line: n, unknown: "fettle does not evaluate Ruby code: " + expr}
	expr = strings.TrimSpace(expr)
	switch {
	case depth > 10 || modifier().MatchString(expr):
		return unknown
	case digits().MatchString(expr):
		if len(expr) > 1 && expr[0] == '0' {
			return unknown // octal
		}
		v := &number{literal: expr, line: n}
		if from >= 0 {
			v.from, v.to = from, from+len(expr)
		}
		return v
	case name().MatchString(expr):
		if v, ok := r.vars[expr]; ok {
			return v
		}
		return unknown
	}
	if m := quotedInt().FindStringSubmatch(expr); m != nil && m[1] == m[3] {
		return &number{literal: strings.TrimLeft(m[2][:len(m[2])-1], "0") + m[2][len(m[2])-1:], line: n}
	}
	if inner, ok := strings.CutSuffix(expr, ".to_i"); ok && inner != "" {
		return r.deep(inner, -1, n, depth+1).converted("to_i")
	}
	for around, conversion := range map[string]string{"(": "", "Integer(": "Integer"} {
		if inner, ok := strings.CutPrefix(expr, around); ok && strings.HasSuffix(inner, ")") && whole("("+inner) {
			return r.deep(inner[:len(inner)-1], -1, n, depth+1).converted(conversion)
		}
	}
	if m := fetch().FindStringSubmatch(expr); m != nil && (m[2] == "" || m[3] == "") && whole(strings.TrimPrefix(expr[:strings.LastIndexByte(expr, ')')+1], "ENV.fetch")) {
		return r.variable(m[1], m[2]+m[3], &number{line: n, unknown: "Puma does not start without " + m[1]}, n, depth)
	}
	if m := index().FindStringSubmatch(expr); m != nil {
		return r.variable(m[1], m[2], &number{line: n, absent: m[1]}, n, depth)
	}
	return unknown
}

// converted returns the number with by as its conversion, unless an inner expression has set one.
func (n *number) converted(by string) *number {
	if n == nil || by == "" {
		return n
	}
	out := *n
	if out.conversion == "" {
		out.conversion = by
	}
	out.other = out.other.converted(by)
	return &out
}

func (r *ruby) variable(name, other string, without *number, n, depth int) *number {
	v := &number{variable: name, line: n, other: without}
	if other != "" {
		v.other = r.deep(other, -1, n, depth+1)
	}
	return v
}

// uncomment removes a line's comment; "#" in quotes does not begin one.
func uncomment(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// split splits arguments at commas outside of brackets, and returns the offset of each part.
func split(args string) (parts []string, starts []int) {
	depth, begin, quote := 0, 0, byte(0)
	add := func(end int) {
		part := args[begin:end]
		lead := len(part) - len(strings.TrimLeft(part, " \t"))
		parts, starts = append(parts, strings.TrimSpace(part)), append(starts, begin+lead)
		begin = end + 1
	}
	for i := 0; i < len(args); i++ {
		switch c := args[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth == 0:
			add(i)
		}
	}
	add(len(args))
	return parts, starts
}

// whole reports whether the text's last byte closes its first bracket.
func whole(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i == len(s)-1
			}
		}
	}
	return false
}

// value evaluates the number with the variables that get returns. conversion is the method that the
// call applies to a text: "to_i" for workers, "Integer" for threads (puma 5.6 and 6.6,
// lib/puma/dsl.rb).
func (n *number) value(get func(string) (text, at string, ok bool, unknown string), file, conversion string) (text, at, unknown string) {
	if at = file; n.line > 0 {
		at += ":" + strconv.Itoa(n.line)
	}
	if n.conversion != "" {
		conversion = n.conversion
	}
	switch {
	case n.unknown != "":
		return "", at, n.unknown
	case n.absent != "" && conversion == "to_i":
		return "0", at, ""
	case n.absent != "":
		return "", at, "without " + n.absent + " the value is nil, and Puma does not start"
	case n.variable == "":
		return n.literal, at, ""
	}
	v, where, ok, why := get(n.variable)
	switch {
	case ok && conversion == "to_i":
		return toI(v), where, ""
	case ok:
		if text, isNumber := integer(v); isNumber {
			return text, where, ""
		}
		return "", where, fmt.Sprintf("%s is %q, not a number; Puma does not start", n.variable, v)
	case why != "":
		return "", where, why
	}
	return n.other.value(get, file, conversion)
}

// toI implements Ruby's String#to_i: the digits at the beginning of a text, and 0 for "auto".
func toI(text string) string {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() < 9; i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			b.WriteByte(c)
		case c == '_' && i > 0 && text[i-1] != '_' && i+1 < len(text):
		default:
			i = len(text)
		}
	}
	if digits := strings.TrimLeft(b.String(), "0"); digits != "" {
		return digits
	}
	return "0"
}

// integer implements Ruby's Integer(): 010 is 8, 0x4 is 4, and "3x" is an error.
func integer(text string) (string, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 0, 30)
	return strconv.FormatUint(n, 10), err == nil
}
