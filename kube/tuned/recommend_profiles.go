package tuned

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/text"
)

// recommendText is the chosen text for a profile name.
type recommendText struct {
	TunedProfile
	// blocked is why no node can get the profile, or nil.
	blocked  *Note
	includes []include
	open     bool
	sections []profile.Section
}

// copyOf is a profile in an object.
type copyOf struct {
	object *Object
	index  int
	TunedProfile
}

func (c copyOf) note(reason Reason, line int, format string, args ...any) Note {
	return Note{
		Reason: reason, Object: c.object.Name, Path: fmt.Sprintf("spec.profile[%d]", c.index),
		Profile: c.Name, Line: line, Text: fmt.Sprintf(format, args...),
	}
}

// catalogue holds all profiles by name, from objects and built-in.
type catalogue struct {
	texts   map[string]*recommendText
	builtin map[string][]include
	allow   Allow
	read    []readCopy // in order of the profiles' names
}

// readCopy is a profile with its parsed sections.
type readCopy struct {
	copyOf
	sections []profile.Section
}

// newCatalogue chooses the text for each name. copies are in the order of the objects' names.
func newCatalogue(copies []copyOf, o Options) *catalogue {
	p := &catalogue{texts: map[string]*recommendText{}, builtin: builtinIncludes(o.Builtin), allow: o.Allow}
	byName := map[string][]copyOf{}
	for _, c := range copies {
		byName[c.Name] = append(byName[c.Name], c)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) { // the order of the notes
		p.texts[name] = p.choose(byName[name])
	}
	for _, c := range copies {
		if circle := p.circle(c.Name); circle != nil && p.texts[c.Name].Data == c.Data {
			c.add(c.note(IncludeCircle, 0, "profiles include each other in a circle: %s", strings.Join(circle, " includes ")))
		}
	}
	return p
}

// choose chooses among profiles of one name. The profile of the object default takes precedence,
// because other objects must not replace the operator's profiles. Among other objects it chooses
// none, and affected nodes keep their present profile: otherwise an edit of one object could change
// nodes that use another one.
func (p *catalogue) choose(same []copyOf) *recommendText {
	rivals := slices.DeleteFunc(slices.Clone(same), func(c copyOf) bool { return c.object.Name != DefaultName })
	owned := len(rivals) > 0
	if !owned {
		rivals = same
	}
	holds := rivals[0]
	conflict := slices.ContainsFunc(rivals, func(c copyOf) bool { return c.Data != holds.Data })
	for _, c := range same {
		switch rival := !owned || c.object.Name == DefaultName; {
		case rival && conflict:
			other := first(rivals, func(o copyOf) bool { return o.Data != c.Data })
			c.add(c.note(DuplicateProfile, 0, "profile %s is also in %s, with different content; nodes that would get it stay unchanged", c.Name, elsewhere(c, other)))
		case !rival && c.Data != holds.Data:
			c.add(c.note(DuplicateProfile, 0, "profile %s differs from the profile in Tuned %s, which applies", c.Name, DefaultName))
		case !rival || len(rivals) > 1:
			twin := first(rivals, func(o copyOf) bool { return o.object != c.object || o.index != c.index })
			c.add(c.note(SameProfile, 0, "profile %s is also in %s, with the same content", c.Name, elsewhere(c, twin)))
		}
	}
	t := &recommendText{TunedProfile: holds.TunedProfile}
	for _, c := range same {
		notes, sections := p.look(c)
		for _, n := range notes {
			c.add(n)
		}
		p.read = append(p.read, readCopy{c, sections})
		if c.Data != holds.Data {
			continue
		}
		if len(notes) > 0 && t.blocked == nil {
			t.blocked = &notes[0]
		}
		t.sections = sections
		for _, s := range sections {
			if i := s.Line("include"); s.Name == "main" && i != nil {
				t.includes, t.open = includes(i.Value)
			}
		}
	}
	if conflict {
		n := holds.note(DuplicateProfile, 0, "different profiles are named %s, in Tuned %s", holds.Name, owners(rivals))
		t.blocked = &n
	}
	return t
}

// first returns the first copy for which is returns true; one must exist.
func first(all []copyOf, is func(copyOf) bool) copyOf { return all[slices.IndexFunc(all, is)] }

func (c copyOf) add(n Note) { c.object.Notes = append(c.object.Notes, n) }

