package override

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/setting"
)

const whenTmpfiles = "at boot by systemd-tmpfiles-setup, and whenever systemd-tmpfiles --create runs"

// readTmpfiles reads the lines of tmpfiles.d(5) that write into /proc/sys or /sys: w, w+, f, F
// (f+). Lines without wildcards that create files (f, F) are applied before all w lines. Among
// lines with the same path as written the FIRST is used, except that w+ lines are combined
// (src/tmpfiles/tmpfiles.c, parse_line and item_compatible).
func readTmpfiles(r *reader) {
	type seen struct {
		rank  int
		place string
		same  string // mode, owner, age and argument
		plus  bool
	}
	first := map[string]seen{} // by path as written; separate for w lines
	rank := 0
	for _, f := range r.confFiles("tmpfiles.d", ".conf") {
		if f.masked {
			continue
		}
		text, ok := r.file(f.path)
		if !ok || !strings.Contains(text, "/sys") {
			continue
		}
		for _, l := range parseTmpfiles(text, r.kernelRelease) {
			c := f.claim(Tmpfiles, l.line, l.text)
			c.When = whenTmpfiles
			c.Value = setting.Text(l.value)
			if l.unknown != "" {
				c.Condition = l.unknown
			}
			stage := 0
			if l.kind == 'w' {
				stage = 1 << 20
			}
			key := strconv.Itoa(stage) + l.path
			at, again := first[key]
			switch {
			case c.Void != "": // shadowed
			case !again:
				rank++
				at = seen{rank, c.Place(), l.owner + l.value, l.plus}
				first[key] = at
			case (!l.plus || !at.plus || l.kind != 'w') && at.same != l.owner+l.value:
				c.Void = "overridden by the earlier line " + at.place
			}
			if l.kind == 'f' && !l.plus && c.Void == "" {
				c.Void = "f writes only files that do not exist yet"
			}
			pattern := l.path
			if l.kind != 'w' && strings.ContainsAny(pattern, "*?[") {
				continue // f and F do not support wildcards
			}
			r.addPath(c, pattern, stage+at.rank)
		}
	}
}

// tmpfilesLine is one line that may write a kernel attribute.
type tmpfilesLine struct {
	line        int
	text        string
	kind        byte // 'w' or 'f'
	plus        bool // w+, f+ (F)
	path, value string
	owner       string // mode, user, group, age, as written
	unknown     string // part of the value that is known only when applied
}

// parseTmpfiles returns the lines that write below /proc/sys or /sys. release returns the kernel
// release for %v.
func parseTmpfiles(text string, release func() string) []tmpfilesLine {
	var out []tmpfilesLine
	for n, raw := range systemdLines(text) {
		l := strings.Trim(raw, spaces)
		if l == "" || l[0] == '#' || l[0] == ';' {
			continue
		}
		fields, rest := tmpfilesFields(l, 6)
		if len(fields) < 2 || fields[0] == "" {
			continue
		}
		t := tmpfilesLine{line: n, text: l, kind: fields[0][0] | 0x20}
		if t.kind != 'w' && t.kind != 'f' || fields[0][0] == 'W' {
			continue
		}
		t.plus = fields[0][0] == 'F' || strings.Contains(fields[0], "+")
		p, known := specifiers(fields[1], release)
		if !known || !strings.HasPrefix(p, "/") {
			continue
		}
		t.path = path.Clean(p)
		if !strings.HasPrefix(t.path, "/sys/") && !strings.HasPrefix(t.path, "/proc/sys/") {
			continue
		}
		if rest == "" || rest == "-" {
			continue // writes nothing
		}
		t.value, t.owner = rest, strings.Join(fields[2:], " ")
		if strings.ContainsAny(fields[0], "~^") {
			t.unknown = "the argument is base64 or a credential"
		} else if v, ok := cUnescape(rest); ok {
			if t.value, ok = specifiers(v, release); !ok {
				t.unknown = fmt.Sprintf("specifiers in %q are expanded on the machine", clip(rest))
			}
		}
		t.value = strings.TrimSuffix(t.value, "\n")
		out = append(out, t)
	}
	return out
}

// tmpfilesFields splits up to n words off a line, with systemd's quoting. It returns the words and
// the rest.
func tmpfilesFields(l string, n int) (fields []string, rest string) {
	for len(fields) < n {
		l = strings.TrimLeft(l, spaces)
		if l == "" {
			return fields, ""
		}
		var b strings.Builder
		quote := byte(0)
		i := 0
		for ; i < len(l); i++ {
			c := l[i]
			switch {
			case c == '\\' && i+1 < len(l):
				i++
				b.WriteByte(l[i])
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote == 0 && strings.IndexByte(spaces, c) >= 0:
				goto word
			default:
				b.WriteByte(c)
			}
		}
	word:
		fields, l = append(fields, b.String()), l[i:]
	}
	return fields, strings.TrimLeft(l, spaces)
}

// specifiers expands %% and %v (the kernel release). It returns false for other specifiers, which
// depend on the machine's identity.
func specifiers(s string, release func() string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '%':
			b.WriteByte('%')
		case 'v':
			v := release()
			if v == "" {
				return s, false
			}
			b.WriteString(v)
		default:
			return s, false
		}
	}
	return b.String(), true
}

// cUnescape decodes C escapes (src/basic/escape.c cunescape).
func cUnescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return s, false
		}
		const from, to = `abfnrtv\"'s`, "\a\b\f\n\r\t\v\\\"' "
		if k := strings.IndexByte(from, s[i]); k >= 0 {
			b.WriteByte(to[k])
			continue
		}
		digits, base := 3, 8
		if s[i] == 'x' {
			i, digits, base = i+1, 2, 16
		}
		if i+digits > len(s) {
			return s, false
		}
		c, err := strconv.ParseUint(s[i:i+digits], base, 8)
		if err != nil || c == 0 {
			return s, false
		}
		b.WriteByte(byte(c))
		i += digits - 1
	}
	return b.String(), true
}
