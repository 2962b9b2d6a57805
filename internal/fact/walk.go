package fact

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// leaf is a Fact or a Set of any type.
type leaf interface {
	leafNote() *note
	empty() bool // null in JSON
}

type valued interface {
	leaf
	leafValue() any
}

type container interface {
	leaf
	each(func(name string, item any))
}

// walk calls visit for every fact and set below v, a pointer to a struct, in the order of its
// fields.
func walk(prefix string, v reflect.Value, visit func(name string, l leaf)) {
	v = v.Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "" || tag == "-" {
			continue
		}
		at := v.Field(i).Addr()
		name := prefix + tag
		if l, ok := at.Interface().(leaf); ok {
			visit(name, l)
			if c, ok := l.(container); ok {
				c.each(func(key string, item any) {
					walk(name+"."+key+".", reflect.ValueOf(item), visit)
				})
			}
		} else if field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]() {
			walk(name+".", at, visit)
		}
	}
}

func (f *Facts) visit(visit func(name string, l leaf)) {
	walk("", reflect.ValueOf(f), visit)
}

// List returns every fact in the order of the tree, and those sets that are absent or unknown
// as a whole.
func (f *Facts) List() []Item { return f.list(func(string, leaf) {}) }

// list is like List, but also calls also for each fact and set.
func (f *Facts) list(also func(name string, l leaf)) []Item {
	when := map[string]time.Time{}
	for _, r := range f.Collectors {
		when[r.Name] = r.Time
	}
	items := make([]Item, 0, 512) // a small machine has 500
	f.visit(func(name string, l leaf) {
		also(name, l)
		n := state(l)
		part, _, _ := strings.Cut(name, ".")
		it := Item{Name: name, Absent: n.absent, Unknown: n.unknown, More: n.more, Source: n.source, Time: f.Time}
		if t, ok := when[part]; ok {
			it.Time = t
		}
		if v, ok := l.(valued); ok {
			it.Value = v.leafValue()
		} else if !n.absent && n.unknown == "" {
			return
		}
		items = append(items, it)
	})
	return items
}

// Index finds facts by name. Create it once for many lookups.
type Index struct {
	list        []Item
	items       map[string]Item
	sets        map[string][]string // names of the items of known sets
	missingSets []Item              // sets that are absent or unknown as a whole
}

// Index returns an index of the current facts.
func (f *Facts) Index() *Index {
	x := &Index{sets: map[string][]string{}}
	var missing []string
	x.list = f.list(func(name string, l leaf) {
		c, ok := l.(container)
		switch {
		case !ok:
		case state(l).known():
			x.sets[name] = []string{}
			c.each(func(key string, _ any) { x.sets[name] = append(x.sets[name], key) })
		default:
			missing = append(missing, name)
		}
	})
	x.items = make(map[string]Item, len(x.list))
	for _, it := range x.list {
		x.items[it.Name] = it
	}
	for _, name := range missing {
		x.missingSets = append(x.missingSets, x.items[name])
	}
	return x
}

// List is like Facts.List, but does not walk the tree again.
func (x *Index) List() []Item { return x.list }

// Lookup finds a fact by name. Names below an absent or unknown set have the state of the set.
// ok is false for unknown names.
func (x *Index) Lookup(name string) (it Item, ok bool) {
	if it, ok := x.items[name]; ok {
		return it, true
	}
	for _, it := range x.missingSets {
		if strings.HasPrefix(name, it.Name+".") {
			it.Name = name
			return it, true
		}
	}
	return Item{}, false
}

// Members returns the names in a set ("disk", "numa.node"). ok is false if there is no such
// set. If the set is absent or unknown as a whole, names is nil and Lookup of the set returns
// the reason.
func (x *Index) Members(set string) (names []string, ok bool) {
	if names, ok := x.sets[set]; ok {
		return names, true
	}
	for _, it := range x.missingSets {
		if it.Name == set {
			return nil, true
		}
	}
	return nil, false
}

// Lookup finds one fact by name. See Index.Lookup.
func (f *Facts) Lookup(name string) (it Item, ok bool) { return f.Index().Lookup(name) }

// annotate sets Unknown and Source from the facts.
func (f *Facts) annotate() {
	f.Unknown, f.Source = map[string]string{}, map[string]string{}
	f.visit(func(name string, l leaf) {
		switch n := state(l); {
		case n.unknown != "":
			f.Unknown[name] = n.unknown
		case !n.absent && n.source != "":
			f.Source[name] = n.source
			if n.more != "" {
				f.Unknown[name] = n.more
			}
		}
	})
}

// state returns the state of a leaf. A leaf that was never set is unknown: "not collected".
func state(l leaf) note {
	n := *l.leafNote()
	if v, ok := l.(valued); ok && n.known() && v.leafValue() == nil {
		n.unknown = "not collected"
	}
	return n
}

// MarshalJSON writes the tree of values, with null for absent and unknown ones, and next to it
// the reasons and the sources.
func (f Facts) MarshalJSON() ([]byte, error) {
	type plain Facts
	f.annotate()
	return json.Marshal(plain(f))
}

// UnmarshalJSON reads the output of MarshalJSON.
func (f *Facts) UnmarshalJSON(b []byte) error {
	type plain Facts
	if err := json.Unmarshal(b, (*plain)(f)); err != nil {
		return err
	}
	f.visit(func(name string, l leaf) {
		n := l.leafNote()
		*n = note{source: f.Source[name], unknown: f.Unknown[name]}
		n.absent = n.unknown == "" && l.empty()
		if _, ok := l.(valued); ok && !l.empty() {
			n.more, n.unknown = n.unknown, ""
		}
	})
	return nil
}

// sortedNames returns the sorted keys. The result is never nil, because nil would be null in
// JSON.
func sortedNames[V any](m map[string]V) []string {
	names := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.SortFunc(names, Natural)
	return names
}

// Natural compares names in natural order: numbers by value, letters of disks by length first
// (sdb before sdaa).
func Natural(a, b string) int {
	for _, disk := range []string{"sd", "vd", "xvd"} {
		x, inA := strings.CutPrefix(a, disk)
		y, inB := strings.CutPrefix(b, disk)
		if inA && inB && letters(x) && letters(y) && len(x) != len(y) {
			return cmp.Compare(len(x), len(y))
		}
	}
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			break
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(a, b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func letters(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}
