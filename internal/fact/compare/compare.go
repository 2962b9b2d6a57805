package compare

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// MaxMachines limits the machines of one comparison.
const MaxMachines = 5000

// maxNames limits the different names of all machines together.
const maxNames = 400_000

// Comparison collects the values of machines. It keeps one number for each value of each machine,
// and each text once.
type Comparison struct {
	machines []Machine
	keys     map[string]*key
	scopes   map[string]*scopes
	texts    []string
	ids      map[string]uint32
}

// Numbers of values that are not texts.
const (
	idMissing uint32 = iota // the machine has no such name; its scopes say whether it is absent
	idUnknown
	idAbsent
	idTexts // the first text
)

// key is one name.
type key struct {
	value
	ids []uint32 // by machine; shorter if the last machines lack it
}

// scopes is what is known of a scope on each machine.
type scopes struct {
	parent string
	is     []scopeState // by machine
}

type scopeState byte

const (
	scopeMissing scopeState = iota
	scopeComplete
	scopeUnknown
)

// New returns an empty comparison.
func New() *Comparison {
	return &Comparison{keys: map[string]*key{}, scopes: map[string]*scopes{}, texts: make([]string, idTexts), ids: map[string]uint32{}}
}

var errTooMany = errors.New("too many different names of values to compare")

// Add adds a machine under a name.
func (c *Comparison) Add(name string, s *Snapshot) error {
	i := len(c.machines)
	if i == MaxMachines {
		return text.Errorf("more than %d machines", MaxMachines)
	}
	c.machines = append(c.machines, Machine{Name: name, Hostname: s.hostname})
	for _, v := range s.values {
		k := c.keys[v.name]
		if k == nil {
			if len(c.keys) == maxNames {
				return errTooMany
			}
			kept := v
			kept.text = ""
			kept.name, kept.pattern, kept.item, kept.scope, kept.at = strings.Clone(v.name), strings.Clone(v.pattern), strings.Clone(v.item), strings.Clone(v.scope), strings.Clone(v.at)
			k = &key{value: kept}
			c.keys[kept.name] = k
		}
		k.ids = append(k.ids, make([]uint32, i-len(k.ids))...)
		k.ids = append(k.ids, c.id(v))
	}
	for _, s := range s.scopes {
		o := c.scopes[s.name]
		if o == nil {
			o = &scopes{parent: strings.Clone(s.parent)}
			c.scopes[strings.Clone(s.name)] = o
		}
		if len(o.is) > i {
			continue
		}
		o.is = append(o.is, make([]scopeState, i-len(o.is))...)
		is := scopeUnknown
		if s.complete {
			is = scopeComplete
		}
		o.is = append(o.is, is)
	}
	return nil
}

// id returns the number of a value.
func (c *Comparison) id(v value) uint32 {
	switch v.state {
	case unknown:
		return idUnknown
	case absent:
		return idAbsent
	}
	id, ok := c.ids[v.text]
	if !ok {
		id = uint32(len(c.texts))
		t := strings.Clone(v.text)
		c.texts = append(c.texts, t)
		c.ids[t] = id
	}
	return id
}

// of returns the number of a key's value on a machine: idMissing if the key is part of something
// that the machine lacks as a whole.
func (c *Comparison) of(k *key, i int) uint32 {
	if i < len(k.ids) && k.ids[i] != idMissing {
		return k.ids[i]
	}
	own := true
	for name := k.scope; ; own = false {
		s := c.scopes[name]
		if s == nil {
			return idUnknown
		}
		if i < len(s.is) {
			switch {
			case s.is[i] == scopeUnknown:
				return idUnknown
			case s.is[i] == scopeComplete && own:
				return idAbsent
			case s.is[i] == scopeComplete:
				return idMissing
			}
		}
		if s.parent == "" {
			return idUnknown
		}
		name = s.parent
	}
}

// groupsOf returns the machines of each known value, the most frequent value first, and the machines
// where the value is unknown.
func (c *Comparison) groupsOf(k *key) (groups []group, unknown []int) {
	at := map[uint32]int{}
	for i := range c.machines {
		switch id := c.of(k, i); id {
		case idMissing:
		case idUnknown:
			unknown = append(unknown, i)
		default:
			g, ok := at[id]
			if !ok {
				g = len(groups)
				at[id] = g
				groups = append(groups, group{id: id})
			}
			groups[g].on = append(groups[g].on, i)
		}
	}
	byFrequency(groups)
	return groups, unknown
}

func byFrequency(groups []group) {
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.on), len(a.on)) })
}

// mergeNear merges the groups whose sizes differ by at most closeTo. The most frequent value stands
// for all.
func (c *Comparison) mergeNear(groups []group) (merged []group) {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(firstNumber(c.texts[a.id]), firstNumber(c.texts[b.id])), cmp.Compare(a.id, b.id))
	})
	most, from := 0, ""
	for _, g := range groups {
		n := len(merged) - 1
		if g.id < idTexts || n < 0 || merged[n].id < idTexts || !near([]string{from, c.texts[g.id]}) {
			merged, most, from = append(merged, group{g.id, slices.Clone(g.on)}), len(g.on), c.texts[g.id]
			continue
		}
		if merged[n].on = append(merged[n].on, g.on...); len(g.on) > most {
			merged[n].id, most = g.id, len(g.on)
		}
		slices.Sort(merged[n].on)
	}
	byFrequency(merged)
	return merged
}

