package nginx

import (
	"fmt"
	"strings"
)

// directive is a directive that ends with ";", the beginning of a block, or its end.
type directive struct {
	name     string // "}" closes a block
	args     string // arguments, unchanged
	words    []string
	block    bool
	number   int // line number
	from, to int // byte range of args
	end      int // offset after ";" or "{"
}

const blank = " \t\r\n"

// scan parses a file as nginx does (src/core/ngx_conf_file.c, ngx_conf_read_token): words that end
// with ";" or open a block with "{". Errors begin with the line number.
func scan(text string) ([]directive, error) {
	var out []directive
	var d directive
	started := false
	number := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.IndexByte(blank, c) >= 0:
			if c == '\n' {
				number++
			}
			i++
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == ';' || c == '{':
			if !started {
				return nil, fmt.Errorf("%d: unexpected %q", number, c)
			}
			i++
			d.block, d.end = c == '{', i
			if d.to > 0 {
				d.args = text[d.from:d.to]
			}
			out = append(out, d)
			if d.block && strings.HasSuffix(d.name, "_by_lua_block") {
				end, ok := skipLua(text, i)
				if !ok {
					return nil, fmt.Errorf("%d: the block %s is not closed", d.number, d.name)
				}
				number += strings.Count(text[i:end], "\n")
				i = end
				out = append(out, directive{name: "}", number: number, end: i})
			}
			if len(out) > maxDirectives {
				return nil, fmt.Errorf("%d: more than %d directives", number, maxDirectives)
			}
			d, started = directive{}, false
		case c == '}':
			if started {
				return nil, fmt.Errorf("%d: unexpected \"}\"", number)
			}
			i++
			out = append(out, directive{name: "}", number: number, end: i})
		default:
			w, next, ok := word(text, i)
			if !ok {
				return nil, fmt.Errorf("%d: a quote is not closed, or something follows it", number)
			}
			if !started {
				d.name, d.number, started = w, number, true
			} else {
				if d.to == 0 {
					d.from = i
				}
				d.to = next
				d.words = append(d.words, w)
			}
			number += strings.Count(text[i:next], "\n")
			i = next
		}
	}
	if started {
		return nil, fmt.Errorf("%d: %.40q does not end with \";\"", d.number, d.name)
	}
	return out, nil
}

// word parses the word at offset i and returns the offset after it. Quotes count only at a word's
// beginning; a brace after "$" belongs to a variable.
func word(text string, i int) (w string, next int, ok bool) {
	begin := i
	if q := text[i]; q == '"' || q == '\'' {
		for i++; i < len(text) && text[i] != q; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		if i >= len(text) {
			return "", len(text), false
		}
		w, i = text[begin+1:i], i+1
		return unescape.Replace(w), i, i == len(text) || strings.IndexByte(blank+";{)", text[i]) >= 0
	}
	for ; i < len(text); i++ {
		c := text[i]
		if c == '{' && i > begin && text[i-1] == '$' {
			continue
		}
		if strings.IndexByte(blank+";{", c) >= 0 {
			break
		}
		if c == '\\' {
			i++
		}
	}
	i = min(i, len(text))
	return unescape.Replace(text[begin:i]), i, true
}

// unescape resolves the escapes of nginx; a backslash before any other byte stays.
var unescape = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\t`, "\t", `\r`, "\r", `\n`, "\n")

// skipLua returns the end of the Lua block that begins at offset i. Braces must pair, except in
// strings and comments (Lua 5.1, "Lexical Conventions").
func skipLua(text string, i int) (end int, ok bool) {
	for depth := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1, true
			}
		case '"', '\'':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '-':
			if !strings.HasPrefix(text[i:], "--") {
				continue
			}
			if next, long := longBracket(text, i+2); long {
				i = next - 1
			} else if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				return len(text), false
			}
		case '[':
			if next, long := longBracket(text, i); long {
				i = next - 1
			}
		}
	}
	return len(text), false
}

// longBracket returns the end of the "[[...]]" or "[==[...]==]" that begins at offset i.
func longBracket(text string, i int) (end int, ok bool) {
	if i >= len(text) || text[i] != '[' {
		return i, false
	}
	level := len(text[i+1:]) - len(strings.TrimLeft(text[i+1:], "="))
	if !strings.HasPrefix(text[i+1+level:], "[") {
		return i, false
	}
	closing := "]" + strings.Repeat("=", level) + "]"
	n := strings.Index(text[i:], closing)
	if n < 0 {
		return len(text), true
	}
	return i + n + len(closing), true
}
