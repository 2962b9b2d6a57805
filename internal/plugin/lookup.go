package plugin

import (
	"fmt"

	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/spell"
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
	return Problem{u.At("type"), fmt.Sprintf("unknown plug-in %q%s", u.Type, spell.Suggest(u.Type, names))}
}

// UnknownOption says that the plug-in has no such option. In an installed
// profile that is a warning and the other options apply, as in TuneD.
func (p *Plugin) UnknownOption(o profile.Option) Problem {
	names := make([]string, len(p.Options))
	for i, known := range p.Options {
		names[i] = known.Name
	}
	return Problem{o.Pos, fmt.Sprintf("unknown option %q of [%s]%s", o.Name, p.Name, spell.Suggest(o.Name, names))}
}
