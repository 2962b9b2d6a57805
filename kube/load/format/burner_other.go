package format

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// others are the sorts of jobs that do not create objects (kube-burner, docs/reference,
// "Job types"), and what there is in their place.
var others = map[string]string{
	"kubevirt": "what a run has made has the label " + plan.RunLabel + ", by which virtctl can be told of it",
}

// otherWork tells what of a job is no creation of objects, each where it stands, and says
// whether the job is of another sort altogether.
func otherWork(r *strict.Reader, n *yaml.Node, j *job) bool {
	at := func(field string) *yaml.Node { return key(n, field) }
	types := []string{"create", plan.Patch, plan.Remove, plan.Get}
	if j.JobType != "" && !slices.Contains(types, j.JobType) {
		instead, known := others[j.JobType]
		if known {
			r.Fault(at("jobType"), "job %s: jobType %s: only create, patch, delete and read jobs are read; take the job out: %s", j.Name, j.JobType, instead)
		} else {
			r.Fault(at("jobType"), "job %s: jobType: want create, patch, delete or read, found %q%s", j.Name, j.JobType, text.Suggest(j.JobType, types))
		}
		return true
	}
	const churn = "job %s: %s: churn is not read here; take it out: kubectl fettle load undo, and run again, make all of it anew"
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
		r.Fault(at("incrementalLoad"), "job %s: incrementalLoad is not read here; take it out: podWait: true with waitWhenFinished: false waits for each namespace and jobIterationDelay pauses, or make a job of each step, with a namespace of its own", j.Name)
	}
	return false
}

// burnerItem is one of the mappings of a list.
func burnerItem(list *yaml.Node, i int) *yaml.Node {
	n := list.Content[i]
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// key is where a field of a mapping is named, or else the mapping.
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
