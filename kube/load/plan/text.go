package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	"fettle.dev/fettle/internal/text"
)

// text returns a group whose make function renders its Text.
func (c *compiler) text(s *Stage, g *Group, out *group) error {
	t, err := ParseText(g.File, g.Text, Inputs(c.load, g.MissingZero))
	if err != nil {
		return err
	}
	variables, err := Variables(g.Variables)
	if err != nil {
		return err
	}
	out.plain = t.Plain("Replica", "Iteration")
	out.make = func(values []string) ([]map[string]any, error) {
		replica, _ := strconv.Atoi(values[varReplica])
		iteration, _ := strconv.Atoi(values[varIteration])
		all := textValues(c.load, c.run, g.Name, iteration, replica, variables())
		objects, err := t.Objects(all, seedOf(c.load.Seed, s.Prefix, g.At, values[varJobIteration], values[varReplica]))
		return objects, withoutVariable(err)
	}
	return nil
}

// Inputs returns the stored inputs for the texts of a load.
func Inputs(l *Load, missingZero bool) TextInputs {
	kept := func(what string, from map[string]string) func(string) (string, error) {
		return func(name string) (string, error) {
			if text, ok := from[name]; ok {
				return text, nil
			}
			return "", fmt.Errorf("%s %s was not recorded when the file was read", what, name)
		}
	}
	return TextInputs{Helpers: l.Helpers, MissingZero: missingZero, Env: kept("the variable", l.Env), File: kept("the file", l.Files), Now: l.ReadAt}
}

// Variables returns a function for a text's variables. Each call returns a new copy, which the text
// may change. Whole numbers are int, as in kube-burner.
func Variables(text json.RawMessage) (func() map[string]any, error) {
	var all map[string]any
	if len(text) > 0 {
		if err := decodeJSON(text, &all); err != nil {
			return nil, err
		}
	}
	return func() map[string]any {
		out := make(map[string]any, len(all))
		for name, value := range all {
			out[name] = typed(value)
		}
		return out
	}, nil
}

// typed returns a copy of a value with the number types of kube-burner's YAML reader.
func typed(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[name] = typed(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = typed(x)
		}
		return out
	}
	return value
}

// textValues returns the values for a job's text. A text's own variables override others, except
// the numbers of iteration and replica.
func textValues(l *Load, run, job string, iteration, replica int, variables map[string]any) map[string]any {
	all := map[string]any{"UUID": cmp.Or(l.UUID, run), "RunID": run, "JobName": job}
	maps.Copy(all, variables)
	all["Iteration"], all["Replica"] = iteration, replica
	return all
}

// seedOf returns the seed for one rendering; it is the same in every run of a load.
func seedOf(seed uint64, of ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d", seed)
	for _, text := range of {
		h.Write([]byte{0})
		h.Write([]byte(text))
	}
	return h.Sum64()
}

// Text is a template of a stage.
type Text struct {
	At, File, Text string
	MissingZero    bool
	// Render executes the parsed text for each iteration and replica of the stage.
	Render func(t *TextTemplate) error
}

// Texts returns the templates of a stage.
func Texts(l *Load, s *Stage) []Text {
	var all []Text
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Text == "" {
			continue
		}
		all = append(all, Text{g.At, g.File, g.Text, g.MissingZero, func(t *TextTemplate) error {
			if s.Iterations > maxEach || s.Iterations*g.Count > maxEach {
				return tooMany(s.Iterations * g.Count)
			}
			of := &group{of: g}
			return render(t, l, s.Prefix, g.At, g.Name, g.Variables, func(each func(values []string) error) error {
				for n := range s.Iterations * g.Count {
					if i, r := n/g.Count, n%g.Count; g.Made(i) {
						if err := each(of.values(l.Seed, s, i, r, 0)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}})
	}
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.Text == "" {
			continue
		}
		all = append(all, Text{a.At, a.File, a.Text, a.MissingZero, func(t *TextTemplate) error {
			return render(t, l, s.Name, a.At, s.Name, a.Variables, func(each func(values []string) error) error {
				for n := range min(s.Iterations, maxEach) {
					if err := each([]string{varReplica: "0", varIteration: strconv.Itoa(n), varJobIteration: strconv.Itoa(n)}); err != nil {
						return err
					}
				}
				return nil
			})
		}})
	}
	return all
}

// render executes a text for each set of values.
func render(t *TextTemplate, l *Load, of, at, job string, raw json.RawMessage, all func(each func(values []string) error) error) error {
	variables, err := Variables(raw)
	if err != nil {
		return err
	}
	return all(func(values []string) error {
		iteration, _ := strconv.Atoi(values[varIteration])
		replica, _ := strconv.Atoi(values[varReplica])
		_, err := t.Text(textValues(l, "run", job, iteration, replica, variables()), seedOf(l.Seed, of, at, values[varJobIteration], values[varReplica]))
		return withoutVariable(err)
	})
}

// withoutVariable adds a hint how to set the variable to an error about a missing one. As in
// kube-burner, --user-data applies only to the configuration.
func withoutVariable(err error) error {
	if name := MissingKey(err); name != "" {
		return fmt.Errorf("%w: add %s to the object's inputVars (%s: VALUE), or set defaultMissingKeysWithZero: true in its job", err, name, name)
	}
	return err
}

func tooMany(n int) error {
	return text.Errorf("each of its %d replicas needs its own copy, and more than %d would fill the memory; use {{.Replica}} and {{.Iteration}} without functions", n, maxEach)
}
