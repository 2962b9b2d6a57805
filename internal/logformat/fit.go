package logformat

import (
	"fmt"
	"strings"
)

// fit is a candidate that reads lines of a log.
type fit struct {
	candidate
	f        *Format
	wrap     int // of wraps
	read     int // lines, also those that are not requests
	rows     []row
	strength int // proven by the lines, plain, or a guess
}

// better reports whether a candidate is preferred to another.
func (a fit) better(b fit) bool {
	if a.read != b.read {
		return a.read > b.read
	}
	return a.strength > b.strength
}

// chosen is the format of a fit, with why.
func (a fit) chosen(lines int) *Format {
	a.f.Name, a.f.Text = a.name, a.text
	a.f.Why = fmt.Sprintf("%d of the first %d lines are so", a.read, lines)
	if a.reason != "" {
		a.f.Why += "; " + a.reason
	}
	a.f.wrappedBy(a.wrap)
	if a.f.Guessed = a.guess; a.guess != "" {
		a.f.Why += "; guessed: " + a.guess
	}
	return a.f
}

// fits are the candidates that read lines.
func fits(lines [][]byte) []fit {
	var out []fit
	list := candidates()
	for _, line := range spreadSample(lines, 4) {
		if more := apacheTails(line); more != nil {
			list = append(list, more...)
			break
		}
		if c, ok := nginxTail(line); ok {
			list = append(list, c)
			break
		}
	}
	few := spreadSample(lines, 16)
	for _, c := range list {
		f, err := Parse(c.text)
		if err != nil {
			panic("format: candidate " + c.text + ": " + err.Error()) // TestCandidates
		}
		f.wrap = nil
		if n, _ := f.reads(few); n == 0 && !f.joined {
			continue
		}
		read, rows := f.reads(lines)
		if len(rows) == 0 && !f.joined {
			continue
		}
		found := fit{candidate: c, f: f, read: read, rows: rows, strength: 1}
		if f.joined && len(rows) == 0 && !f.begins(lines) {
			continue
		}
		if !found.plausibleClients() {
			continue
		}
		if c.evidence != nil {
			switch c.evidence(rows) {
			case against:
				continue
			case proven:
				found.strength = 2
			}
		}
		if found.guess != "" {
			found.strength = 0
		}
		out = append(out, found)
	}
	return out
}

// spreadSample is n lines of all parts of lines.
func spreadSample(lines [][]byte, n int) [][]byte {
	if len(lines) <= n {
		return lines
	}
	var out [][]byte
	for i := range n {
		out = append(out, lines[i*len(lines)/n])
	}
	return out
}

// begins reports whether requests of several lines begin in lines, whose end may be
// further on.
func (f *Format) begins(lines [][]byte) bool {
	spans := make([]Span, len(f.Fields))
	j := f.Joiner()
	for _, line := range lines {
		j.Add(line, spans)
	}
	return j.Open() > 0
}

// plausibleClients looks at who the requests come from: a host name is a guess, since a virtual
// host looks the same, and needs an identity of - behind it. No address at all, and the
// field is another.
func (a *fit) plausibleClients() bool {
	i := a.f.Field(FieldClient)
	if i < 0 || a.f.Fields[i].Kind != Address {
		return true
	}
	addresses, names := 0, 0
	for _, r := range a.rows {
		switch text := r.text(FieldClient); {
		case isAddress(text) || string(text) == "unix:" || string(text) == "unix":
			addresses++
		case string(text) != "-":
			if ident := r.text("ident"); ident != nil && string(ident) != "-" || strings.Contains(string(r.text(FieldUser)), " ") {
				return false
			}
			names++
		}
	}
	if names > 0 && a.guess == "" {
		a.guess = "that the first word is the client's host name, not a virtual host"
	}
	return addresses+names > 0 || len(a.rows) == 0
}

// reads is how many lines are of the format, and those of them that are requests.
func (f *Format) reads(lines [][]byte) (n int, rows []row) {
	j := f.Joiner()
	for at, line := range lines {
		spans := make([]Span, len(f.Fields))
		var l LineKind
		text := line
		if f.joined {
			text, l = j.Add(line, spans)
		} else {
			l = f.Scan(line, spans)
		}
		if l == RequestLine && !f.plausible(text, spans) && (f.Rescan(text, spans) != RequestLine || !f.plausible(text, spans)) {
			l = BadLine
		}
		if l != BadLine {
			n++
		}
		if l == RequestLine {
			rows = append(rows, row{f, text, spans, at})
		}
	}
	if f.joined {
		f.zone, f.NoZone = j.zone, j.zone == ""
	}
	return n, rows
}

// conflict is why fits that read as much cannot be distinguished, or nil where they say the
// same of all lines.
func conflict(best []fit) error {
	for _, other := range best[1:] {
		if other.wrap != best[0].wrap {
			continue
		}
		a, b, shared := differ(&best[0], &other)
		what := fmt.Sprintf("%d formats read the same lines, and a value may be %s or %s", len(best), a, b)
		switch {
		case !shared:
			what = fmt.Sprintf("%d formats read %d of the first lines each, and not the same ones", len(best), best[0].read)
		case a == "":
			continue
		}
		err := &AmbiguousError{What: "its format is not certain: " + what}
		for _, c := range best {
			what := c.name
			if d := c.f.Field(FieldDuration); d >= 0 {
				what += ": " + c.f.Fields[d].Source + " in " + UnitName(c.f.Fields[d].Unit)
			}
			err.Choices = append(err.Choices, Choice{c.text, what})
		}
		return err
	}
	return nil
}

// differ is what two fits say of a value, where they do not say the same, and whether there
// is a request that both read.
func differ(a, b *fit) (p, q string, shared bool) {
	i, j := 0, 0
	for i < len(a.rows) && j < len(b.rows) {
		x, y := a.rows[i], b.rows[j]
		switch {
		case x.at < y.at:
			i++
			continue
		case x.at > y.at:
			j++
			continue
		}
		i, j, shared = i+1, j+1, true
		for k := range x.spans {
			for l := range y.spans {
				s, t := x.spans[k], y.spans[l]
				if s.Start >= t.End || t.Start >= s.End {
					continue
				}
				if p, q := x.f.Fields[k].role(), y.f.Fields[l].role(); p != q {
					return p, q, true
				}
			}
		}
	}
	return "", "", shared || len(a.rows) == 0 || len(b.rows) == 0
}

// role is what a field is, with its unit, for comparison and for a reader.
func (f *Field) role() string {
	if f.Kind == Duration {
		return f.Name + " in " + UnitName(f.Unit)
	}
	return f.Name
}