// group is one value and the machines that have it.
type group struct {
	id uint32
	on []int
}

// same reports quickly whether all machines have the same text.
func (k *key) same(machines int) bool {
	return len(k.ids) == machines && k.ids[0] >= idAbsent && !slices.ContainsFunc(k.ids, func(id uint32) bool { return id != k.ids[0] })
}

// difference is a value that differs.
type difference struct {
	*key
	groups  []group
	unknown []int
	fold    fold
	sources [][]Source // by group
}

// differences returns the values that differ, by name, and the number of values that are unknown on
// some machines and equal on the others.
func (c *Comparison) differences() (found []*difference, notCompared int) {
	for _, k := range c.keys {
		if k.same(len(c.machines)) {
			continue
		}
		groups, unknown := c.groupsOf(k)
		if len(groups) > 1 {
			found = append(found, c.difference(k, groups, unknown))
		} else if len(groups) == 1 && len(unknown) > 0 {
			notCompared++
		}
	}
	// Directories that a machine lacks.
	for name, s := range c.scopes {
		if d := c.missingScope(name, s); d != nil {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b *difference) int { return cmp.Or(fact.Natural(a.name, b.name), cmp.Compare(a.scope, b.scope)) })
	return found, notCompared
}

func (c *Comparison) difference(k *key, groups []group, unknown []int) *difference {
	d := &difference{key: k, groups: groups, unknown: unknown, fold: c.foldOf(k, groups)}
	if foldOf(k.name) == perBoot {
		if merged := c.mergeNear(groups); len(merged) > 1 {
			d.groups = merged
		} else {
			d.fold = perBoot
		}
	}
	d.sources = make([][]Source, len(d.groups))
	return d
}

// missingScope returns the difference that some machines lack a directory of settings.
func (c *Comparison) missingScope(name string, s *scopes) *difference {
	if !strings.HasPrefix(name, "/") || perDevice(pathDir(name)) {
		return nil
	}
	presence := &key{value: value{name: directoryName(name), scope: s.parent, at: name}}
	presence.pattern = presence.name
	yes := c.id(value{text: "present"})
	for i := range c.machines {
		id := idMissing
		if i < len(s.is) && s.is[i] != scopeMissing {
			id = yes
		}
		presence.ids = append(presence.ids, id)
	}
	groups, unknown := c.groupsOf(presence)
	if len(groups) < 2 {
		return nil
	}
	return c.difference(presence, groups, unknown)
}

// foldOf returns why a difference is only noise, or "".
func (c *Comparison) foldOf(k *key, groups []group) fold {
	if known := foldOf(k.name); known == identity || known == momentary {
		return known
	}
	if matchAny(versions, k.pattern) || slices.ContainsFunc(groups, func(g group) bool { return g.id < idTexts }) {
		return ""
	}
	first := ""
	for i, g := range groups {
		for j, m := range g.on {
			plain := withoutIdentity(c.texts[g.id], c.machines[m].Hostname)
			if i == 0 && j == 0 {
				first = plain
			} else if plain != first {
				return ""
			}
			if c.machines[m].Hostname == "" {
				break
			}
		}
	}
	return identity
}

// foldFollowers folds the values that follow another one and that no file or profile sets.
func (c *Comparison) foldFollowers(all []*difference) {
	leaders := map[string]*difference{}
	for _, d := range all {
		leaders[d.name] = d
	}
	for _, d := range all {
		if d.fold != "" || slices.ContainsFunc(d.sources, func(s []Source) bool { return len(s) > 0 }) {
			continue
		}
		names := follows(d.name)
		if !d.fact && slices.ContainsFunc(d.groups, func(g group) bool { return g.id == idAbsent }) {
			names = append(names, "kernel.release")
		}
		for _, name := range names {
			if leader := leaders[name]; leader != nil && leader.covers(d) {
				d.fold = follow(leader.name)
				break
			}
		}
	}
}

// follow returns the fold of values that follow another one.
func follow(leader string) fold { return fold("what follows " + leader) }

func isFile(at string) bool {
	return strings.HasPrefix(at, "/proc/sys/") || strings.HasPrefix(at, "/sys/")
}

// covers reports whether d follows l: all machines with one value of l have one value of d.
func (l *difference) covers(d *difference) bool {
	of := map[int]uint32{}
	for _, g := range d.groups {
		for _, i := range g.on {
			of[i] = g.id
		}
	}
	for _, g := range l.groups {
		first, any := uint32(0), false
		for _, i := range g.on {
			id, ok := of[i]
			if ok && any && id != first {
				return false
			}
			if ok {
				first, any = id, true
			}
		}
	}
	return true
}

// directoryName names a directory of settings.
func directoryName(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "/proc/sys/"); ok {
		return strings.ReplaceAll(rest, "/", ".") + ".*"
	}
	return strings.TrimSuffix(dir, "/parameters") + "/*"
}

func pathDir(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 0)] }

// namesOf returns the names of machines.
func (c *Comparison) namesOf(on []int) []string {
	out := make([]string, len(on))
	for i, m := range on {
		out[i] = c.machines[m].Name
	}
	return out
}
