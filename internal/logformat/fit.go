package logformat

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// fit is a candidate that matches lines of a log, with its rating.
type fit struct {
	candidate
	f        *Format
	wrap     int // index in wraps
	read     int // matching lines, including those that are not requests
	rows     []row
	strength int // 2 proven by the lines, 1 plain, 0 a guess
}

// better reports whether fit a is preferred to fit b.
func (a fit) better(b fit) bool {
	if a.read != b.read {
		return a.read > b.read
	}
	return a.strength > b.strength
}

// ofFirst describes some of the first lines with a verb: "90 of the first 100 lines are", "the only
// line is".
func ofFirst(n, lines int, one, many string) string {
	if lines == 1 {
		return "the only line" + one
	}
	return text.Sprintf("%d of the first %d lines", n, lines) + many
}

// chosen returns the format of a fit, with the reason for choosing it.
func (a fit) chosen(lines int) *Format {
	a.f.Name, a.f.Text = a.name, a.text
	a.f.Why = "matches " + ofFirst(a.read, lines, "", "")
	if a.reason != "" {
		a.f.Why += "; " + a.reason
	}
	a.f.wrappedBy(a.wrap)
	if a.f.Guessed = a.guess; a.guess != "" {
		a.f.Why += "; guessed: " + a.guess
	}
	return a.f
}

// fits returns the candidates that match lines.
func fits(lines [][]byte) []fit {
	var out []fit
	few := spreadSample(lines, 16)
	list := candidates(few)
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
	for _, c := range list {
		f := parseCandidate(c.text)
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

// readsAny reports whether the format of a candidate matches any of the lines.
func readsAny(text string, lines [][]byte) bool {
	n, _ := parseCandidate(text).reads(lines)
	return n > 0
}

func parseCandidate(text string) *Format {
	f, err := Parse(text)
	if err != nil {
		panic("format: candidate " + text + ": " + err.Error()) // FuzzScan and FuzzCandidates prevent this
	}
	f.wrap = nil
	return f
}

// spreadSample returns up to n lines, evenly spread.
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

// begins reports whether lines contain the beginning of a multi-line request, which may end
// later.
func (f *Format) begins(lines [][]byte) bool {
	spans := make([]Span, len(f.Fields))
	j := f.Joiner()
	for _, line := range lines {
		j.Add(line, spans)
	}
	return j.Open() > 0
}

// plausibleClients checks the clients. If one is a host name, the format is a guess, because a
// virtual host looks the same; the identity must then be -. Without any address or name, the
// field is not the client.
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

// reads returns the number of lines that match the format, and the requests among them.
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

// conflict returns an error if equally good fits read a line differently, or nil.
func conflict(best []fit) error {
	for _, other := range best[1:] {
		if other.wrap != best[0].wrap {
			continue
		}
		a, b, shared := differ(&best[0], &other)
		what := fmt.Sprintf("%d formats match these lines; one reads a value as %s, another as %s", len(best), a, b)
		switch {
		case !shared:
			what = fmt.Sprintf("%d formats each match %d of the first lines, but not the same ones", len(best), best[0].read)
		case a == "":
			continue
		}
		err := &AmbiguousError{What: "ambiguous log format: " + what}
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

// differ returns two meanings of a value if two fits disagree about it. shared reports whether
// both match the same request.
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

// role returns the meaning of a field with its unit, for comparison and messages.
func (f *Field) role() string {
	if f.Kind == Duration {
		return f.Name + " in " + UnitName(f.Unit)
	}
	return f.Name
}
