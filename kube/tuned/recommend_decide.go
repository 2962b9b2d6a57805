package tuned

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Decide returns the profile for a node.
func (r *Rules) Decide(n RecommendedNode) Decision {
	d := Decision{Node: n.Name, State: NoMatch}
	if system, ok := n.Labels["kubernetes.io/os"]; ok && system != "linux" {
		d.State = NotLinux
		return d
	}
	a := asking{Rules: r, node: &n}
	for i := range r.rules {
		rule := &r.rules[i]
		a.ignored = ""
		chosen := a.holds(rule)
		if chosen == nil {
			if a.ignored != "" {
				d.Notes = append(d.Notes, Note{
					Reason: PodLabelsIgnored, Object: rule.object, Path: fmt.Sprintf("spec.recommend[%d]", rule.index), Profile: rule.Profile,
					Text: fmt.Sprintf("%s needs the pod label %s, which the operator does not watch; add it to --pod-labels", where(rule.object, rule.index), a.ignored),
				})
			}
			continue
		}
		d.take(rule, chosen)
		d.Notes = append(d.Notes, a.ties(i)...)
		r.give(&d, rule)
		break
	}
	if a.conflict != nil {
		d.Notes = append(d.Notes, *a.conflict)
	}
	return d
}

// take copies the options of a rule into a decision.
func (d *Decision) take(rule *rule, chosen *Rule) {
	d.State, d.Profile, d.Rule, d.Deferred = Decided, rule.Profile, chosen, rule.deferred
	d.Debug, d.Verbosity = rule.Operand.Debug, rule.Operand.Verbosity
	d.ReapplySysctl, d.UdevSettleS = rule.Operand.TuneDConfig.ReapplySysctl, rule.Operand.TuneDConfig.StartupUdevSettleWait
}

// give adds the profiles that a decision needs, with notes about them.
func (r *Rules) give(d *Decision, rule *rule) {
	for _, m := range rule.need.missing {
		d.Notes = append(d.Notes, Note{Reason: MissingProfile, Object: rule.object, Profile: m.name, Text: m.String()})
	}
	if len(rule.takers) > 1 && d.Rule.By == ByLabels && len(rule.MachineConfigLabels) > 0 {
		d.Notes = append(d.Notes, Note{
			Reason: LabelsAcrossPools, Object: rule.object, Path: fmt.Sprintf("spec.recommend[%d].machineConfigLabels", rule.index),
			Text: fmt.Sprintf("%s: its machineConfigLabels match more than one pool: %s", where(rule.object, rule.index),
				strings.Join(r.pools.taking(rule.MachineConfigLabels), ", ")),
		})
	}
	if len(rule.need.blocked) > 0 {
		d.State = Held
		d.Notes = append(slices.Clone(rule.need.blocked), d.Notes...)
		return
	}
	d.Profiles = slices.Clone(rule.need.names)
	if !rule.need.open {
		return
	}
	d.Profiles = nil
	for name, t := range r.profiles.texts {
		if t.blocked == nil {
			d.Profiles = append(d.Profiles, name)
		}
	}
	slices.Sort(d.Profiles)
}

// ties returns notes about later rules of equal priority that also match but differ.
func (a *asking) ties(decided int) (notes []Note) {
	first := &a.rules[decided]
	for i := decided + 1; i < len(a.rules) && order(a.rules[i].Priority) == order(first.Priority); i++ {
		other := &a.rules[i]
		alike := other.Profile == first.Profile && other.deferred == first.deferred && reflect.DeepEqual(other.Operand, first.Operand)
		if alike || a.holds(other) == nil {
			continue
		}
		same := "no priority either"
		if first.Priority != nil {
			same = "the same " + priority(first.Priority)
		}
		notes = append(notes, Note{
			Reason: Tie, Object: other.object, Path: fmt.Sprintf("spec.recommend[%d]", other.index), Profile: other.Profile,
			Text: fmt.Sprintf("%s (profile %s) also matches, with %s; %s (profile %s) is used, because it comes first",
				where(other.object, other.index), other.Profile, same, where(first.object, first.index), first.Profile),
		})
	}
	return notes
}

// asking is the state of deciding one node.
type asking struct {
	*Rules
	node *RecommendedNode
	// ignored is the first pod label that was ignored because PodLabels is off.
	ignored string

	poolsRead bool
	pools     []string
	conflict  *Note
}

// holds returns the matching parts of a rule, or nil if the rule does not match.
func (a *asking) holds(rule *rule) *Rule {
	by := func(by By) *Rule {
		return &Rule{Object: rule.object, Index: rule.index, Priority: rule.Priority, By: by}
	}
	switch {
	case rule.Match == nil && rule.MachineConfigLabels != nil:
	case len(rule.Match) == 0:
		return by(ByCatchAll)
	default:
		if items := a.any(rule.Match); items != nil {
			out := by(ByMatch)
			out.Items = items
			return out
		}
	}
	if len(rule.takers) == 0 {
		return nil
	}
	if !a.poolsRead {
		a.poolsRead = true
		a.pools, a.conflict = a.Rules.pools.of(a.node.Labels)
	}
	var pools []string
	for _, name := range a.pools {
		if rule.takers[name] {
			pools = append(pools, name)
		}
	}
	if pools == nil {
		return nil
	}
	out := by(ByLabels)
	out.Pools = pools
	return out
}

// any returns the first matching item followed by its matching inner items, or nil.
func (a *asking) any(all []TunedMatch) []Item {
	for i := range all {
		m := &all[i]
		value, pod, ok := a.label(m)
		if !ok {
			continue
		}
		var inside []Item
		if len(m.Match) > 0 {
			if inside = a.any(m.Match); inside == nil {
				continue
			}
		}
		at := fmt.Sprintf("match[%d]", i)
		for j := range inside {
			inside[j].Path = at + "." + inside[j].Path
		}
		return append([]Item{{Path: at, Type: cmp.Or(m.Type, NodeLabel), Label: m.Label, Value: value, Pod: pod}}, inside...)
	}
	return nil
}

// label reports whether the node, or a pod on it, has an item's label. It returns the label's value
// and the pod, the first by name.
func (a *asking) label(m *TunedMatch) (value, pod string, ok bool) {
	if m.Label == "" {
		return "", "", false
	}
	has := func(all map[string]string) bool {
		v, there := all[m.Label]
		return there && (m.Value == nil || *m.Value == v)
	}
	switch m.Type {
	case "", NodeLabel:
		return a.node.Labels[m.Label], "", has(a.node.Labels)
	case PodLabel:
		if !a.options.PodLabels {
			if a.ignored == "" {
				a.ignored = m.Label
			}
			return "", "", false
		}
		for _, p := range a.node.Pods {
			if has(p.Labels) && (!ok || p.Name < pod) {
				value, pod, ok = p.Labels[m.Label], p.Name, true
			}
		}
	}
	return value, pod, ok
}
