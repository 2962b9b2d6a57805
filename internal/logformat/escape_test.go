package logformat

import "testing"

// TestUnescape: escapes as servers write them, and the bytes sent. Apache 2.4
// and nginx 1.22 wrote the first rows.
func TestUnescape(t *testing.T) {
	for _, c := range []struct {
		escape     Escape
		text, want string
	}{
		{Backslash, `a`, "a"},
		{Backslash, `\"\\\n\t\r\b\v`, "\"\\\n\t\r\b\v"},
		{Backslash, `\xc3\xa4\x7F`, "ä\x7f"},
		{Backslash, `\x22\x5C`, `"\`},
		{Backslash, `\x00`, `\x00`}, // kept, as a separator of keys
		{Backslash, `\x2`, `\x2`},
		{Backslash, `\xzz\q\`, `\xzz\q\`},
		{Backslash, `\u0041\/`, `\u0041\/`},
		{JSONString, `\"\\\/\n\t\r\b\f`, "\"\\/\n\t\r\b\f"},
		{JSONString, `\u00e4\ud83d\ude00`, "ä😀"},
		{JSONString, `\ud83d`, "\ufffd"},
		{JSONString, `\ud83d\u0041`, "\ufffdA"},
		{JSONString, `\u0000\u12`, `\u0000\u12`},
		{JSONString, `\x41`, `\x41`},
		{Hash, `/a#22#7Bb`, `/a"{b`},
		{Hash, `#2#zz#`, `#2#zz#`},
		{Brackets, `\"\]\\\n`, `"]\\n`},
		{Verbatim, `\"#22`, `\"#22`},
	} {
		if got := string(c.escape.Unescape([]byte(c.text))); got != c.want {
			t.Errorf("%d %s is %q, want %q", c.escape, c.text, got, c.want)
		}
	}
}
