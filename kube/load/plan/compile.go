package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Variables of every object; the generated ones follow.
const (
	varReplica = iota
	varIteration
	varObject
	varJobIteration // the stage's iteration, even if Every divides it
	varFirstGenerated
)

// body is one of the objects that a group creates per replica.
type body struct {
	kind      Kind
	name      *Skeleton
	namespace *Skeleton // nil means the iteration's namespace
	text      *Skeleton
	scale     scale
}

// group is a compiled Group.
type group struct {
	of *Group
	// make returns a replica's objects for the values of the variables.
	make      func(values []string) ([]map[string]any, error)
	generated []generated
	// bodies are one set for all replicas if these differ only in texts; otherwise one per
	// iteration and replica.
	bodies []body
	each   [][]body
	// plain reports whether replicas of a Text differ only in texts.
	plain bool
}

type generated struct {
	parameter string
	generate  func(number func() uint64) string
}

// compiler is the state of one call of Compile.
type compiler struct {
	load  *Load
	run   string
	kinds Kinds
	// missing are the kinds that the server lacks, and where they are used.
	missing []Missing
}

// source returns a group whose make function creates its objects.
func (c *compiler) source(s *Stage, g *Group) (*group, error) {
	out := &group{of: g}
	switch {
	case g.Pod != nil || g.Manifest != nil:
		text := g.Manifest
		if g.Pod != nil {
			text = g.Pod
		}
		out.make = func(values []string) ([]map[string]any, error) {
			o, err := decode(text)
			if err != nil {
				return nil, err
			}
			if g.Pod != nil {
				metadata(o)["name"] = g.Name + "-pod-" + values[varReplica]
			}
			return []map[string]any{o}, nil
		}
	case g.Template != nil:
		t, err := ParseObject(g.File, g.Template)
		if err != nil {
			return nil, err
		}
		names := t.Generated(g.Parameters)
		_, chosen := g.Parameters[identifier]
		if t.Has(identifier) && !chosen {
			names = slices.DeleteFunc(names, func(n string) bool { return n == identifier })
		}
		for _, name := range names {
			out.generated = append(out.generated, generated{name, func(number func() uint64) string {
				return t.Values(g.Parameters, func(string) func() uint64 { return number })[name]
			}})
		}
		out.make = func(values []string) ([]map[string]any, error) {
			given := map[string]string{}
			for name, value := range g.Parameters {
				given[name] = value
			}
			if t.Has(identifier) && !chosen {
				given[identifier] = values[varReplica]
			}
			for i, name := range names {
				given[name] = values[varFirstGenerated+i]
			}
			return t.Process(t.Values(given, func(string) func() uint64 { return func() uint64 { return 0 } })), nil
		}
	case g.Text != "":
		if err := c.text(s, g, out); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("nothing to create")
	}
	return out, nil
}

// identifier is the template parameter for the replica's number.
const identifier = "IDENTIFIER"

// differsInText reports whether a group's replicas differ only where variables are inserted.
func (g *group) differsInText() bool {
	switch {
	case g.of.Text != "":
		return g.plain
	case g.of.Template != nil:
		for _, p := range g.generated {
			if strings.Contains(string(g.of.Template), "${{"+p.parameter+"}}") {
				return false // the result depends on the value
			}
		}
	}
	return true
}

// compile creates the bodies of a group. index is the number of its first object within a
// kube-burner job.
func (c *compiler) compile(s *Stage, g *Group, index int) (*group, error) {
	out, err := c.source(s, g)
	if err != nil {
		return nil, err
	}
	if out.differsInText() {
		whole := string(g.Pod) + string(g.Manifest) + string(g.Template) + g.Text + string(g.Variables) + fmt.Sprint(g.Parameters) + c.run
		marks := make([]string, varFirstGenerated+len(out.generated))
		for i := range marks {
			marks[i] = Mark(whole, i)
		}
		if out.bodies, err = c.bodies(s, out, marks, marks, index); err != nil {
			return nil, err
		}
		return out, nil
	}
	if s.Iterations*g.Count > maxEach {
		return nil, tooMany(s.Iterations * g.Count)
	}
	for i := range s.Iterations {
		for r := range g.Count {
			if !g.Made(i) {
				out.each = append(out.each, nil)
				continue
			}
			values := out.values(c.load.Seed, s, i, r, 0)
			values[varObject] = Mark("", 0)
			one, err := c.bodies(s, out, values, []string{varObject: values[varObject]}, index)
			if err != nil {
				return nil, err
			}
			out.each = append(out.each, one)
		}
	}
	return out, nil
}

// maxEach limits the replicas with bodies of their own.
const maxEach = 20_000

