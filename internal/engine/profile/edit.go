package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Assignment is one option of a section of a profile.
type Assignment struct{ Section, Name, Value string }

// editHeader begins a profile that Edit writes.
const editHeader = "# Written by fettle tune --save; the next one keeps the settings and drops comments.\n"

// Edited reports whether Edit has written the text of a profile.
func Edited(text []byte) bool { return bytes.HasPrefix(text, []byte(editHeader)) }

// Edit returns the text of the profile in file with other options: without those of unset and of
// the sections in replace ("all": every section), and with those of set. A text that has these
// options already is returned unchanged. text is nil if the file does not exist yet.
func Edit(file string, text []byte, set, unset []Assignment, replace []string) ([]byte, error) {
	conf, err := parseConfig(file, text, parseSyntax{})
	if err != nil {
		return nil, err
	}
	main, options := Assignment{mainSection, "summary", "settings saved by fettle tune --save"}, []Assignment{}
	for _, s := range conf.sections {
		for _, e := range conf.options(s) {
			if s.name == mainSection && e.key == "summary" {
				main.Value = e.value
			} else {
				options = append(options, Assignment{s.name, e.key, e.value})
			}
		}
	}
	before := slices.Clone(options)
	options = slices.DeleteFunc(options, func(o Assignment) bool {
		return slices.Contains(replace, "all") || slices.Contains(replace, o.Section) ||
			slices.ContainsFunc(unset, func(a Assignment) bool { return o.Section == a.Section && o.Name == a.Name })
	})
	for _, a := range set {
		i := slices.IndexFunc(options, func(o Assignment) bool { return o.Section == a.Section && o.Name == a.Name })
		if i < 0 {
			i, options = len(options), append(options, a)
		}
		options[i] = a
	}
	order := func(a, b Assignment) int {
		return cmp.Or(first(a)-first(b), strings.Compare(a.Section, b.Section), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(options, order)
	if slices.SortFunc(before, order); text != nil && slices.Equal(before, options) {
		return text, nil
	}
	var b strings.Builder
	b.WriteString(editHeader)
	section := ""
	for _, a := range append([]Assignment{main}, options...) {
		if a.Section != section {
			section = a.Section
			fmt.Fprintf(&b, "[%s]\n", section)
		}
		fmt.Fprintf(&b, "%s=%s\n", a.Name, strings.ReplaceAll(a.Value, "\n", "\n "))
	}
	out := b.String()
	return []byte(out), readsAs(file, out, set)
}

// first sorts [main] first: its other options follow the summary.
func first(a Assignment) int {
	if a.Section == mainSection {
		return 0
	}
	return 1
}

// readsAs returns an error if an assignment is not what the language reads in the text.
func readsAs(file, text string, set []Assignment) error {
	conf, err := parseConfig(file, []byte(text), parseSyntax{})
	if err != nil {
		return err
	}
	for _, a := range set {
		s := conf.section(a.Section)
		if s != nil && !strings.Contains(a.Name+a.Value, "${") {
			if e, ok := s.keys.get(a.Name); ok && e.value == a.Value {
				continue
			}
		}
		return fmt.Errorf("[%s] %s=%q cannot be saved: a profile would not read it as this text", a.Section, a.Name, a.Value)
	}
	return nil
}
