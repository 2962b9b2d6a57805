package recommend

import (
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/table"
	"fettle.dev/fettle/internal/profile"
)

// strangers are the sections of a profile that no plug-in is for, and the options that
// their plug-in does not have: what an agent would find out on each node. They are left
// out there, and the rest of the profile applies. A section that is switched off asks for
// nothing.
func strangers(c copyOf, sections []profile.Section) (notes []Note) {
	for i := range sections {
		s := &sections[i]
		if s.Name == "main" || s.Type == "variables" || !s.Enabled {
			continue
		}
		p, ok := plugin.Find(table.All, s.Type)
		if !ok {
			at := s.Pos
			if t := s.Line("type"); t != nil {
				at = t.Pos
			}
			notes = append(notes, c.line(UnknownPlugin, at, plugin.UnknownType(table.All, &profile.Unit{Type: s.Type}).Text))
			continue
		}
		for _, l := range s.Options() {
			if _, ok := p.Option(l.Name); !ok {
				notes = append(notes, c.line(UnknownOption, l.Pos, p.UnknownOption(profile.Option{Name: l.Name}).Text))
			}
		}
	}
	return notes
}

// line is a note on a line of the profile.
func (c copyOf) line(reason Reason, at profile.Pos, text string) Note {
	return c.note(reason, at.Line, "profile %s, line %d: %s", c.Name, at.Line, text)
}
