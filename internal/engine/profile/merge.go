package profile

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// field is a value with its position.
type field struct {
	value string
	pos   Pos
	set   bool
}

// rawUnit is a section as read: attributes are separated from options, and options are unexpanded.
type rawUnit struct {
	name string
	pos  Pos

	typ, enabled, devices                field // never unset: see newRawUnit
	priority                             field
	udevRegex, cpuinfoRegex, unameRegex  field
	scriptPre, scriptPost, replace, prep field
	drop                                 field

	options *ordered[rawOption]
}

type rawOption struct {
	name    string
	value   string
	pos     Pos
	scripts []Script // scripts are the values of the option "script".
}

// rawProfile is one parsed tuned.conf before merging.
type rawProfile struct {
	path  string
	main  *ordered[*entry]
	units []*rawUnit
}

const (
	mainSection      = "main"
	variablesSection = "variables"
	scriptOption     = "script"
	includeOption    = "include"
)

// newRawProfile converts a parsed tuned.conf to units. It replaces ${i:PROFILE_DIR} by the file's
// directory.
func newRawProfile(file string, conf *configFile) *rawProfile {
	dir := path.Dir(file)
	p := &rawProfile{path: file, main: newOrdered[*entry]()}
	for _, s := range conf.sections {
		entries := conf.options(s)
		if s.name == mainSection {
			for _, e := range entries {
				p.main.set(e.key, &entry{key: e.key, value: expandProfileDir(e.value, dir), pos: e.pos})
			}
			continue
		}
		p.units = append(p.units, newRawUnit(s, entries, dir))
	}
	return p
}

func newRawUnit(s *section, entries []*entry, dir string) *rawUnit {
	u := &rawUnit{name: s.name, pos: s.pos, options: newOrdered[rawOption]()}
	u.typ = field{value: s.name, pos: s.pos}
	u.enabled = field{value: "True", pos: s.pos}
	u.devices = field{value: "*", pos: s.pos}
	attributes := u.attributes()
	for _, e := range entries {
		value := expandProfileDir(e.value, dir)
		if f := attributes[e.key]; f != nil {
			*f = field{value, e.pos, true}
			continue
		}
		u.options.set(e.key, rawOption{name: e.key, value: value, pos: e.pos})
	}
	if o, ok := u.options.get(scriptOption); ok && u.typ.value != variablesSection {
		o.value = joinPath(dir, o.value)
		o.scripts = []Script{{Path: o.value, Pos: o.pos}}
		u.options.set(scriptOption, o)
	}
	return u
}

// attributes returns a section's attributes by name: the fields that are not options of the
// plug-in.
func (u *rawUnit) attributes() map[string]*field {
	return map[string]*field{
		"priority": &u.priority, "type": &u.typ, "enabled": &u.enabled,
		"replace": &u.replace, "prepend": &u.prep, "drop": &u.drop,
		"devices": &u.devices, "devices_udev_regex": &u.udevRegex,
		"cpuinfo_regex": &u.cpuinfoRegex, "uname_regex": &u.unameRegex,
		"script_pre": &u.scriptPre, "script_post": &u.scriptPost,
	}
}

