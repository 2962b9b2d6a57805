package rule

import (
	"bytes"
	"slices"
	"strings"
)

// Needed selects entries of the embedded catalog.
type Needed struct {
	// Platforms are the platforms whose rules are evaluated. Examples and evidence of these rules
	// are dropped.
	Platforms []string
	// IDs are the ids of rules, tables and evidence to show or test. The examples of these rules,
	// and the evidence and tables that explain them, are kept.
	IDs []string
	// Own are an administrator's files. All entries that these files may refer to are kept.
	Own []File
}

// named reports whether an administrator's file may refer to an entry.
func (n Needed) named(e *entry) bool {
	return e.name != "" && slices.ContainsFunc(n.Own, func(f File) bool { return bytes.Contains(f.Text, []byte(e.name)) })
}

// Only empties the lines of entries that are not needed, before the files are parsed, because
// parsing unused rules would take most of an audit's time. It keeps the rules and tables that
// needed rules depend on. Line numbers stay the same. It is for embedded files only, because it
// relies on their form: each entry begins with "- KIND: NAME", its lists (platforms, dependencies,
// ids) are in flow style, and examples are a rule's last key.
func Only(files []File, need Needed) []File {
	all := split(files)
	c := index(all)
	for _, e := range slices.Concat(all...) {
		named := need.named(e)
		switch e.kind {
		case "id":
			if of := listIn(e.text, "platforms"); len(of) == 0 || named || both(of, need.Platforms) {
				c.keep(e)
			}
			if slices.Contains(need.IDs, e.name) {
				c.keep(e)
				e.whole = true
			}
		case "table":
			if named || slices.Contains(need.IDs, e.name) || both(listIn(e.text, "ids"), need.IDs) {
				c.keep(e)
			}
		case "evidence":
			if explains := listIn(e.text, "explains"); named || slices.Contains(need.IDs, e.name) || both(explains, need.IDs) {
				e.kept = true
				c.keepExplained(explains)
			}
		default:
			c.keep(e)
		}
	}
	return join(files, all)
}

func both(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// entryIndex finds the entries of a catalog by name.
type entryIndex struct{ rules, tables map[string]*entry }

func index(all [][]*entry) entryIndex {
	c := entryIndex{map[string]*entry{}, map[string]*entry{}}
	for _, e := range slices.Concat(all...) {
		switch e.kind {
		case "id":
			c.rules[e.name] = e
		case "table":
			c.tables[e.name] = e
		}
	}
	return c
}

// keep keeps an entry, and the rules and tables that it depends on.
func (c entryIndex) keep(e *entry) {
	if e == nil || e.kept {
		return
	}
	e.kept = true
	for _, id := range listIn(e.text, "depends-on") {
		c.keep(c.rules[id])
	}
	for name, t := range c.tables {
		if bytes.Contains(e.text, []byte(`"`+name+`"`)) {
			c.keep(t)
		}
	}
}

// keepExplained keeps the rules and tables that evidence explains; Load looks for them.
func (c entryIndex) keepExplained(ids []string) {
	for _, id := range ids {
		c.keep(c.rules[id])
	}
	for _, t := range c.tables {
		if both(listIn(t.text, "ids"), ids) {
			c.keep(t)
		}
	}
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
			text = append(text, e.needed()...)
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
	whole      bool // with examples
}

// needed returns the text with the lines that are not needed emptied.
func (e *entry) needed() []byte {
	end := len(e.text)
	if i := bytes.Index(e.text, []byte("\n  examples:")); !e.kept {
		end = 0
	} else if i >= 0 && !e.whole {
		end = i
	}
	return slices.Concat(e.text[:end], emptied(e.text[end:]))
}

func emptied(text []byte) []byte {
	return bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n")))
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
