package tuned

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
)

// include is a name in include=.
type include struct {
	name string
	// optional reports whether the profile may be missing.
	optional bool
	// choice is the entry of include= that resolves to this or another name, depending on the node;
	// "" for names included on every node.
	choice string
}

// maxChoices limits the names to which one entry of include= may resolve.
const maxChoices = 64

// includes returns all names to which an include= may resolve, including all results of functions
// that choose among texts. open reports whether there may be other names, which only the node can
// resolve.
func includes(value string) (names []include, open bool) {
	add := func(text, choice string) {
		for _, name := range profile.SplitList(text) {
			plain, optional := strings.CutPrefix(strings.TrimSpace(name), "-")
			if plain != "" {
				names = append(names, include{plain, optional, choice})
			}
		}
	}
	for _, entry := range entries(value) {
		texts, ok := choices(entry)
		if !ok {
			open = true
			continue
		}
		choice := ""
		if len(texts) > 1 {
			choice = entry
		}
		for _, text := range texts {
			add(text, choice)
		}
	}
	return names, open
}

// circle returns the cycle of profiles by which a profile includes itself, starting with the first
// by name; nil if none exists. Including one's own name means the profile below it, which is not
// a cycle; nor is a cycle through a built-in profile's name.
func (p *catalogue) circle(name string) []string {
	seen := map[string]bool{}
	var follow func(path []string) []string
	follow = func(path []string) []string {
		t := p.texts[path[len(path)-1]]
		if t == nil || t.blocked != nil { // an unusable profile includes nothing
			return nil
		}
		for _, i := range t.includes {
			next := i.name
			if _, builtin := p.builtin[next]; builtin || i.choice != "" {
				continue
			}
			if next == name && len(path) > 1 {
				return path
			}
			if seen[next] || next == name {
				continue
			}
			seen[next] = true
			if found := follow(append(path, next)); found != nil {
				return found
			}
		}
		return nil
	}
	found := follow([]string{name})
	if found == nil {
		return nil
	}
	first := slices.Index(found, slices.Min(found))
	return append(slices.Concat(found[first:], found[:first]), found[first])
}

// entries splits an include= at separators outside of references.
func entries(value string) []string {
	inside := make([]bool, len(value))
	for _, r := range profile.References(value).Refs {
		for i := range r.Text {
			inside[r.Start+i] = true
		}
	}
	var out []string
	start := 0
	for i := range value {
		if (value[i] == ',' || value[i] == ';') && !inside[i] {
			out = append(out, value[start:i])
			start = i + 1
		}
	}
	return append(out, value[start:])
}

// choices returns the texts to which a text may expand; ok is false if unknown here.
func choices(text string) (texts []string, ok bool) {
	found := profile.References(text)
	if len(found.Loose) > 0 {
		return nil, false
	}
	texts, at := []string{""}, 0
	for _, r := range found.Refs {
		if r.Depth > 0 {
			continue // inside another reference
		}
		chosen, ok := chosenBy(r)
		if !ok || len(texts)*len(chosen) > maxChoices {
			return nil, false
		}
		texts = product(product(texts, []string{text[at:r.Start]}), chosen)
		at = r.Start + len(r.Text)
	}
	return product(texts, []string{text[at:]}), true
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// chosenBy returns the possible results of a function call whose results are among its arguments;
// ok is false for other functions.
func chosenBy(r profile.Reference) (texts []string, ok bool) {
	if !r.Call || r.Escaped {
		return nil, false
	}
	var args []string
	switch n := len(r.Args); {
	case r.Name == "virt_check" && n == 2:
		args = r.Args
	case r.Name == "regex_search_ternary" && n == 4:
		args = r.Args[2:]
	case (r.Name == "cpuinfo_check" || r.Name == "lscpu_check") && n >= 2:
		for i := 1; i < n; i += 2 {
			args = append(args, r.Args[i])
		}
		if n%2 == 1 {
			args = append(args, r.Args[n-1])
		} else {
			args = append(args, "") // the function's result without a match
		}
	default:
		return nil, false
	}
	for _, arg := range args {
		more, ok := choices(arg)
		if !ok || len(texts)+len(more) > maxChoices {
			return nil, false
		}
		for _, text := range more {
			texts = append(texts, strings.ReplaceAll(text, `\:`, ":"))
		}
	}
	return texts, true
}
