package text

import "testing"

func TestFault(t *testing.T) {
	for _, tt := range []struct {
		text string
		line int
		what string
	}{
		{"", 0, ""},
		{"a: ü\t1\r\nb: \u0085\u2028€\n", 0, ""},
		{"a: 1\nb: \x00\n", 2, "control character 0x00; not a text file?"},
		{"\x7fELF\x02", 1, "control character 0x7f; not a text file?"},
		{"a\n\n\xff\xfe", 3, "invalid UTF-8 byte 0xff; not a text file?"},
		{"\ufffd", 0, ""}, // the character itself, not a decoding error
	} {
		if line, what := FindInvalid([]byte(tt.text)); line != tt.line || what != tt.what {
			t.Errorf("%q: %d %s, want %d %s", tt.text, line, what, tt.line, tt.what)
		}
	}
}
