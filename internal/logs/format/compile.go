package format

import "strings"

// piece is a part of a server's format: text that stands as it is, or a field.
type piece struct {
	lit   string
	field *Field
	at    int // in the format's text
}

// compile makes the steps of a format from its pieces.
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
				// Path and query follow each other in both languages: together they are
				// a URL, and no other two fields may.
				if last.field.Name == FieldPath && p.field.Name == FieldQuery {
					last.field = &Field{Name: FieldURL, Asked: last.field.Asked + p.field.Asked, Kind: URL}
					continue
				}
				if last.field.Name == FieldURL && p.field.Name == FieldQuery {
					last.field.Asked += p.field.Asked
					continue
				}
				if p.field.Kind == URL { // a host before a path, which begins with /
					joined = append(joined, piece{lit: "/", at: -1}, p)
					continue
				}
				return nil, refuse(what, text, p.at, "nothing stands between "+last.field.Asked+" and "+p.field.Asked+", so where one ends cannot be told")
			}
		}
		joined = append(joined, p)
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
		// The same value twice (%s and %>s): the last of a name has it.
		for seen[p.field.Name] {
			p.field.Name += "_2"
		}
		seen[p.field.Name] = true
		s := step{field: len(f.Fields), braced: p.field.Braced}
		f.Fields = append(f.Fields, *p.field)
		if i+1 < len(joined) {
			next := joined[i+1]
			s.lit, s.keep = []byte(next.lit), next.at == -1
			s.quoted = i > 0 && strings.HasSuffix(joined[i-1].lit, `"`) && strings.HasPrefix(next.lit, `"`)
		}
		s.compare()
		f.steps = append(f.steps, s)
	}
	if len(f.steps) == 0 {
		return nil, refuse(what, text, 0, "no field in it")
	}
	return f, nil
}

// name makes the name of a field from a header's or a variable's: X-Request-Id is
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
