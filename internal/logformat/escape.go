package logformat

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape is how a server escapes bytes that are not printable or would end a value.
type Escape uint8

// Escapes.
const (
	// Verbatim means no escapes: logback-access, Rails, nginx' escape=none.
	Verbatim Escape = iota
	// Backslash is \" \\ \n \xhh, as in Apache httpd since 2.0.49
	// (ap_escape_logitem) and nginx (only \xHH, ngx_http_log_escape).
	Backslash
	// JSONString is \" \\ \/ \n \u00e4, as in JSON (RFC 8259, section 7).
	JSONString
	// Hash is #XX, as in requests and captured headers of HAProxy (configuration manual, 8.6).
	Hash
	// Brackets is a backslash before ", \ and ], as in HAProxy's +E.
	Brackets
)

// prefix returns the first byte of an escape, or 0 for Verbatim.
func (e Escape) prefix() byte {
	switch e {
	case Backslash, JSONString, Brackets:
		return '\\'
	case Hash:
		return '#'
	}
	return 0
}

// MayHaveEscapes reports whether a line may contain escaped values. Most lines contain none.
func (f *Format) MayHaveEscapes(line []byte) bool {
	return f.backslash && bytes.IndexByte(line, '\\') >= 0 || f.hash && bytes.IndexByte(line, '#') >= 0
}

// Unescape returns the value as the client sent it. It returns text itself if nothing is
// escaped. It keeps invalid escapes and escapes of zero bytes, because group keys use zero
// bytes as separators.
func (e Escape) Unescape(text []byte) []byte {
	mark := e.prefix()
	if mark == 0 {
		return text
	}
	at := bytes.IndexByte(text, mark)
	if at < 0 {
		return text
	}
	out := append(make([]byte, 0, len(text)), text[:at]...)
	for at < len(text) {
		if text[at] == mark {
			if n, size := e.undo(text[at:], &out); n {
				at += size
				continue
			}
		}
		out = append(out, text[at])
		at++
	}
	return out
}

// undo decodes the escape at the beginning of text and appends the result to out. size is the
// length of the escape; ok is false if it is invalid.
func (e Escape) undo(text []byte, out *[]byte) (ok bool, size int) {
	if e == Hash {
		if b, ok := hexByte(text, 1); ok {
			*out = append(*out, b)
			return true, 3
		}
		return false, 0
	}
	if len(text) < 2 {
		return false, 0
	}
	c := text[1]
	if e == Brackets {
		if c != '"' && c != '\\' && c != ']' {
			return false, 0
		}
		*out = append(*out, c)
		return true, 2
	}
	if i := bytes.IndexByte([]byte(`"\nrtbf`), c); i >= 0 {
		*out = append(*out, "\"\\\n\r\t\b\f"[i])
		return true, 2
	}
	switch {
	case e == Backslash && c == 'v':
		*out = append(*out, '\v')
		return true, 2
	case e == Backslash && c == 'x':
		if b, ok := hexByte(text, 2); ok {
			*out = append(*out, b)
			return true, 4
		}
	case e == JSONString && c == '/':
		*out = append(*out, '/')
		return true, 2
	case e == JSONString && c == 'u':
		r, ok := hexRune(text)
		if !ok {
			return false, 0
		}
		if low, ok := hexRune(text[6:]); ok && utf16.IsSurrogate(r) {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				*out = utf8.AppendRune(*out, both)
				return true, 12
			}
		}
		*out = utf8.AppendRune(*out, r) // an unpaired surrogate becomes U+FFFD
		return true, 6
	}
	return false, 0
}

// hexByte decodes two hexadecimal digits at i. It returns false for zero and for other
// characters.
func hexByte(text []byte, i int) (byte, bool) {
	if len(text) < i+2 {
		return 0, false
	}
	high, ok1 := hexDigit(text[i])
	low, ok2 := hexDigit(text[i+1])
	return high<<4 | low, ok1 && ok2 && high|low != 0
}

// hexRune decodes \uhhhh. It returns false for zero and for other characters.
func hexRune(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	r := rune(0)
	for _, c := range text[2:6] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, r != 0
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return (c | 0x20) - 'a' + 10, true
	}
	return 0, false
}
