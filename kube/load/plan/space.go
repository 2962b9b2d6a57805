package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// documents returns how many objects a group creates for its first nonempty replica.
func (g *group) documents() int {
	if g.each == nil {
		return len(g.bodies)
	}
	for _, bodies := range g.each {
		if len(bodies) > 0 {
			return len(bodies)
		}
	}
	return 0
}

// needsSpaces reports whether a stage creates namespaces. A kube-burner job does so only if an
// object needs a namespace and does not name one.
func (st *stage) needsSpaces(c *compiler) (bool, error) {
	if !st.of.Burner {
		return true, nil
	}
	for _, g := range st.groups {
		for _, bodies := range append(slices.Clip(g.each), g.bodies) {
			for _, b := range bodies {
				switch {
				case !b.kind.Namespaced || b.namespace != nil:
				case st.of.Prefix != "":
					return true, nil
				case !slices.Contains(c.missing, Missing{APIVersion: b.kind.APIVersion, Kind: b.kind.Kind}):
					return false, fmt.Errorf("%s: job %s: a %s needs a namespace; add namespace: NAME to the job", g.of.At, st.of.Name, b.kind.Kind)
				}
			}
		}
	}
	return false, nil
}

// spaces compiles the namespaces of a stage.
func (st *stage) spaces(c *compiler) error {
	s := st.of
	for i := range s.Namespaces() {
		name := s.Prefix
		if !s.Single {
			name = fmt.Sprint(s.Prefix, i)
		}
		if len(name) > 63 {
			return fmt.Errorf("%s: %s is too long for a namespace (at most 63 characters)", s.At, name)
		}
		st.namespaces = append(st.namespaces, name)
	}
	labels := maps.Clone(s.Labels)
	if s.Burner {
		labels = c.spaceLabels(s.Name, labels)
	}
	mark := Mark(s.Prefix+c.run+fmt.Sprint(labels, s.Annotations), 0)
	nameMark := Mark(s.Prefix+c.run+fmt.Sprint(labels, s.Annotations)+mark, 1)
	meta := map[string]any{"name": nameMark}
	for name, value := range labels {
		label(meta, "labels", name, value)
	}
	for name, value := range s.Annotations {
		label(meta, "annotations", name, value)
	}
	b, err := c.body(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, nil, mark, []string{varReplica: nameMark, varIteration: "", varObject: mark})
	if err != nil {
		return fmt.Errorf("%s: %w", s.At, err)
	}
	st.spaceBody = b.text
	return nil
}

// burnerLabels returns the labels that kube-burner gives a job's objects (2.7,
// pkg/burner/create.go); an object's own labels take precedence.
func (c *compiler) burnerLabels(job, index string, values []string) map[string]string {
	const prefix = "kube-burner.io/"
	return map[string]string{
		prefix + "job": job, prefix + "uuid": cmp.Or(c.load.UUID, c.run), prefix + "runid": c.run, prefix + "index": index,
		prefix + "job-iteration": values[varJobIteration], prefix + "replica": values[varReplica], prefix + "group": "0",
	}
}

// addLabels adds the labels that an object does not have yet.
func addLabels(meta map[string]any, labels map[string]string) {
	have, _ := meta["labels"].(map[string]any)
	for name, value := range labels {
		if _, own := have[name]; !own {
			label(meta, "labels", name, value)
		}
	}
}

// spaceLabels returns the labels that kube-burner gives a job's namespaces.
func (c *compiler) spaceLabels(job string, own map[string]string) map[string]string {
	all := map[string]string{"kube-burner.io/job": job, "kube-burner.io/uuid": cmp.Or(c.load.UUID, c.run), "kube-burner.io/runid": c.run}
	maps.Copy(all, own)
	return all
}

// renamed returns a hint if a selector uses labels of kube-burner 1, such as kube-burner-job, which
// version 2 does not set; otherwise "".
func renamed(selector map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(selector)) {
		if rest, ok := strings.CutPrefix(name, "kube-burner-"); ok {
			return fmt.Sprintf("; %s is a label of kube-burner 1, which version 2 calls kube-burner.io/%s", name, rest)
		}
	}
	return ""
}
