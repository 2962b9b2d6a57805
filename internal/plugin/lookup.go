package plugin

import (
	"fmt"

	"fettle.dev/fettle/internal/profile"
)

// Find returns the plug-in of a section type.
func Find(table []Plugin, name string) (*Plugin, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

// Option returns what the plug-in knows of an option.
func (p *Plugin) Option(name string) (Option, bool) {
	for _, o := range p.Options {
		if o.Name == name {
			return o, true
		}
	}
	if p.Free != nil {
		return p.Free(name)
	}
	return Option{}, false
}

// UnknownType says that no plug-in has the unit's type. In an installed profile
// that is a warning and the other units apply, as in TuneD.
func UnknownType(table []Plugin, u *profile.Unit) Problem {
	names := make([]string, len(table))
	for i, p := range table {
		names[i] = p.Name
	}
	return Problem{u.At("type"), fmt.Sprintf("unknown plug-in %q%s", u.Type, Suggest(u.Type, names))}
}

// UnknownOption says that the plug-in has no such option. In an installed
// profile that is a warning and the other options apply, as in TuneD.
func (p *Plugin) UnknownOption(o profile.Option) Problem {
	names := make([]string, len(p.Options))
	for i, known := range p.Options {
		names[i] = known.Name
	}
	return Problem{o.Pos, fmt.Sprintf("unknown option %q of [%s]%s", o.Name, p.Name, Suggest(o.Name, names))}
}

// Suggest is ` (did you mean "x"?)` for the nearest of the known words, or
// empty where none is near: at most a third of the word, and at most three
// letters, may differ.
func Suggest(word string, known []string) string {
	best, least := "", min(3, (len(word)+2)/3)+1
	for _, k := range known {
		if d := editDistance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// editDistance is the number of letters to insert, delete or replace
// (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(d, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
