package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// pods adds the pods of a project to s. As in the older loader (openshift/svt, utils.py), the first
// item may be a total; num of the other items is then a percentage of it.
func (r *reading) pods(s *plan.Stage, list []clusterloaderItem, pace *plan.Pace) {
	if len(list) > 0 && list[0].Total != nil && list[0].BaseName == "" && list[0].Num == 0 && list[0].File == "" {
		at := list[0].At
		total, err := strconv.Atoi(list[0].Total.Value)
		if err != nil || total < 0 || total > plan.MaxObjects {
			r.Fault(list[0].Total, "total: want a number of 0 to %d, found %s", plan.MaxObjects, strict.Found(list[0].Total))
			return
		}
		if list = list[1:]; total != 100 {
			r.note(at, "total is %d pods; as in the earlier loader, num is a percentage of total", total)
		}
		for i := range list {
			list[i].Num = int(int64(min(list[i].Num, plan.MaxObjects)) * int64(total) / 100)
		}
	}
	for i := range list {
		r.none(list[i].At, list[i].Num, "pods")
		r.pod(s, &list[i], pace)
	}
}

// pod adds pods from a file, or with only an image.
func (r *reading) pod(s *plan.Stage, it *clusterloaderItem, p *plan.Pace) {
	for _, n := range []struct {
		name string
		node bool
	}{{"total", it.Total != nil}, {"storage", it.Storage != nil}} {
		if n.node {
			r.note(it.At, "%s ignored (used only by the earlier loader)", n.name)
		}
	}
	if len(it.BaseName) > maxBase {
		r.FaultAt(it.At, "basename: %q has %d characters, at most %d allowed, because a number is appended", it.BaseName, len(it.BaseName), maxBase)
		return
	}
	if it.BaseName == "" || !validBase(it.BaseName) {
		r.FaultAt(it.At, "basename: %q cannot begin a pod name; want lower-case letters, digits and -", it.BaseName)
		return
	}
	g := plan.Group{At: it.At, Count: it.Num, Name: it.BaseName, Pace: p, Sync: r.sync(it.Sync)}
	pod := map[string]any{}
	switch {
	case it.File != "":
		name, text := r.open(it.At, it.File)
		if name == "" {
			return
		}
		g.File = name
		if it.Image != "" {
			r.note(it.At, "image is ignored; the images come from %s", name)
		}
		doc, err := r.document(name, text)
		if err == nil {
			if pod, err = podOf(doc); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		if err != nil {
			r.FaultAt(it.At, "%w", err)
			return
		}
	case it.Image != "":
		pod["spec"] = map[string]any{
			"restartPolicy": "Never",
			"containers":    []any{map[string]any{"name": "test-container", "image": it.Image}},
		}
	default:
		r.FaultAt(it.At, "pods have neither file nor image")
		return
	}
	values := map[string]string{}
	for _, x := range it.Parameters {
		if value, ok := r.value(x); ok {
			values[x.Name] = value
		}
	}
	if err := override(pod, values); err != nil {
		r.FaultAt(it.At, "parameters: %w", err)
		return
	}
	meta, _ := pod["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["purpose"] = "test" // Cluster Loader's label for its pods
	keep := map[string]any{"labels": labels}
	if notes, ok := meta["annotations"]; ok {
		keep["annotations"] = notes
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": keep, "spec": pod["spec"]})
	if err != nil {
		r.FaultAt(it.At, "%w", err)
		return
	}
	g.Pod = text
	s.Groups = append(s.Groups, g)
}

// podOf parses a pod or a pod spec.
func podOf(text []byte) (map[string]any, error) {
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("cannot read the file as a pod: %w", err)
	}
	if _, spec := o["containers"].([]any); spec && o["kind"] == nil {
		return map[string]any{"spec": o}, nil
	}
	if o["kind"] != "Pod" || o["apiVersion"] != "v1" {
		return nil, fmt.Errorf("want a Pod of v1, found %v of %v", o["kind"], o["apiVersion"])
	}
	if _, ok := o["spec"].(map[string]any); !ok {
		return nil, fmt.Errorf("the pod has no spec")
	}
	return o, nil
}

// override sets environment variables of a pod's first container.
func override(pod map[string]any, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	spec, _ := pod["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return fmt.Errorf("the pod has no container")
	}
	first, _ := containers[0].(map[string]any)
	env, _ := first["env"].([]any)
	var names []string
	for _, e := range env {
		if m, ok := e.(map[string]any); ok {
			name, _ := m["name"].(string)
			names = append(names, name)
			if value, given := values[name]; given {
				delete(m, "valueFrom")
				m["value"] = value
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			has := "none"
			if len(names) > 0 {
				has = strings.Join(names, ", ")
			}
			return fmt.Errorf("the first container of the pod has no environment variable %s, only %s", name, has)
		}
	}
	return nil
}

// object adds the objects of a manifest file, with ${NAME} replaced; this is fettle's extension.
func (r *reading) object(s *plan.Stage, it *clusterloaderItem, p *plan.Pace) {
	if it.File == "" {
		r.FaultAt(it.At, "objects have no file")
		return
	}
	name, text := r.open(it.At, it.File)
	if name == "" {
		return
	}
	sub := &strict.Reader{File: name}
	docs := sub.Documents(text)
	if sub.Err() == nil && len(docs) == 0 {
		r.FaultAt(it.At, "%s has no object", name)
	}
	given := map[string]string{}
	for _, x := range it.Parameters {
		if value, ok := r.value(x); ok {
			given[x.Name] = value
		}
	}
	// The template declares no parameters, so the given ones are all.
	parameters := []any{map[string]any{"name": identifier}}
	for _, n := range slices.Sorted(maps.Keys(given)) {
		if n != identifier {
			parameters = append(parameters, map[string]any{"name": n})
		}
	}
	var objects []json.RawMessage
	for _, d := range docs {
		if kind := strict.Get(d, "kind"); kind == nil || kind.Value == "" || strict.Get(d, "apiVersion") == nil {
			sub.Fault(d, "an object has no apiVersion or no kind")
			continue
		}
		objects = append(objects, sub.JSON(d))
	}
	if err := sub.Err(); err != nil {
		r.FaultAt(it.At, "%w", err)
		return
	}
	whole, err := json.Marshal(map[string]any{"apiVersion": "template.openshift.io/v1", "kind": "Template", "parameters": parameters, "objects": objects})
	if err != nil {
		r.FaultAt(it.At, "%w", err)
		return
	}
	s.Groups = append(s.Groups, plan.Group{At: it.At, Count: it.Num, Template: whole, Parameters: given, File: name, Pace: p, Sync: r.sync(it.Sync)})
}
