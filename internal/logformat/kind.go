package logformat

import "bytes"

// Kind is the type of a field. Field.Fits defines which texts are valid for each kind.
// Detection, reading and backtracking use it.
type Kind uint8

// Kinds of fields.
const (
	Text     Kind = iota
	Time          // in the field's Layout
	Duration      // a number of Unit nanoseconds; - and negative values mean absent
	Number        // a count; - means absent
	Request       // METHOD URL PROTOCOL, as the client sent it
	URL           // path and query
	Address       // an IP address, or a host name if Names allows it; - means absent
	Ident         // a user from identd: a word other than an IP address, usually -
	Word          // text without blanks and quotes
	Host          // a server name or address without a port
)

// Fits reports whether a text is valid for the field.
func (f *Field) Fits(text []byte) bool {
	if len(text) > f.maxLength() || f.strict && bareQuote(text, f.Escape) {
		return false
	}
	switch f.Kind {
	case Duration:
		if f.List {
			return f.list(text) == len(text)
		}
		_, ok := f.Duration(text)
		return ok || Absent(text)
	case Number:
		if f.List {
			return f.list(text) == len(text)
		}
		n, ok := Int(bytes.TrimPrefix(text, []byte("+"))) // HAProxy's logasap
		if f.Name == FieldStatus {
			return ok && status(n, len(text)) || Absent(text)
		}
		return ok || Absent(text)
	case Time:
		_, ok := f.Time(text, nil)
		return ok
	case Address:
		return f.address(text)
	case Ident:
		return string(text) == "-" || len(text) > 0 && bytes.IndexByte(text, ' ') < 0 && !isAddress(text)
	case Host:
		return len(text) > 0 && plainWord(text) || isAddress(text)
	case Word:
		return len(text) > 0 && !bytes.ContainsAny(text, " \"")
	}
	return true
}

// list returns the length of the list of numbers at the beginning of a text. nginx separates
// servers by ", " and groups by " : ". Blanks separate the parts of a Sum.
func (f *Field) list(text []byte) int {
	text = text[:min(len(text), maxList)]
	for at, whole := 0, 0; ; {
		n, point := at, false
		for n < len(text) && (text[n]-'0' <= 9 || text[n] == '.' && n > at && !point || text[n] == '-' && n == at) {
			point = point || text[n] == '.'
			n++
		}
		if n == at {
			return whole
		}
		whole = n
		switch rest := text[n:]; {
		case f.Sum && bytes.HasPrefix(rest, []byte(" ")):
			at = n + 1
		case bytes.HasPrefix(rest, []byte(", ")):
			at = n + 2
		case bytes.HasPrefix(rest, []byte(" : ")):
			at = n + 3
		default:
			return whole
		}
	}
}

// Absent reports whether a text stands for a missing number: -, empty, or negative (HAProxy's
// -1 for a phase that was not reached).
func Absent(text []byte) bool {
	return len(text) == 0 || text[0] == '-' && number(text[1:])
}

// status reports whether a number with this many digits is a status: 100 to 999, or 0. nginx
// writes 000 and 009 without a response.
func status(n int64, digits int) bool {
	return n <= 999 && (digits == 3 || n == 0)
}

// bareQuote reports whether a text has an unescaped quote although the server escapes quotes.
func bareQuote(text []byte, e Escape) bool {
	for at := 0; ; at++ {
		n := bytes.IndexByte(text[at:], '"')
		if n < 0 {
			return false
		}
		if at += n; e.prefix() != '\\' || !escaped(text, at) {
			return true
		}
	}
}

