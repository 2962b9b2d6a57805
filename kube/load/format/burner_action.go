package format

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// acts reports whether a job does something with objects that are there.
func (j *job) acts() bool {
	return slices.Contains([]string{plan.Patch, plan.Remove, plan.Get}, j.JobType)
}

// patchTypes are the media types of patches that an API server takes.
var patchTypes = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}

// readActions reads a patch, delete or read job. As in kube-burner, a delete job runs once
// and in order, a read job in order once for each iteration; for patch jobs executionMode
// decides.
func readActions(r *strict.Reader, l *plan.Load, j *job, o Options) {
	s := common(r, l, j)
	s.IfExists, s.PerNamespace = plan.Reuse, 1
	s.Parallel = j.parallel()
	if modes := []string{"", "parallel", "sequential"}; !slices.Contains(modes, j.ExecutionMode) {
		r.FaultAt(j.At, "job %s: executionMode: want parallel or sequential, found %q%s", j.Name, j.ExecutionMode, text.Suggest(j.ExecutionMode, modes[1:]))
	}
	if j.JobType == plan.Remove {
		s.Iterations = 1
	}
	if j.JobType != plan.Remove && (j.waitsAtEnd() || s.Parallel) {
		s.Wait = j.wait()
	}
	if len(j.Objects) == 0 {
		r.FaultAt(j.At, "job %s: it has no objects", j.Name)
	}
	for i := range j.Objects {
		if a, ok := readAction(r, l, j, &j.Objects[i], o); ok {
			s.Actions = append(s.Actions, a)
		}
	}
	l.Stages = append(l.Stages, s)
}

func readAction(r *strict.Reader, l *plan.Load, j *job, o *object, from Options) (plan.Action, bool) {
	a := plan.Action{At: o.At, Do: j.JobType, APIVersion: o.APIVersion, Kind: o.Kind, Labels: o.LabelSelector.Map(), Variables: json.RawMessage("{}"), NoWait: o.Wait != nil && !*o.Wait}
	if a.APIVersion == "" {
		a.APIVersion = "v1"
	}
	if filled(o.WaitOptions) && !a.NoWait {
		unread(l, r.At(o.WaitOptions), j.Name, "waitOptions", "an object is waited for until its kind is ready, and not until what waitOptions say")
	}
	if o.Kind == "" {
		r.FaultAt(o.At, "job %s: an object has no kind", j.Name)
		return a, false
	}
	if len(a.Labels) == 0 {
		r.FaultAt(o.At, "job %s: an object has no labelSelector", j.Name)
		return a, false
	}
	if !j.parallel() {
		a.After = j.ObjectDelay
	}
	if j.JobType == plan.Remove && (j.WaitForDeletion == nil || *j.WaitForDeletion) {
		a.Gone = j.wait()
	}
	if j.JobType != plan.Patch {
		return a, true
	}
	if !slices.Contains(patchTypes, o.PatchType) {
		r.FaultAt(o.At, "job %s: patchType: want %s, found %q%s", j.Name, strings.Join(patchTypes, ", "), o.PatchType, text.Suggest(o.PatchType, patchTypes))
		return a, false
	}
	a.PatchType, a.JSON, a.MissingZero = o.PatchType, strings.HasSuffix(o.ObjectTemplate, "json"), j.DefaultMissingKeys
	if o.ObjectTemplate == "" {
		r.FaultAt(o.At, "job %s: a patch has no objectTemplate", j.Name)
		return a, false
	}
	apply := strings.HasPrefix(a.PatchType, "application/apply")
	if a.JSON && apply || !a.JSON && strings.HasPrefix(a.PatchType, "application/json-patch") {
		r.FaultAt(o.At, "job %s: %s: a template of JSON is for %s, one of YAML for %s", j.Name, o.ObjectTemplate, strings.Join(patchTypes[:3], ", "), strings.Join(patchTypes[1:], ", "))
		return a, false
	}
	if j.ObjectWait {
		unread(l, o.At, j.Name, "objectWait", "it waits at the end of an iteration, and not behind each object")
	}
	var ok bool
	a.File, a.Text, a.Variables, ok = o.text(r, l, j, from)
	return a, ok
}

// parallel reports whether a patch job starts everything at once.
func (j *job) parallel() bool { return j.JobType == plan.Patch && j.ExecutionMode != "sequential" }

// notePreload notes for the first job with images in its templates that they are not
// preloaded.
func notePreload(l *plan.Load, jobs []job) {
	off := map[string]bool{}
	for i := range jobs {
		n := jobs[i].PreLoadImages
		off[jobs[i].Name] = n != nil && n.Value == "false"
	}
	for i := range l.Stages {
		s := &l.Stages[i]
		if !off[s.Name] && slices.ContainsFunc(s.Groups, func(g plan.Group) bool { return strings.Contains(g.Text, "image:") }) {
			l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s: preLoadImages, the default of kube-burner, is not done here: where a node lacks an image, the times of pods include its pull", s.At, s.Name))
			return
		}
	}
}