// joinPath is os.path.normpath(os.path.join(dir, name)): an absolute name is returned unchanged.
func joinPath(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

const profileDirText = "${i:PROFILE_DIR}"

func expandProfileDir(s, dir string) string {
	if !strings.Contains(s, profileDirText) {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, profileDirText)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case strings.HasSuffix(before, `\`):
			b.WriteString(profileDirText) // escaped: TuneD keeps the backslash
		default:
			b.WriteString(dir)
		}
		s = rest
	}
}

// isTrue parses enabled, replace and prepend as TuneD does.
func isTrue(s string) bool { return s == "True" || s == "true" || s == "1" }

// merged holds the merged profiles before expansion.
type merged struct {
	main      *ordered[*entry]
	units     *ordered[*rawUnit]
	variables *ordered[rawOption]
	warn      func(Pos, string, ...any)
}

// merge merges profiles in order; later ones override earlier ones (TuneD 2.28,
// profiles/merger.py).
func merge(profiles []*rawProfile, warn func(Pos, string, ...any)) *merged {
	m := &merged{newOrdered[*entry](), newOrdered[*rawUnit](), newOrdered[rawOption](), warn}
	for _, p := range profiles {
		for _, e := range p.main.values() {
			m.main.set(e.key, e)
		}
		for _, u := range p.units {
			m.add(u)
		}
	}
	return m
}

func (m *merged) add(u *rawUnit) {
	m.warnNotTrue(u)
	old, exists := m.units.get(u.name)
	switch {
	case u.typ.value == variablesSection:
		m.addVariables(u)
	case isTrue(u.replace.value) || !exists:
		m.units.set(u.name, u)
	default:
		m.update(old, u)
	}
}

func (m *merged) addVariables(u *rawUnit) {
	if isTrue(u.replace.value) {
		m.variables = newOrdered[rawOption]()
	}
	var added []string
	for _, o := range u.options.values() {
		if _, ok := m.variables.get(o.name); !ok {
			added = append(added, o.name)
		}
		m.variables.set(o.name, o)
	}
	if isTrue(u.prep.value) {
		m.variables.moveToFront(added)
	}
}

// update merges u into old, the unit with the same name.
func (m *merged) update(old, u *rawUnit) {
	m.warnReset(old, u)
	old.typ, old.enabled, old.devices = u.typ, u.enabled, u.devices
	for _, f := range []struct{ old, new *field }{
		{&old.priority, &u.priority}, {&old.udevRegex, &u.udevRegex},
		{&old.cpuinfoRegex, &u.cpuinfoRegex}, {&old.unameRegex, &u.unameRegex},
		{&old.scriptPre, &u.scriptPre}, {&old.scriptPost, &u.scriptPost},
	} {
		if f.new.set {
			*f.old = *f.new
		}
	}
	if u.drop.set {
		for _, name := range splitList(u.drop.value, true) {
			if _, ok := old.options.remove(name); !ok {
				m.warn(u.drop.pos, "drop=%s: [%s] inherits no option of that name", name, u.name)
			}
		}
	}
	var inherited []Script
	if o, ok := old.options.get(scriptOption); ok && u.name == scriptOption {
		inherited = o.scripts
	}
	for _, o := range u.options.values() {
		if o.name == scriptOption && inherited != nil {
			o.scripts = append(append([]Script{}, inherited...), o.scripts...)
		}
		old.options.set(o.name, o)
	}
}

// warnNotTrue warns about a word that a reader takes for yes and TuneD for no. For example
// enabled=yes disables a section, and enabled=${on} is not expanded.
func (m *merged) warnNotTrue(u *rawUnit) {
	for _, a := range []struct {
		name, effect string
		field
	}{
		{"enabled", "so the section is switched off", u.enabled},
		{"replace", "so nothing is replaced", u.replace},
		{"prepend", "so the variables do not come first", u.prep},
	} {
		if !a.set || isTrue(a.value) || meansNo(a.value) || a.name == "prepend" && u.typ.value != variablesSection {
			continue
		}
		word := a.name + "=" + a.value
		if strings.TrimSpace(a.value) == "" {
			word = "an empty " + a.name + "="
		}
		m.warn(a.pos, "[%s] %s does not mean true (only 1, true and True do), %s", u.name, word, a.effect)
	}
}

// meansNo reports whether a reader would take a value for no.
func meansNo(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "0", "false", "no", "off", "n", "f", "none", "disabled":
		return true
	}
	return false
}

// warnReset warns about inherited attributes that a section resets by not repeating them.
func (m *merged) warnReset(old, u *rawUnit) {
	if old.devices.value != "*" && !u.devices.set {
		m.warn(u.pos, "[%s] does not name devices, which resets devices=%s (%s) to all devices", u.name, old.devices.value, old.devices.pos)
	}
	if !isTrue(old.enabled.value) && !u.enabled.set {
		m.warn(u.pos, "[%s] does not name enabled, which enables it again (%s disabled it)", u.name, old.enabled.pos)
	}
	if old.typ.value != u.typ.value && !u.typ.set {
		m.warn(u.pos, "[%s] does not name type, which resets type=%s (%s) to %s", u.name, old.typ.value, old.typ.pos, u.name)
	}
}

// ordered is a map in insertion order. It follows Python's dict, whose order is visible in merged
// profiles. Setting an existing key keeps its position; deleting and setting it again moves it to
// the end.
type ordered[V any] struct {
	slots       map[string]*slot[V]
	first, next int // the first place and the next one
}

type slot[V any] struct {
	value V
	place int
}

func newOrdered[V any]() *ordered[V] { return &ordered[V]{slots: map[string]*slot[V]{}} }

func (o *ordered[V]) get(key string) (v V, ok bool) {
	if s := o.slots[key]; s != nil {
		return s.value, true
	}
	return v, false
}

func (o *ordered[V]) set(key string, v V) {
	if s := o.slots[key]; s != nil {
		s.value = v
		return
	}
	o.slots[key] = &slot[V]{v, o.next}
	o.next++
}

func (o *ordered[V]) remove(key string) (v V, ok bool) {
	v, ok = o.get(key)
	delete(o.slots, key)
	return v, ok
}

// moveToFront moves keys, which must exist, before all others, in the given order.
func (o *ordered[V]) moveToFront(keys []string) {
	o.first -= len(keys)
	for i, k := range keys {
		o.slots[k].place = o.first + i
	}
}

func (o *ordered[V]) values() []V {
	out := make([]V, 0, len(o.slots))
	for _, s := range slices.SortedFunc(maps.Values(o.slots), func(a, b *slot[V]) int { return a.place - b.place }) {
		out = append(out, s.value)
	}
	return out
}
