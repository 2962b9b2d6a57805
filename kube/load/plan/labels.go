package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// burnerLabels are those that kube-burner gives each object of a job (pkg/burner/create.go
// of 2.7); a label of the object's own takes precedence.
func (c *compiler) burnerLabels(job, index string, values []string) map[string]string {
	const prefix = "kube-burner.io/"
	return map[string]string{
		prefix + "job": job, prefix + "uuid": cmp.Or(c.load.UUID, c.run), prefix + "runid": c.run, prefix + "index": index,
		prefix + "job-iteration": values[varJobIteration], prefix + "replica": values[varReplica], prefix + "group": "0",
	}
}

// addLabels adds the labels that an object does not have.
func addLabels(meta map[string]any, labels map[string]string) {
	have, _ := meta["labels"].(map[string]any)
	for name, value := range labels {
		if _, own := have[name]; !own {
			label(meta, "labels", name, value)
		}
	}
}

// spaceLabels are the labels that kube-burner gives the namespaces of a job.
func (c *compiler) spaceLabels(job string, own map[string]string) map[string]string {
	all := map[string]string{"kube-burner.io/job": job, "kube-burner.io/uuid": cmp.Or(c.load.UUID, c.run), "kube-burner.io/runid": c.run}
	maps.Copy(all, own)
	return all
}

// renamed is what to know of a selector with labels of kube-burner 1 (kube-burner-job and
// the like), which version 2 does not give any more; "" where there are none.
func renamed(selector map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(selector)) {
		if rest, ok := strings.CutPrefix(name, "kube-burner-"); ok {
			return fmt.Sprintf("; %s is a label of kube-burner 1, which version 2 calls kube-burner.io/%s", name, rest)
		}
	}
	return ""
}
