package accesslog

import "strings"

// Strftime makes a pattern of path.Match of a name with conversions of strftime(3) in it,
// as rotatelogs and cronolog take it; without any, rotatelogs appends the seconds since
// 1970, and pattern is false.
func Strftime(name string) (glob string, pattern bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '%' && i+1 < len(name):
			i++
			if name[i] == '%' {
				b.WriteByte('%')
				continue
			}
			b.WriteByte('*')
			pattern = true
		default:
			b.WriteString(Literal(name[i : i+1]))
		}
	}
	if !pattern {
		return strings.ReplaceAll(name, "%%", "%"), false
	}
	return b.String(), true
}

// Literal is a text in a pattern of path.Match that stands for itself.
func Literal(text string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(text)
}
