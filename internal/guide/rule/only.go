package rule

import (
	"bytes"
	"slices"
	"strings"
)

// Only empties all lines that the platforms' rules do not need, before parsing: parsing unused
// rules would take most of an audit's time. Line numbers stay the same. It is for embedded files,
// which are known to load: each entry begins with "- KIND: NAME" and has its platforms and
// dependencies on one line each. It drops evidence, which rules do not need.
func Only(files []File, platforms []string) []File {
	rules := map[string]*entry{}
	tables := map[string]*entry{}
	all := split(files)
	for _, e := range slices.Concat(all...) {
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
	for _, e := range slices.Concat(all...) {
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
	return join(files, all)
}

// onlyTables empties all lines except those of tables, under the same conditions as Only.
func onlyTables(files []File) []File {
	all := split(files)
	for _, e := range slices.Concat(all...) {
		e.kept = e.kind == "table"
	}
	return join(files, all)
}

// split returns the entries of each file.
func split(files []File) (all [][]*entry) {
	for _, f := range files {
		all = append(all, entries(f.Text))
	}
	return all
}

// join returns the files with the entries that are kept, and empty lines for the others.
func join(files []File, all [][]*entry) []File {
	out := slices.Clone(files)
	for i := range out {
		var text []byte
		for _, e := range all[i] {
			if e.kept {
				text = append(text, e.text...)
			} else {
				text = append(text, bytes.Repeat([]byte("\n"), bytes.Count(e.text, []byte("\n")))...)
			}
		}
		out[i].Text = text
	}
	return out
}

// entry is one item of a file's list, as text, or what stands above the list.
type entry struct {
	kind, name string
	text       []byte
	kept       bool
}

// entries splits a file at lines that begin with "- ".
func entries(text []byte) []*entry {
	var out []*entry
	begin := 0
	end := func(at int) {
		e := &entry{text: text[begin:at]}
		first, _, _ := strings.Cut(string(e.text), "\n")
		if item, ok := strings.CutPrefix(first, "- "); ok {
			kind, name, _ := strings.Cut(item, ":")
			e.kind, e.name = kind, strings.TrimSpace(name)
		}
		out = append(out, e)
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

// listIn returns the list "KEY: [A, B]" of an entry.
func listIn(text []byte, key string) []string {
	_, rest, found := bytes.Cut(text, []byte("\n  "+key+": ["))
	list, _, closed := bytes.Cut(rest, []byte("]"))
	if !found || !closed {
		return nil
	}
	var out []string
	for word := range strings.SplitSeq(string(list), ",") {
		word, _, _ = strings.Cut(strings.Trim(word, ` "'`), " ") // the rule in "ID ITEM"
		out = append(out, word)
	}
	return out
}