// values returns the values of the variables for one replica and object number.
func (g *group) values(seed uint64, s *Stage, iteration, replica, object int) []string {
	values := make([]string, varFirstGenerated, varFirstGenerated+len(g.generated))
	values[varJobIteration] = strconv.Itoa(iteration)
	if g.of.Every > 1 {
		iteration /= g.of.Every
	}
	if s.Burner {
		replica++
	}
	values[varReplica], values[varIteration], values[varObject] = strconv.Itoa(replica), strconv.Itoa(iteration), strconv.Itoa(object)
	for _, p := range g.generated {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d\x00%d", s.Prefix, g.of.At, p.parameter, iteration, replica)
		values = append(values, p.generate(rand.New(rand.NewPCG(seed, h.Sum64())).Uint64))
	}
	return values
}

// bodies creates the objects for values. It splits the JSON of each object at the marks that are
// not empty.
func (c *compiler) bodies(s *Stage, g *group, values, marks []string, index int) ([]body, error) {
	objects, err := g.make(values)
	if err != nil {
		return nil, err
	}
	var out []body
	for i, o := range objects {
		var labels map[string]string
		if s.Burner {
			labels = c.burnerLabels(s.Name, strconv.Itoa(index+i), values)
		}
		b, err := c.body(o, labels, values[varObject], marks)
		if err != nil {
			return nil, fmt.Errorf("%s: object %d: %w", g.of.File, i+1, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// Labels and annotations of the run's objects.
const (
	// RunLabel has the run's ID; controllers' pods have it too.
	RunLabel = "fettle.dev/load-run"
	// ObjectNote has the object's number in the run's plan.
	ObjectNote = "fettle.dev/load-object"
)

func (c *compiler) body(o map[string]any, labels map[string]string, number string, marks []string) (body, error) {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	if group, old := legacy[kind]; old && version == "v1" {
		version = group
		o["apiVersion"] = group
	}
	if kind == "" || version == "" {
		return body{}, errors.New("apiVersion or kind missing")
	}
	meta := metadata(o)
	name, _ := meta["name"].(string)
	if name == "" {
		return body{}, fmt.Errorf("the %s has no metadata.name (generateName is not supported, because resume and undo need the name)", kind)
	}
	b := body{kind: c.kind(version, kind)}
	if space, ok := meta["namespace"].(string); ok && space != "" && b.kind.Namespaced {
		b.namespace = Cut([]byte(space), marksOf(marks))
	}
	delete(meta, "namespace")
	addLabels(meta, labels)
	label(meta, "labels", RunLabel, c.run)
	label(meta, "annotations", ObjectNote, number)
	spec, _ := o["spec"].(map[string]any)
	if path := podHolders[kind]; path != nil && spec != nil {
		at := spec
		for _, step := range path {
			at, _ = at[step].(map[string]any)
		}
		if at != nil {
			addLabels(metadata(at), labels)
			label(metadata(at), "labels", RunLabel, c.run)
		}
	}
	b.scale = scaleOf(kind, spec)
	text, err := json.Marshal(o)
	if err != nil {
		return body{}, err
	}
	b.name = Cut([]byte(name), marksOf(marks))
	b.text = Cut(text, marksOf(marks))
	return b, nil
}

// marksOf replaces empty marks with a text that cannot occur.
func marksOf(marks []string) []string {
	out := slices.Clone(marks)
	for i, m := range out {
		if m == "" {
			out[i] = "\x00" // never occurs in JSON
		}
	}
	return out
}

// kind returns the server's kind, and records it if the server lacks it.
func (c *compiler) kind(version, name string) Kind {
	if k, ok := c.kinds.find(version, name); ok {
		return k
	}
	k, ok := usual.find(version, name)
	if !ok {
		k = Kind{version, name, strings.ToLower(name) + "s", true}
	}
	if c.kinds == nil && ok {
		return k
	}
	if !slices.ContainsFunc(c.missing, func(m Missing) bool { return m.Kind == name && m.APIVersion == version }) {
		c.missing = append(c.missing, Missing{APIVersion: version, Kind: name})
	}
	return k
}

// metadata returns an object's metadata map, and creates it if missing.
func metadata(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func label(meta map[string]any, field, name, value string) {
	m, _ := meta[field].(map[string]any)
	if m == nil {
		m = map[string]any{}
		meta[field] = m
	}
	m[name] = value
}

func decode(text []byte) (map[string]any, error) {
	var o map[string]any
	err := decodeJSON(text, &o)
	if err == nil && o == nil {
		err = errors.New("not an object")
	}
	return o, err
}

// decodeJSON decodes one JSON value and keeps numbers as written.
func decodeJSON(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one value")
	}
	return nil
}
