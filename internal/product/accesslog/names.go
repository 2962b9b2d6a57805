package accesslog

import "strings"

// Strftime converts a name with conversions of strftime(3), as in rotatelogs and cronolog, to a
// pattern of path.Match. pattern is false for a name without conversions, to which rotatelogs
// appends the seconds since 1970.
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

// Literal escapes a text for a pattern of path.Match.
func Literal(text string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(text)
}
