package profile

import (
	"slices"
	"strings"
)

// Section is one section of a profile's file as written: without includes, merging or expansion.
// Lines includes the lines of [DEFAULT].
type Section struct {
	Name string
	// Type is "main", "variables", or the plug-in (the value of type=, else the name).
	Type string
	// Enabled is false if the section disables itself.
	Enabled bool
	Lines   []Line
	Pos     Pos
}

// Line is one name=value of a section.
type Line struct {
	Name, Value string
	Pos         Pos
}

// Line returns the line with that name, or nil.
func (s *Section) Line(name string) *Line {
	for i := range s.Lines {
		if s.Lines[i].Name == name {
			return &s.Lines[i]
		}
	}
	return nil
}

// Options returns the lines for the section's plug-in. It omits the attributes of every unit, such
// as type, enabled and devices.
func (s *Section) Options() []Line {
	attributes := new(rawUnit).attributes()
	return slices.DeleteFunc(slices.Clone(s.Lines), func(l Line) bool { return attributes[l.Name] != nil })
}

// Sections parses a tuned.conf without loading it, to check what a profile may do before it is
// applied. If a name repeats, the last line counts. The error names each invalid line.
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

// SplitList splits the value of include= into names, as a Loader does. A profile whose name begins
// with "-" may be missing.
func SplitList(value string) []string { return splitList(value, false) }

// Reference is a variable or function call in an unexpanded text.
type Reference struct {
	// Text is the whole reference, "${name}" or "${f:name:arg}". Start is its byte offset.
	Text  string
	Start int
	// Name is the name of the variable, or of the function if Call is true.
	Name string
	Call bool
	// Args are a call's arguments as written, with references and escaped colons.
	Args []string
	// Depth is the number of enclosing references.
	Depth int
	// Escaped is true if a backslash precedes it.
	Escaped bool
}

// Text holds the references of a text. If Loose is empty for the text and for all its variables'
// values, the text calls only the functions in Refs.
type Text struct {
	// Refs are in order of evaluation, inner ones first.
	Refs []Reference
	// Loose lists offsets of text that could become part of a reference after expansion: a "${"
	// that is not closed or has no literal name, a "}" without "${", a single "$".
	Loose []int
}

// References returns the references in a text, without evaluating them.
func References(text string) Text {
	r := references{text: text}
	for r.at < len(text) {
		r.next(0)
	}
	return r.found
}

type references struct {
	text  string
	at    int
	found Text
}

// next advances past one character or one reference.
func (r *references) next(depth int) {
	rest := r.text[r.at:]
	switch {
	case strings.HasPrefix(rest, "${"):
		r.reference(depth)
	case rest[0] == '$' || rest[0] == '}':
		r.loose(r.at)
		r.at++
	default:
		r.at++
	}
}

func (r *references) loose(at int) { r.found.Loose = append(r.found.Loose, at) }

// reference parses from a "${" to its "}", including the references inside.
func (r *references) reference(depth int) {
	start := r.at
	ref := Reference{Start: start, Depth: depth, Escaped: start > 0 && r.text[start-1] == '\\'}
	r.at += len("${")
	if depth >= maxCallDepth {
		r.loose(start)
		return
	}
	inside := r.at
	var colons []int // positions of the colons between arguments
	for r.at < len(r.text) && r.text[r.at] != '}' {
		if r.text[r.at] == ':' && r.text[r.at-1] != '\\' {
			colons = append(colons, r.at)
		}
		r.next(depth + 1)
	}
	if r.at == len(r.text) {
		r.loose(start)
		return
	}
	end := r.at
	r.at++
	ref.Text = r.text[start:r.at]
	var parts []string
	for _, c := range colons {
		parts = append(parts, r.text[inside:c])
		inside = c + 1
	}
	parts = append(parts, r.text[inside:end])
	switch {
	case len(parts) == 1 && isWord(parts[0]):
		ref.Name = parts[0]
	case len(parts) == 2 && parts[0] == "i" && parts[1] == "PROFILE_DIR":
		ref.Name = "i:PROFILE_DIR"
	case len(parts) > 1 && parts[0] == "f" && isWord(parts[1]):
		ref.Name, ref.Call, ref.Args = parts[1], true, parts[2:]
	default:
		r.loose(start)
		return
	}
	r.found.Refs = append(r.found.Refs, ref)
}
