package fact

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Selection is a subset of the facts.
type Selection struct {
	facts *Facts
	names map[string]bool // names of facts and sets
}

// Select selects the facts at or below the given names in the tree ("memory", "disk.vda"). A name
// without such facts selects the facts whose names begin with it ("memo", "disk.vda.queue").
// Without names, all facts are selected. missing lists the names without a match.
func (f *Facts) Select(names ...string) (s *Selection, missing []string) {
	s = &Selection{f, map[string]bool{}}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, wanted := range names {
		wanted = strings.TrimSuffix(wanted, ".")
		below := func(name string) bool { return name == wanted || strings.HasPrefix(name, wanted+".") }
		if !s.add(below) && !s.add(func(name string) bool { return strings.HasPrefix(name, wanted) }) {
			missing = append(missing, wanted)
		}
	}
	return s, missing
}

// Determined reports whether at least one fact is known. If not, the input is not a machine.
func (f *Facts) Determined() bool {
	return slices.ContainsFunc(f.List(), func(it Item) bool { return it.Unknown == "" })
}

func (s *Selection) add(wanted func(name string) bool) bool {
	found := false
	s.facts.visit(func(name string, _ leaf) {
		if wanted(name) {
			s.names[name], found = true, true
		}
	})
	return found
}

// Names returns all names that Select accepts: facts and inner nodes of the tree.
func (f *Facts) Names() []string {
	seen := map[string]bool{}
	var out []string
	f.visit(func(name string, _ leaf) {
		for i := range len(name) + 1 {
			if (i == len(name) || name[i] == '.') && !seen[name[:i]] {
				seen[name[:i]] = true
				out = append(out, name[:i])
			}
		}
	})
	return out
}

// List returns the selected facts as Facts.List does.
func (s *Selection) List() []Item {
	return slices.DeleteFunc(s.facts.List(), func(it Item) bool { return !s.names[it.Name] })
}

// MarshalJSON writes the document of all facts, omitting the parts that are not selected.
func (s *Selection) MarshalJSON() ([]byte, error) {
	f := *s.facts
	f.annotate()
	for name := range f.Source {
		if !s.names[name] {
			delete(f.Source, name)
		}
	}
	for name := range f.Unknown {
		if !s.names[name] {
			delete(f.Unknown, name)
		}
	}
	parts := map[string]bool{}
	for name := range s.names {
		part, _, _ := strings.Cut(name, ".")
		parts[part] = true
	}
	f.Collectors = slices.DeleteFunc(slices.Clone(f.Collectors), func(r Run) bool { return !parts[r.Name] })
	b, _, err := s.branch("", reflect.ValueOf(&f))
	return b, err
}

// branch marshals the selected part of a struct. any is false if nothing is selected. Members
// outside of the tree of facts (schema, time) are always written.
func (s *Selection) branch(prefix string, v reflect.Value) (text []byte, any bool, err error) {
	var o object
	v = v.Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if key == "" || key == "-" || options == "omitempty" && v.Field(i).IsZero() {
			continue
		}
		at, name := v.Field(i).Addr(), prefix+key
		var value []byte
		selected := true
		switch l, isLeaf := at.Interface().(leaf); {
		case isLeaf:
			value, selected, err = s.leaf(name, l)
		case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]():
			value, selected, err = s.branch(name+".", at)
		default:
			value, err = json.Marshal(at.Interface())
		}
		if err != nil {
			return nil, false, err
		}
		if selected {
			o.put(key, value)
			any = true
		}
	}
	return o.end(), any, nil
}

// leaf marshals a fact, or the selected part of a set.
func (s *Selection) leaf(name string, l leaf) (text []byte, selected bool, err error) {
	set, isSet := l.(container)
	if !isSet || !state(l).known() {
		if !s.names[name] {
			return nil, false, nil
		}
		text, err = json.Marshal(l)
		return text, true, err
	}
	var o object
	set.each(func(key string, item any) {
		value, some, e := s.branch(name+"."+key+".", reflect.ValueOf(item))
		if e != nil || !some {
			err = errors.Join(err, e)
			return
		}
		o.put(key, value)
		selected = true
	})
	return o.end(), selected || s.names[name], err
}
