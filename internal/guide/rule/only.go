package rule

import (
	"bytes"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Only blanks out all text that the platforms' rules do not need, before parsing: parsing unused
// rules would take most of an audit's time. Line numbers stay the same. It is for embedded files,
// which are known to load: each entry begins with "- KIND: NAME" and has its platforms and
// dependencies on one line each. It drops evidence, which rules do not need.
func Only(files []File, platforms []string) []File {
	out, all := split(files)
	rules := map[string]*entry{}
	tables := map[string]*entry{}
	for _, e := range all {
		switch e.kind {
		case "id":
			rules[e.name] = e
		case "table":
			tables[e.name] = e
		}
	}
	var keep func(e *entry)
	keep = func(e *entry) {
		if e == nil || e.kept {
			return
		}
		e.kept = true
		for _, id := range listIn(e.text, "depends-on") {
			keep(rules[id])
		}
		for name, t := range tables {
			if bytes.Contains(e.text, []byte(`"`+name+`"`)) {
				keep(t)
			}
		}
	}
	for _, e := range all {
		switch e.kind {
		case "id":
			if of := listIn(e.text, "platforms"); len(of) == 0 || slices.ContainsFunc(of, func(p string) bool { return slices.Contains(platforms, p) }) {
				keep(e)
			}
		case "table", "evidence":
		default:
			keep(e)
		}
	}
	blank(all)
	return out
}

// onlyTables blanks out all text except the tables, under the same conditions as Only.
func onlyTables(files []File) []File {
	out, all := split(files)
	for _, e := range all {
		e.kept = e.kind == "table"
	}
	blank(all)
	return out
}

// split copies files and returns the entries of the copies.
func split(files []File) (copies []File, all []*entry) {
	for _, f := range files {
		f.Text = bytes.Clone(f.Text)
		copies = append(copies, f)
		all = append(all, entries(f.Text)...)
	}
	return copies, all
}

// blank overwrites the entries that are not kept, except for their line breaks.
func blank(all []*entry) {
	for _, e := range all {
		if e.kept {
			continue
		}
		for i, c := range e.text {
			if c != '\n' {
				e.text[i] = ' '
			}
		}
	}
}

// entry is one item of a file's list, as text.
type entry struct {
	kind, name string
	text       []byte
	kept       bool
}

// entries splits a file at lines that begin with "- ".
func entries(text []byte) []*entry {
	var out []*entry
	begin := -1
	end := func(at int) {
		if begin >= 0 {
			e := &entry{text: text[begin:at]}
			first, _, _ := strings.Cut(string(e.text), "\n")
			kind, name, _ := strings.Cut(strings.TrimPrefix(first, "- "), ":")
			e.kind, e.name = kind, strings.TrimSpace(name)
			out = append(out, e)
		}
		begin = at
	}
	at := 0
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("- ")) {
			end(at)
		}
		at += len(line)
	}
	end(len(text))
	return out
}

var flowList = text.LazyRegexp(`(?m)^  (platforms|depends-on): \[([^\]]*)\]`)

// listIn returns the list "KEY: [A, B]" of an entry.
func listIn(text []byte, key string) []string {
	var out []string
	for _, m := range flowList().FindAllSubmatch(text, -1) {
		if string(m[1]) != key {
			continue
		}
		for _, word := range strings.Split(string(m[2]), ",") {
			word, _, _ = strings.Cut(strings.Trim(word, ` "'`), " ") // the rule in "ID ITEM"
			out = append(out, word)
		}
	}
	return out
}
