package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// action is one action of a stage on one object in one iteration.
type action struct {
	stage, number, iteration, object int32
}

// Actions returns the number of actions on the run's objects.
func (p *Plan) Actions() int { return len(p.actions) }

// Action returns the i-th action and the index of its object.
func (p *Plan) Action(i int) (a *Action, object int) {
	x := p.actions[i]
	return &p.stages[x.stage].of.Actions[x.number], int(x.object)
}

// Selector returns the label query for the run's objects that match an action.
func (p *Plan) Selector(a *Action) string {
	return RunLabel + "=" + p.Run + "," + Selected(a.Labels)
}

// Selected returns labels in the form of a query.
func Selected(labels map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return strings.Join(all, ",")
}

// Patch returns a patch's body and its media type. The body contains the UID, so the server rejects
// the patch if another object has taken the name.
func (p *Plan) Patch(i int, uid string) (body []byte, mediaType string, err error) {
	x := p.actions[i]
	s := &p.stages[x.stage]
	a := &s.of.Actions[x.number]
	values := textValues(p.Load, p.Run, s.of.Name, int(x.iteration), 0, s.patches[x.number].variables())
	seed := seedOf(p.Load.Seed, s.of.Name, a.At, strconv.Itoa(int(x.iteration)), strconv.Itoa(int(x.object)))
	t := s.patches[x.number].text
	if a.PatchType == jsonPatch {
		text, err := t.Text(values, seed)
		if err != nil {
			return nil, "", withoutVariable(err)
		}
		var steps []any
		if err := json.Unmarshal([]byte(text), &steps); err != nil {
			return nil, "", fmt.Errorf("%s: want a JSON list: %w", a.File, err)
		}
		same := map[string]any{"op": "test", "path": "/metadata/uid", "value": uid}
		body, err = json.Marshal(append([]any{same}, steps...))
		return body, a.PatchType, err
	}
	o, err := t.Mapping(values, seed)
	if err != nil {
		return nil, "", withoutVariable(err)
	}
	metadata(o)["uid"] = uid
	if a.PatchType == ApplyPatch { // apply patches need the name, and JSON is valid YAML
		metadata(o)["name"] = p.Name(int(x.object))
	}
	body, err = json.Marshal(o)
	return body, a.PatchType, err
}

// Media types that patches treat differently.
const (
	jsonPatch  = "application/json-patch+json"
	ApplyPatch = "application/apply-patch+yaml"
)

// patch is an action's parsed template.
type patch struct {
	text      *TextTemplate
	variables func() map[string]any
}

// act adds the operations of a stage with actions.
func (p *Plan) act(ctx context.Context, number int, st *stage, every time.Duration, each bool) error {
	s := st.of
	objects := make([][]int32, len(s.Actions))
	for i := range s.Actions {
		a := &s.Actions[i]
		var x patch
		var err error
		if a.Text != "" {
			if x.text, err = ParseText(a.File, a.Text, Inputs(p.Load, a.MissingZero)); err == nil {
				x.variables, err = Variables(a.Variables)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.At, err)
		}
		st.patches = append(st.patches, x)
		if objects[i], err = p.matching(a); err != nil {
			return err
		}
		if len(p.actions)+s.Iterations*len(objects[i]) > MaxObjects {
			return tooLarge(a.At, len(p.actions)+s.Iterations*len(objects[i]))
		}
	}
	p.stages[number] = *st
	begin := len(p.actions)
	add := func(i, iteration int) {
		from := len(p.actions)
		for _, o := range objects[i] {
			p.actions = append(p.actions, action{int32(number), int32(i), int32(iteration), o})
		}
		p.add(Op{Do: Act, From: from, To: len(p.actions), Every: every, Each: each, At: s.Actions[i].At, Action: &s.Actions[i]})
	}
	settle := func(from int) {
		if s.Wait > 0 && len(p.actions) > from {
			p.add(Op{Do: Settle, From: from, To: len(p.actions), Acted: true, Timeout: s.Wait, At: s.At, Must: true})
		}
	}
	if s.Parallel {
		for i := range s.Actions {
			for iteration := range s.Iterations {
				add(i, iteration)
			}
		}
		settle(begin)
	}
	for iteration := range s.Iterations {
		if s.Parallel {
			break
		}
		from := len(p.actions)
		for i := range s.Actions {
			a := &s.Actions[i]
			add(i, iteration)
			p.add(Op{Do: Drain})
			if a.Gone > 0 {
				p.add(Op{Do: Gone, Action: a, Timeout: a.Gone, At: a.At})
			}
			if a.After > 0 {
				p.add(Op{Do: Pause, Timeout: a.After, At: a.At})
			}
		}
		settle(from)
		if s.Between > 0 {
			p.add(Op{Do: Pause, Timeout: s.Between, At: s.At})
		}
	}
	p.add(Op{Do: Drain})
	// Render the first patch of each text to find errors early.
	if err := p.try(begin); err != nil {
		return err
	}
	return p.rescale(ctx, &p.stages[number], begin)
}

// try renders the first patch of each action, from index from.
func (p *Plan) try(from int) error {
	tried := map[int32]bool{}
	for i := from; i < len(p.actions); i++ {
		if x := p.actions[i]; !tried[x.number] {
			tried[x.number] = true
			if a, _ := p.Action(i); a.Do == Patch {
				if _, _, err := p.Patch(i, "uid"); err != nil {
					return fmt.Errorf("%s: %w", a.At, err)
				}
			}
		}
	}
	return nil
}

// matching returns the objects that exist at a stage's start and match an action's kind and labels.
func (p *Plan) matching(a *Action) ([]int32, error) {
	var all []int32
	for i := range p.objects {
		k := p.Kind(i)
		if k.Kind != a.Kind || GroupOf(k.APIVersion) != GroupOf(a.APIVersion) || p.removed[int32(i)] {
			continue
		}
		var o struct {
			Metadata struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(p.Body(i), &o); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", p.At(i), p.Describe(i), err)
		}
		if !HasLabels(o.Metadata.Labels, a.Labels) {
			continue
		}
		all = append(all, int32(i))
	}
	if a.Do == Remove {
		for _, i := range all {
			p.removed[i] = true
		}
	}
	_, known := p.KindOf(a)
	switch {
	case len(all) > 0:
	case a.Gone > 0 && known:
		p.Notes = append(p.Notes, fmt.Sprintf("%s: delete: the load creates no %s with %s; nothing is deleted; the job only waits until objects of controllers with these labels are gone%s", a.At, a.Kind, Selected(a.Labels), renamed(a.Labels)))
	default:
		p.Notes = append(p.Notes, fmt.Sprintf("%s: %s: the load creates no %s with %s; nothing done, because other clients' objects are never touched%s", a.At, a.Do, a.Kind, Selected(a.Labels), renamed(a.Labels)))
	}
	return all, nil
}

// HasLabels reports whether labels contains all of want.
func HasLabels(labels, want map[string]string) bool {
	for name, value := range want {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// GroupOf returns an apiVersion's group; "" for the core group.
func GroupOf(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group
}

// KindOf returns the server's kind for an action's objects; ok is false if unknown.
func (p *Plan) KindOf(a *Action) (Kind, bool) {
	for k := range p.kinds {
		if k.Kind == a.Kind && GroupOf(k.APIVersion) == GroupOf(a.APIVersion) {
			return k, true
		}
	}
	return usual.find(a.APIVersion, a.Kind)
}
