package tuned

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
)

// pools are the cluster's pools, ordered by name.
type pools struct {
	all   []pool
	notes []Note
}

type pool struct {
	name           string
	nodes, configs labels.Selector
}

// Names of the pools that OpenShift creates. All others are custom.
const (
	masterPool = "master"
	workerPool = "worker"
)

func newPools(all []Pool) *pools {
	p := &pools{}
	for _, from := range all {
		read := func(what string, s *metav1.LabelSelector) labels.Selector {
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				p.notes = append(p.notes, Note{Reason: InvalidPool, Text: fmt.Sprintf("pool %s: %s selects nothing: %v", from.Name, what, err)})
				return labels.Nothing()
			}
			if selector.Empty() {
				return labels.Nothing()
			}
			return selector
		}
		p.all = append(p.all, pool{from.Name, read("nodeSelector", from.NodeSelector), read("machineConfigSelector", from.MachineConfigSelector)})
	}
	slices.SortStableFunc(p.all, func(a, b pool) int { return cmp.Compare(a.name, b.name) })
	return p
}

// taking returns the pools that select a MachineConfig with these labels.
func (p *pools) taking(configLabels map[string]string) []string {
	var names []string
	for _, pool := range p.all {
		if pool.configs.Matches(labels.Set(configLabels)) {
			names = append(names, pool.name)
		}
	}
	return names
}

// of returns the pools whose MachineConfigs a node with these labels gets. A node in one custom
// pool gets those of master if it is also in master, otherwise those of the custom pool; if it is
// also in worker, it gets those of worker in addition. A node in no custom pool gets those of
// master, or else of worker. A node in several custom pools gets none, because its pool is
// ambiguous; conflict explains this.
func (p *pools) of(nodeLabels map[string]string) (names []string, conflict *Note) {
	var own []string
	in := map[string]bool{}
	for _, pool := range p.all {
		if !pool.nodes.Matches(labels.Set(nodeLabels)) {
			continue
		}
		if in[pool.name] = true; pool.name != masterPool && pool.name != workerPool {
			own = append(own, pool.name)
		}
	}
	switch {
	case len(own) > 1:
		return nil, &Note{Reason: SeveralPools, Text: fmt.Sprintf("the node is in the pools %s, so no machineConfigLabels match it", strings.Join(own, ", "))}
	case len(own) == 1:
		names = own
		if in[masterPool] {
			names = []string{masterPool}
		}
		if in[workerPool] {
			names = append(names, workerPool)
		}
	case in[masterPool]:
		names = []string{masterPool}
	case in[workerPool]:
		names = []string{workerPool}
	}
	return names, nil
}

// strangers notes profile sections without a plug-in, and options unknown to their plug-in. Nodes
// ignore both and apply the rest. It skips disabled sections. chosen are the profiles that rules
// name.
func (p *catalogue) strangers(chosen map[string]bool) {
	for _, c := range p.read {
		for i := range c.sections {
			s := &c.sections[i]
			if s.Name == "main" || s.Type == "variables" || !s.Enabled {
				continue
			}
			types := []string{s.Type}
			if _, known := plugin.Find(table.All, s.Type); !known {
				if over, given := p.over(c.Name, s.Name, chosen, map[string]bool{}); given {
					types = over
				}
			}
			c.strange(s, types)
		}
	}
}

// strange notes a section's options that none of its possible plug-ins has.
func (c readCopy) strange(s *profile.Section, types []string) {
	var plugins []*plugin.Plugin
	for _, t := range types {
		if p, ok := plugin.Find(table.All, t); ok {
			plugins = append(plugins, p)
		}
	}
	switch {
	case len(plugins) == 0 && slices.Contains(types, s.Type):
		at := s.Pos
		if t := s.Line("type"); t != nil {
			at = t.Pos
		}
		c.add(c.line(UnknownPlugin, at, plugin.UnknownType(table.All, &profile.Unit{Type: s.Type}).Text))
		return
	case len(plugins) == 0: // not a plug-in, which is noted where it is set
		return
	}
	for _, l := range s.Options() {
		if !slices.ContainsFunc(plugins, func(p *plugin.Plugin) bool { _, has := p.Option(l.Name); return has }) {
			c.add(c.line(UnknownOption, l.Pos, plugins[0].UnknownOption(profile.Option{Name: l.Name}).Text))
		}
	}
}

// over returns a section's effective types if its profile is only included by others. The last
// section of that name that is read sets the type, in the including profile or a later included
// one. ok is false if a node may get the section with its own type.
func (p *catalogue) over(name, section string, chosen, seen map[string]bool) (types []string, given bool) {
	if chosen[name] || seen[name] {
		return nil, false
	}
	seen[name] = true
	for by, t := range p.texts {
		at := slices.IndexFunc(t.includes, func(i include) bool { return i.name == name })
		if at < 0 || by == name {
			continue
		}
		last, has := p.last(by, at, section, map[string]bool{})
		if !has {
			more, given := p.over(by, section, chosen, seen)
			if !given {
				return nil, false
			}
			types = append(types, more...)
			continue
		}
		types = append(types, last)
	}
	slices.Sort(types)
	return slices.Compact(types), len(types) > 0
}

// last returns the type of the last section with this name in a profile and its includes after
// index after; -1 means all includes.
func (p *catalogue) last(name string, after int, section string, seen map[string]bool) (typ string, has bool) {
	t := p.texts[name]
	if t == nil || seen[name] {
		return "", false
	}
	seen[name] = true
	for i := range t.sections {
		if t.sections[i].Name == section {
			return t.sections[i].Type, true
		}
	}
	for i := len(t.includes) - 1; i > after; i-- {
		if typ, has = p.last(t.includes[i].name, -1, section, seen); has {
			return typ, true
		}
	}
	return "", false
}

// line returns a note about a line of the profile.
func (c copyOf) line(reason Reason, at profile.Pos, text string) Note {
	return c.note(reason, at.Line, "profile %s, line %d: %s", c.Name, at.Line, text)
}
