package logformat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// sample holds the members and values of a log's first objects.
type sample struct {
	rows    []map[string]string // one for each object; nested members have names with dots
	members map[string][]string // values of each member in row order
}

// maxMembers limits the number of member names.
const maxMembers = 100

func sampleOf(lines [][]byte) *sample {
	s := &sample{}
	names := map[string]bool{}
	for _, line := range lines {
		if row, ok := membersOf(line, names); ok {
			s.rows = append(s.rows, row)
		}
	}
	s.index(func(map[string]string) bool { return true })
	return s
}

// index collects the values of the selected rows.
func (s *sample) index(of func(row map[string]string) bool) {
	s.members = map[string][]string{}
	for _, row := range s.rows {
		if of(row) {
			for member, value := range row {
				s.members[member] = append(s.members[member], value)
			}
		}
	}
}

// requests removes rows that are not requests: rows that the product does not write for
// requests, or rows without a request or URL. If no row remains, it keeps all rows.
func (s *sample) requests(p *jsonProduct) {
	asks := func(row map[string]string) bool {
		if p != nil && len(p.required) > 0 {
			return p.has(row)
		}
		for member, value := range row {
			switch n := normal(member); {
			case slices.Contains(roleOf(FieldRequest).names, n) && isRequest(value), slices.Contains(roleOf(FieldURL).names, n) && isURL(value):
				return true
			}
		}
		return false
	}
	if slices.ContainsFunc(s.rows, asks) {
		s.index(asks)
	}
}

// has reports whether an object is a request of the product.
func (p *jsonProduct) has(row map[string]string) bool {
	for _, group := range p.requiredGroups() {
		if !slices.ContainsFunc(group, func(member string) bool { value, is := row[member]; return is && value != "-" }) {
			return false
		}
	}
	logger, is := row[p.logger]
	return !is || len(logger) >= len(p.prefix) && logger[:len(p.prefix)] == p.prefix
}

// membersDiffer reports whether two members have different values in any row.
func (s *sample) membersDiffer(a, b string) bool {
	return slices.ContainsFunc(s.rows, func(row map[string]string) bool {
		x, is1 := row[a]
		y, is2 := row[b]
		return is1 && is2 && x != y
	})
}

func (s *sample) list() []string { return slices.Sorted(maps.Keys(s.members)) }

// membersOf returns the members of an object. It adds their names to names, at most maxMembers
// in total.
func membersOf(line []byte, names map[string]bool) (map[string]string, bool) {
	line = bytes.TrimLeft(bytes.TrimPrefix(line, byteOrder), " \t")
	if len(line) == 0 || line[0] != '{' {
		return nil, false
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return nil, false
	}
	row := map[string]string{}
	var walk func(prefix string, o map[string]any, deep int)
	walk = func(prefix string, o map[string]any, deep int) {
		for _, name := range slices.Sorted(maps.Keys(o)) {
			switch v := o[name].(type) {
			case map[string]any:
				if deep > 0 {
					walk(prefix+name+".", v, deep-1)
				}
			case nil, []any:
			default:
				name = prefix + name
				if !names[name] && len(names) >= maxMembers {
					continue
				}
				names[name] = true
				row[name] = fmt.Sprint(v)
			}
		}
	}
	walk("", object, 4)
	return row, true
}
