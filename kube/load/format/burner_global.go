package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// given reports whether a field exists and is not false or 0.
func given(n *yaml.Node, field string) bool {
	if n == nil {
		return false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	v := strict.Get(n, field)
	return v != nil && v.Value != "false" && v.Value != "0" && v.Value != "" && v.Value != "0s"
}

// readGlobal reads the global fields that affect objects and verdict.
func readGlobal(r *strict.Reader, l *plan.Load, global *yaml.Node, o Options) {
	if global == nil {
		return
	}
	if global.Kind != yaml.MappingNode {
		r.Fault(global, "global: want fields, found %s", strict.Found(global))
		return
	}
	for i := 0; i+1 < len(global.Content); i += 2 {
		key, value := global.Content[i], global.Content[i+1]
		switch key.Value {
		case "gc":
			l.Cleanup = l.Cleanup || given(global, "gc")
		case "waitWhenFinished":
			if !given(global, "waitWhenFinished") {
				continue
			}
			for i := range l.Stages {
				if s := &l.Stages[i]; !s.Parallel { // parallel patch jobs always wait
					s.Wait, s.WaitEach = 0, 0
				}
			}
			l.Wait = burnerDefaultWait
		case "measurements":
			readMeasurements(r, l, value)
		case "functionTemplates":
			readHelpers(r, l, value, o)
		default:
			unused(r, l, "global: ", value, key.Value)
		}
	}
}

// readHelpers reads template files whose definitions all templates may call.
func readHelpers(r *strict.Reader, l *plan.Load, list *yaml.Node, o Options) {
	if list.Kind != yaml.SequenceNode {
		if list.ShortTag() != "!!null" {
			r.Fault(list, "global: functionTemplates: want a list of files, found %s", strict.Found(list))
		}
		return
	}
	for _, n := range list.Content {
		name, text, err := open(r.File, n.Value, o.Read)
		if err != nil {
			r.Fault(n, "%w", err)
			continue
		}
		l.Helpers = append(l.Helpers, plan.Helper{Name: filepath.Base(name), Text: string(text)})
	}
}

// conditions maps kube-burner's names of pod conditions to fettle's.
var conditions = map[string]string{"PodScheduled": "scheduled", "Ready": "ready"}

// readMeasurements converts pod latency thresholds to gates. fettle measures differently: from the
// call until the watch reports the condition.
func readMeasurements(r *strict.Reader, l *plan.Load, n *yaml.Node) {
	for _, m := range n.Content {
		name := strict.Get(m, "name")
		if name == nil {
			r.Fault(m, "global: a measurement has no name")
			continue
		}
		thresholds := strict.Get(m, "thresholds")
		if name.Value == "podLatency" && thresholds == nil {
			continue // always measured
		}
		if name.Value != "podLatency" {
			unused(r, l, "global: the measurement ", m, name.Value)
			continue
		}
		for _, t := range thresholds.Content {
			readThreshold(r, l, t)
		}
	}
}

func readThreshold(r *strict.Reader, l *plan.Load, t *yaml.Node) {
	text := func(field string) string {
		if v := strict.Get(t, field); v != nil {
			return v.Value
		}
		return ""
	}
	of, known := conditions[text("conditionType")]
	if !known {
		unused(r, l, "global: the threshold of the condition ", t, text("conditionType"))
		return
	}
	metric := strings.ToLower(text("metric"))
	switch metric {
	case "p50", "p95", "p99", "max":
	case "avg":
		metric = "mean"
	default:
		r.Fault(t, "global: a threshold's metric: want P50, P95, P99, Max or Avg, found %q", text("metric"))
		return
	}
	limit, ok := strict.ParseDuration(text("threshold"), 0)
	if !ok || limit < time.Millisecond {
		r.Fault(t, "global: a threshold: want a time with its unit, such as 2s, found %q", text("threshold"))
		return
	}
	l.Gates = append(l.Gates, plan.Gate{At: r.At(t), Text: fmt.Sprintf("%s %s <= %s", of, metric, limit)})
}

// others maps job types that create no objects (kube-burner, docs/reference, "Job types") to an
// alternative.
var others = map[string]string{
	"kubevirt": "the objects of a run have the label " + plan.RunLabel + ", by which virtctl can select them",
}

// otherWork records a job's fields that do not create objects, with their lines, and reports
// whether the job has another type.
func otherWork(r *strict.Reader, n *yaml.Node, j *job) bool {
	at := func(field string) *yaml.Node { return key(n, field) }
	types := []string{"create", plan.Patch, plan.Remove, plan.Get}
	if j.JobType != "" && !slices.Contains(types, j.JobType) {
		instead, known := others[j.JobType]
		if known {
			r.Fault(at("jobType"), "job %s: jobType %s is not supported (only create, patch, delete and read); remove the job: %s", j.Name, j.JobType, instead)
		} else {
			r.Fault(at("jobType"), "job %s: jobType: want create, patch, delete or read, found %q%s", j.Name, j.JobType, text.Suggest(j.JobType, types))
		}
		return true
	}
	const churn = "job %s: %s: churn is not supported; remove it, and use kubectl fettle load undo and run instead"
	if j.Churn {
		r.Fault(at("churn"), churn, j.Name, "churn")
	}
	for _, field := range []string{"cycles", "duration"} {
		if given(j.ChurnConfig, field) {
			r.Fault(key(j.ChurnConfig, field), churn, j.Name, "churnConfig."+field)
			break
		}
	}
	if j.IncrementalLoad != nil {
		r.Fault(at("incrementalLoad"), "job %s: incrementalLoad is not supported; remove it, and use podWait: true with waitWhenFinished: false and jobIterationDelay, or one job per step with its own namespace", j.Name)
	}
	return false
}

// burnerItem returns the i-th mapping of a list, or nil.
func burnerItem(list *yaml.Node, i int) *yaml.Node {
	n := list.Content[i]
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// key returns a field's key node, or the mapping itself if the field is missing.
func key(n *yaml.Node, field string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, field) {
			return n.Content[i]
		}
	}
	return n
}

// text reads an object's template and its variables.
func (o *object) text(r *strict.Reader, l *plan.Load, j *job, from Options) (name, text string, variables json.RawMessage, ok bool) {
	name, raw, err := open(r.File, o.ObjectTemplate, from.Read)
	if err != nil {
		r.FaultAt(o.At, "%w", err)
		return "", "", nil, false
	}
	variables = json.RawMessage("{}")
	if o.InputVars != nil {
		if o.InputVars.Kind != yaml.MappingNode {
			r.Fault(o.InputVars, "inputVars: want a map of names and values, found %s", strict.Found(o.InputVars))
			return "", "", nil, false
		}
		variables = r.JSON(o.InputVars)
	}
	return name, string(raw), variables, true
}

func open(of, name string, read func(string) ([]byte, error)) (string, []byte, error) {
	if strings.Contains(name, "://") {
		return "", nil, fmt.Errorf("%s: templates can only be read from files; save the template next to %s", name, of)
	}
	text, err := read(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		sibling := filepath.Join(filepath.Dir(of), name)
		if text, err = read(sibling); err == nil {
			return sibling, text, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s not found in the working directory or next to %s", name, of)
	}
	return filepath.Clean(name), text, err
}