func elsewhere(c, other copyOf) string {
	if c.object == other.object {
		return fmt.Sprintf("this object (spec.profile[%d])", other.index)
	}
	return "Tuned " + other.object.Name
}

// owners returns the names of the profiles' objects, each once.
func owners(all []copyOf) string {
	var names []string
	for _, c := range all {
		if !slices.Contains(names, c.object.Name) {
			names = append(names, c.object.Name)
		}
	}
	return strings.Join(names, " and ")
}

// look checks a profile by itself, and returns notes and its sections.
func (p *catalogue) look(c copyOf) (notes []Note, sections []profile.Section) {
	if !ValidName(c.Name) {
		return []Note{c.note(InvalidProfile, 0, "%q is not a valid name of a profile: %v", c.Name, profile.ErrName)}, nil
	}
	sections, err := profile.Sections(c.Name, []byte(c.Data))
	if err != nil {
		var first *profile.Error
		if !errors.As(err, &first) {
			return []Note{c.note(UnreadableProfile, 0, "profile %s: %v", c.Name, err)}, nil
		}
		more := ""
		if all := (profile.Errors)(nil); errors.As(err, &all) {
			more = ", and " + text.Count(len(all)-1, "more mistake")
		}
		return []Note{c.note(UnreadableProfile, first.Pos.Line, "profile %s, line %d: %v%s", c.Name, first.Pos.Line, first.Err, more)}, nil
	}
	for _, r := range Check(c.Name, sections, p.allow) {
		notes = append(notes, c.note(RefusedProfile, r.Line, "%s", r.Reason("operator")))
	}
	return notes, sections
}

// ValidName reports whether a profile name is valid: it becomes a directory on the node, and must
// not begin with "-", which marks an optional include.
func ValidName(name string) bool {
	return profile.ValidName(name) && name[0] != '-' && strings.Trim(name, ".") != "" && len(name) <= 253
}

// builtinIncludes returns the includes of the built-in profiles by name.
func builtinIncludes(all fs.FS) map[string][]include {
	out := map[string][]include{}
	if all == nil {
		return out
	}
	files, err := fs.Glob(all, "*/tuned.conf")
	if err != nil {
		return out
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, "/tuned.conf")
		out[name] = nil
		data, err := fs.ReadFile(all, file)
		if err != nil {
			continue
		}
		sections, err := profile.Sections(file, data)
		if err != nil {
			continue // the node reports it
		}
		for _, s := range sections {
			if i := s.Line("include"); s.Name == "main" && i != nil {
				out[name], _ = includes(i.Value)
			}
		}
	}
	return out
}

// need lists the requirements of a node's profile.
type need struct {
	// names are the needed profiles of the objects, sorted.
	names []string
	// blocked are the reasons that needed profiles are unusable.
	blocked []Note
	// missing are names of unknown profiles, with the including profile.
	missing []missing
	open    bool
}

type missing struct {
	name, by string
	// choice is the entry of include= that resolves to the name; also are its other missing names.
	choice string
	also   []string
}

// miss records a missing name. Of one choice it records only the first; the others go into also.
func (n *need) miss(i include, by string) {
	for k := range n.missing {
		switch m := &n.missing[k]; {
		case m.by != by:
		case m.name == i.name || slices.Contains(m.also, i.name):
			return
		case i.choice != "" && m.choice == i.choice:
			m.also = append(m.also, i.name)
			return
		}
	}
	n.missing = append(n.missing, missing{name: i.name, by: by, choice: i.choice})
}

// needs follows a profile's includes. As in TuneD, a profile that includes its own name means the
// profile of that name in the next directory.
func (p *catalogue) needs(name string) need {
	var n need
	read := map[string]bool{}
	var follow func(i include, by string)
	follow = func(i include, by string) {
		t, builtin := p.texts[i.name], "builtin:"+i.name
		inside, isBuiltin := p.builtin[i.name]
		switch {
		case t != nil && !read[i.name]:
			read[i.name] = true
			n.names = append(n.names, i.name)
			if t.blocked != nil {
				n.blocked = append(n.blocked, *t.blocked)
			}
			n.open = n.open || t.open
			inside = t.includes
		case isBuiltin && !read[builtin]:
			read[builtin] = true
		case t != nil && i.name != by || isBuiltin || i.optional:
			return
		default:
			n.miss(i, by)
			return
		}
		for _, next := range inside {
			follow(next, i.name)
		}
	}
	follow(include{name: name}, "")
	slices.Sort(n.names)
	return n
}
