package logformat

import "bytes"

// put records the position of a field. The date and the time of day of a pair become one span,
// with everything between them.
func (k *jsonScanner) put(spans []Span, field, from, to int) {
	s := span(from, to)
	if field == k.pair && spans[field].End > 0 {
		s.Start, s.End = min(s.Start, spans[field].Start), max(s.End, spans[field].End)
	}
	spans[field] = s
}

// request determines whether an object is a request, and trims the values of requests.
func (k *jsonScanner) request(line []byte, spans []Span) LineKind {
	for _, any := range k.required {
		some := false
		for _, field := range any {
			some = some || spans[field].End > 0 && !(k.dashCounts && string(spans[field].Of(line)) == "-")
		}
		if !some {
			return OtherLine
		}
	}
	if k.logger >= 0 && spans[k.logger].End > 0 && !bytes.HasPrefix(spans[k.logger].Of(line), k.prefix) {
		return OtherLine
	}
	if k.client >= 0 {
		spans[k.client] = withoutPort(line, spans[k.client])
	}
	if k.status >= 0 {
		s := count(line, spans[k.status])
		if n, ok := s.Int(); ok && (n > 999 || n > 0 && n < 100) {
			s.number = 0 // Fits decides
		}
		spans[k.status] = s
	}
	if k.bytes >= 0 {
		spans[k.bytes] = count(line, spans[k.bytes])
	}
	return RequestLine
}

// withoutPort removes the port and brackets of an address.
func withoutPort(line []byte, s Span) Span {
	text := s.Of(line)
	at := bytes.LastIndexByte(text, ':')
	if at < 0 {
		return s
	}
	if _, ok := Int(text[at+1:]); !ok {
		if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' {
			return span(int(s.Start)+1, int(s.End)-1)
		}
		return s
	}
	switch {
	case bytes.IndexByte(text, ':') == at: // 192.0.2.1:80
		return span(int(s.Start), int(s.Start)+at)
	case text[0] == '[' && text[at-1] == ']':
		return span(int(s.Start)+1, int(s.Start)+at-1)
	}
	return s // 2001:db8::1
}

// count removes the decimal point and the zeros of 200.0. For a number with an exponent it
// stores the parsed number.
func count(line []byte, s Span) Span {
	if s.number > 0 {
		return s
	}
	text := s.Of(line)
	for i, c := range text {
		if c -= '0'; c <= 9 {
			continue
		}
		if i > 0 && text[i] == '.' && len(bytes.Trim(text[i+1:], "0")) == 0 {
			return span(int(s.Start), int(s.Start)+i)
		}
		if n, ok := lenientInt(text); ok {
			s.number = n + 1
		}
		return s
	}
	return s
}