// number reports whether a text consists of digits and points only.
func number(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// matchesAnything reports whether every text is valid for the field.
func (f *Field) matchesAnything() bool {
	return !f.strict && (f.Kind == Text || f.Kind == Request || f.Kind == URL)
}

// checked reports whether the field is checked after a line was split. Times and durations are
// checked when their values are parsed.
func (f *Field) checked() bool {
	switch f.Kind {
	case Text, Request, URL:
		return false // a strict field ends at the first quote
	}
	return f.Name != FieldTime && f.Name != FieldDuration
}

// check adds field i to the fields checked after splitting.
func (f *Format) check(i int) {
	if f.Fields[i].Kind == Address {
		f.addresses = append(f.addresses, i)
	}
	f.checks = append(f.checks, check{i, f.Fields[i].Kind, f.Fields[i].Name == FieldStatus})
}

// maxAddress is the maximum length of a host name (RFC 1035, 2.3.4). maxShort is that of other
// limited kinds, and maxList that of lists. All are in bytes.
const (
	maxAddress = 255
	maxShort   = 40
	maxList    = 512
)

// maxLength returns the maximum length of the field's text, in bytes.
func (f *Field) maxLength() int {
	switch {
	case f.List:
		return maxList
	case f.Kind == Text || f.Kind == Request || f.Kind == URL:
		return MaxLine
	case f.Kind == Address || f.Kind == Ident || f.Kind == Host:
		return maxAddress
	case f.Kind == Word:
		return MaxLine
	case f.Layout == Strftime:
		return f.pattern.width
	}
	return maxShort
}

// address reports whether a text is a client address: an IP address, the name for a Unix
// socket in nginx (unix:) and HAProxy (unix), or a host name if Names is set.
func (f *Field) address(text []byte) bool {
	if ipv4(text) || string(text) == "-" || ipv6(text) {
		return true
	}
	return f.Names && hostName(text) || string(text) == "unix:" || string(text) == "unix"
}

func isAddress(text []byte) bool { return ipv4(text) || ipv6(text) }

func ipv4(text []byte) bool {
	if len(text) < len("0.0.0.0") || len(text) > len("255.255.255.255") {
		return false
	}
	dots, n, digits := 0, uint(0), 0
	for _, c := range text {
		if d := c - '0'; d <= 9 {
			if n, digits = n*10+uint(d), digits+1; n > 255 {
				return false
			}
		} else if c == '.' && digits > 0 {
			dots, n, digits = dots+1, 0, 0
		} else {
			return false
		}
	}
	return dots == 3 && digits > 0
}

// ipv6 reports whether a text is an IPv6 address (RFC 4291, 2.2), optionally in
// brackets, with a zone, or with an IPv4 address at its end.
func ipv6(text []byte) bool {
	if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' {
		text = text[1 : n-1]
	}
	if len(text) < len("::") || len(text) > 100 || bytes.IndexByte(text, ':') < 0 {
		return false
	}
	if n := bytes.IndexByte(text, '%'); n > 0 {
		if n == len(text)-1 || bytes.ContainsAny(text[n:], " \"") {
			return false
		}
		text = text[:n]
	}
	groups, gap := 0, false
	for i := 0; ; {
		if i+1 < len(text) && text[i] == ':' && text[i+1] == ':' {
			if gap {
				return false
			}
			gap = true
			if i += 2; i == len(text) {
				break
			}
		} else if groups > 0 {
			if i >= len(text) || text[i] != ':' {
				return false
			}
			i++
		}
		from := i
		for i < len(text) && i-from < 5 {
			if _, ok := hexDigit(text[i]); !ok {
				break
			}
			i++
		}
		if i < len(text) && text[i] == '.' {
			return ipv4(text[from:]) && (groups == 6 || gap && groups < 6)
		}
		if i == from || i-from > 4 {
			return false
		}
		if groups++; i == len(text) || groups > 8 {
			break
		}
	}
	return groups == 8 && !gap || gap && groups < 8
}

// hostName reports whether a text is a host name as a lookup returns it: letters, digits, -
// and _, with at least one dot and one letter. Single words other than localhost are excluded,
// because prefixes of other programs begin with such words.
func hostName(text []byte) bool {
	if len(text) == 0 || len(text) > maxAddress || text[0] == '.' || text[0] == '-' {
		return false
	}
	letter, point := false, string(text) == "localhost"
	for _, c := range text {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letter = true
		case c == '.':
			point = true
		case c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return letter && point
}
