package logformat

import "strings"

// piece is a part of a server's format: literal text or a field.
type piece struct {
	lit   string
	field *Field
	at    int // offset in the format's text
}

// compile creates a format's steps from its pieces.
func compile(f *Format, what, text string, pieces []piece) (*Format, error) {
	f.Source = text
	joined := pieces[:0:0]
	for _, p := range pieces {
		if p.field == nil && p.lit == "" {
			continue
		}
		if n := len(joined); n > 0 {
			last := &joined[n-1]
			switch {
			case p.field == nil && last.field == nil:
				last.lit += p.lit
				continue
			case p.field != nil && last.field != nil:
				// Path and query may be adjacent in both languages, and form a URL. Other
				// fields may not be adjacent.
				if last.field.Name == FieldPath && p.field.Name == FieldQuery {
					last.field = &Field{Name: FieldURL, Source: last.field.Source + p.field.Source, Kind: URL, Escape: p.field.Escape}
					continue
				}
				if last.field.Name == FieldURL && p.field.Name == FieldQuery {
					last.field.Source += p.field.Source
					continue
				}
				if p.field.Kind == URL { // host before a path, which begins with /
					joined = append(joined, piece{lit: "/", at: -1}, p)
					continue
				}
				return nil, formatError(what, text, p.at, "no separator between "+last.field.Source+" and "+p.field.Source+", so the end of the first is ambiguous")
			}
		}
		joined = append(joined, p)
	}
	if !assignNames(joined) {
		return nil, formatError(what, text, 0, "the format contains no field")
	}
	seen := map[string]bool{}
	for i := 0; i < len(joined); i++ {
		p := joined[i]
		if p.field == nil {
			if i == 0 {
				f.prefix = []byte(p.lit)
			}
			continue
		}
		for seen[p.field.Name] {
			p.field.Name += "_2"
		}
		seen[p.field.Name] = true
		s := step{field: len(f.Fields), number: p.field.Kind == Number || p.field.Kind == Duration}
		if p.field.Braced {
			s.braced = '{'
			if p.field.quotes {
				s.braced = '"'
			}
		}
		f.Fields = append(f.Fields, *p.field)
		s.until(joined, i)
		last := &f.Fields[len(f.Fields)-1]
		s.prepare(p.field)
		if last.strict = s.strict; last.checked() {
			f.check(len(f.Fields) - 1)
			if s.quick.how != byDigits || last.Name == FieldStatus {
				f.unparsed = append(f.unparsed, f.checks[len(f.checks)-1])
			}
		}
		f.steps = append(f.steps, s)
		if n := len(f.Fields); n > 1 && p.field.Braced && f.Fields[n-2].Braced && p.field.quotes == f.Fields[n-2].quotes && f.lone == 0 {
			lone := Field{Name: "captured", Escape: p.field.Escape}
			for seen[lone.Name] {
				lone.Name += "_2"
			}
			seen[lone.Name] = true
			f.Fields = append(f.Fields, lone)
			f.lone = n
		}
		switch p.field.Escape.prefix() {
		case '\\':
			f.backslash = true
		case '#':
			f.hash = true
		}
		if p.field.Name == FieldTime {
			f.TimeIsEnd = f.TimeIsEnd || p.field.atEnd
			f.NoZone = p.field.Layout == CLFMilli || p.field.Layout == Strftime && p.field.pattern.lacksZone()
		}
	}
	return f, nil
}

// until sets the literal that ends field i.
func (s *step) until(joined []piece, i int) {
	if i+1 == len(joined) {
		return
	}
	field, next := joined[i].field, joined[i+1]
	s.lit, s.keep = []byte(next.lit), next.at == -1
	inQuotes := i > 0 && strings.HasSuffix(joined[i-1].lit, `"`) && strings.HasPrefix(next.lit, `"`)
	s.quoted = inQuotes && field.Escape.prefix() == '\\'
	s.strict = inQuotes && !field.Braced
	if next.lit == ":" && i+2 < len(joined) && joined[i+2].field.Kind == Number && !strings.HasPrefix(joined[i+2].field.Name, FieldStatus) {
		if s.port = []byte{}; i+3 < len(joined) {
			s.port = []byte(joined[i+3].lit)
		}
	}
}

// assignNames decides which of several fields with the same meaning gets the plain name: the
// final status (Apache's %>s before %s), the duration with the finest unit (%D before %T), the
// time with the finest resolution. It returns false if there are no fields.
func assignNames(pieces []piece) bool {
	var fields []*Field
	for _, p := range pieces {
		if p.field != nil {
			fields = append(fields, p.field)
		}
	}
	best := map[string]*Field{}
	better := func(a, b *Field) bool {
		switch {
		case a.atEnd != b.atEnd:
			return b.atEnd
		case a.Kind == Duration:
			return a.Unit < b.Unit
		case a.Kind == Time:
			return a.resolution() < b.resolution()
		}
		return false
	}
	for _, f := range fields {
		if b := best[f.Name]; b == nil || better(f, b) {
			best[f.Name] = f
		}
	}
	for from, to := range fallbackNames {
		if f := best[from]; f != nil && best[to] == nil {
			f.Name, best[to] = to, f
		}
	}
	for _, f := range fields {
		if best[f.Name] != f {
			f.Name += "_2"
		}
	}
	return len(fields) > 0
}

// fallbackNames maps fields to the fields that they replace if missing: Apache's status before
// an internal redirect, HAProxy's session duration.
var fallbackNames = map[string]string{"status_first": FieldStatus, "session_duration": FieldDuration}

// resolution returns the resolution of a time in nanoseconds.
func (f *Field) resolution() int64 {
	switch {
	case f.Layout == Unix:
		return min(f.Unit, 1e6) // with or without a fraction
	case f.Layout == CLFMilli:
		return 1e6
	case f.Layout == Strftime && f.pattern.has&hasFraction != 0:
		return 1e3
	case f.Layout == Strftime && f.pattern.has&(hasSecond|hasEpoch) == 0:
		return 60e9
	}
	return 1e9
}

// name converts the name of a header or variable to a field name: X-Request-Id becomes
// x_request_id.
func name(words ...string) string {
	s := strings.ToLower(strings.Join(words, "_"))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}
