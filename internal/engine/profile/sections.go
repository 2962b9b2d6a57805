package profile

import "slices"

// Section is one section of a profile's file as it is written: nothing is
// included, merged or expanded. What [DEFAULT] adds is among the lines.
type Section struct {
	Name string
	// Type is what the section is for: "main", "variables", or a plug-in (type=,
	// else the name).
	Type string
	// Enabled is false where the section says so itself.
	Enabled bool
	Lines   []Line
	Pos     Pos
}

// Line is one name=value of a section.
type Line struct {
	Name, Value string
	Pos         Pos
}

// Line returns the line of that name, or nil.
func (s *Section) Line(name string) *Line {
	for i := range s.Lines {
		if s.Lines[i].Name == name {
			return &s.Lines[i]
		}
	}
	return nil
}

// Options are the lines that the section's plug-in gets: those that are no attributes of
// every unit, such as type, enabled and devices.
func (s *Section) Options() []Line {
	attributes := new(rawUnit).attributes()
	return slices.DeleteFunc(slices.Clone(s.Lines), func(l Line) bool { return attributes[l.Name] != nil })
}

// Sections reads the text of a tuned.conf without loading it: for those who
// judge what a profile may do before anything of it is followed. Of a name given
// twice the last line holds. The error names each line that no profile can have.
func Sections(file string, data []byte) ([]Section, error) {
	conf, err := parseConfig(file, data, parseSyntax{})
	if err != nil {
		return nil, err
	}
	sections := make([]Section, 0, len(conf.sections))
	for _, s := range conf.sections {
		out := Section{Name: s.name, Type: s.name, Enabled: true, Pos: s.pos}
		for _, e := range conf.options(s) {
			out.Lines = append(out.Lines, Line{Name: e.key, Value: e.value, Pos: e.pos})
		}
		if s.name != mainSection {
			if t := out.Line("type"); t != nil {
				out.Type = t.Value
			}
			if e := out.Line("enabled"); e != nil {
				out.Enabled = isTrue(e.Value)
			}
		}
		sections = append(sections, out)
	}
	return sections, nil
}

// SplitList splits the value of include= into names, as a Loader does; a name
// that begins with "-" may be missing.
func SplitList(value string) []string { return splitList(value, false) }
