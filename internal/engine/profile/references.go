package profile

import "strings"

// Reference is a variable or a call of a function in a text as it is written.
type Reference struct {
	// Text is all of it, "${name}" or "${f:name:arg}"; Start its first byte.
	Text  string
	Start int
	// Name is the variable's, or the function's if Call is true.
	Name string
	Call bool
	// Args are a call's, as they are written: with references in them, and with
	// colons escaped.
	Args []string
	// Depth counts the references around it.
	Depth int
	// Escaped says that a backslash stands before it.
	Escaped bool
}

// Text is a text cut into references. A text of which Loose is empty says
// itself what it calls: whatever the variables hold, it calls the functions in
// Refs and no others, so long as the variables' own texts are of that sort.
type Text struct {
	// Refs are in the order in which they are evaluated, inner ones first.
	Refs []Reference
	// Loose are the first bytes of what is no reference but could become part of
	// one when something is put in its place: a "${" that is not closed or whose
	// name is not written out, a "}" that closes nothing, a "$" alone.
	Loose []int
}

// References finds the references in a text, without evaluating any.
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

// next goes past one character or one reference.
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

// reference reads from a "${" to its "}". Where it is none, what is inside is
// looked at all the same.
func (r *references) reference(depth int) {
	start := r.at
	ref := Reference{Start: start, Depth: depth, Escaped: start > 0 && r.text[start-1] == '\\'}
	r.at += len("${")
	if depth >= maxCallDepth {
		r.loose(start)
		return
	}
	inside := r.at
	var colons []int // those between arguments
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
