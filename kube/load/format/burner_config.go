// Package format reads load files of kube-burner and of OpenShift's Cluster Loader into a
// plan.Load.
package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// expand replaces {{ }} in a configuration's text. Variables come from the environment, the user's
// file, which takes precedence over it, and UUID (kube-burner 2.7.3, pkg/config; its documentation
// states the reverse precedence).
func (o *Options) expand(name string, text []byte) ([]byte, error) {
	if !strings.Contains(string(text), "{{") {
		return text, nil
	}
	values := map[string]any{}
	for _, e := range o.Env {
		key, value, _ := strings.Cut(e, "=")
		values[key] = value
	}
	if o.UserData != "" {
		of, err := o.userData()
		if err != nil {
			return nil, err
		}
		maps.Copy(values, of)
	}
	values["UUID"] = o.UUID
	t, err := plan.ParseText(name, string(text), plan.TextInputs{MissingZero: o.AllowMissing, Env: o.lookup, Now: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	out, err := t.Text(values, 0)
	if err != nil {
		if variable := plan.MissingKey(err); variable != "" {
			return nil, fmt.Errorf("%w: not in the environment nor --user-data; set it (%s=VALUE kubectl fettle load ...), or use --allow-missing to leave it empty", err, variable)
		}
		if strings.Contains(err.Error(), "incompatible types for comparison") {
			err = fmt.Errorf("%w: environment variables are strings; use --user-data FILE for other types", err)
		}
		return nil, err
	}
	return []byte(out), nil
}

// lookup returns an environment variable, or "" if it is not set.
func (o *Options) lookup(name string) (string, error) {
	for _, e := range o.Env {
		if key, value, _ := strings.Cut(e, "="); key == name {
			return value, nil
		}
	}
	return "", nil
}

// userData returns the variables in the user's JSON or YAML file.
func (o *Options) userData() (map[string]any, error) {
	text, err := o.Read(filepath.Clean(o.UserData))
	if err != nil {
		return nil, fmt.Errorf("--user-data: %w", err)
	}
	r := &strict.Reader{File: o.UserData}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("--user-data %s: want one YAML document of names and values", o.UserData)
	}
	raw := r.JSON(docs[0])
	if err := r.Err(); err != nil {
		return nil, err
	}
	values, err := plan.Variables(raw)
	if err != nil {
		return nil, err
	}
	return values(), nil
}

// set applies --set values to a configuration.
func (o *Options) set(r *strict.Reader, doc *yaml.Node) error {
	for _, pair := range o.Set {
		path, value, ok := strings.Cut(pair, "=")
		if path = strings.TrimSpace(path); !ok || path == "" {
			return fmt.Errorf("--set %s: want KEY=VALUE, such as jobs.0.qps=20", pair)
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(value), &n); err != nil || len(n.Content) == 0 {
			n.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: value, Style: yaml.DoubleQuotedStyle}}
		}
		n.Content[0].Line = doc.Line
		if err := put(doc, strings.Split(path, "."), n.Content[0]); err != nil {
			return fmt.Errorf("--set %s: %w", pair, err)
		}
	}
	return nil
}

// put sets the field at a path, and creates missing mappings.
func put(n *yaml.Node, path []string, value *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	at := -1
	switch n.Kind {
	case yaml.SequenceNode:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.Content) {
			return text.Errorf("%s: want a number below %d, the length of the list", path[0], len(n.Content))
		}
		at = i
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == path[0] {
				at = i + 1
			}
		}
		if at < 0 {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0], Tag: "!!str", Line: n.Line}, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line})
			at = len(n.Content) - 1
		}
	default:
		return fmt.Errorf("%s: found %s, which has no fields", path[0], strict.Found(n))
	}
	if len(path) == 1 {
		n.Content[at] = value
		return nil
	}
	return put(n.Content[at], path[1:], value)
}

// keepInputs stores the variables and files that the texts use in the load, so that a resume does
// not depend on later changes.
func keepInputs(l *plan.Load, o Options) error {
	l.Env, l.Files = map[string]string{}, map[string]string{}
	in := plan.TextInputs{
		Helpers: l.Helpers, Now: l.ReadAt,
		Env: func(name string) (string, error) {
			value, err := o.lookup(name)
			l.Env[name] = value
			return value, err
		},
		File: func(name string) (string, error) {
			if !filepath.IsLocal(name) {
				return "", fmt.Errorf("ReadFile %s: outside the working directory and the directory of %s; copy the file there", name, l.File)
			}
			_, text, err := open(l.File, name, o.Read)
			l.Files[name] = string(text)
			return string(text), err
		},
	}
	var all []error
	for i := range l.Stages {
		s := &l.Stages[i]
		for _, text := range plan.Texts(l, s) {
			in.MissingZero = text.MissingZero
			t, err := plan.ParseText(text.File, text.Text, in)
			if err == nil && t.Uses("env", "expandenv", "ReadFile") {
				err = text.Render(t)
			}
			if err != nil {
				all = append(all, fmt.Errorf("%s: %w", text.At, err))
			}
		}
	}
	return errors.Join(all...)
}

// acts reports whether a job changes, deletes or reads existing objects.
func (j *job) acts() bool {
	return slices.Contains([]string{plan.Patch, plan.Remove, plan.Get}, j.JobType)
}

// patchTypes are the media types of patches that an API server accepts.
var patchTypes = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}

// readActions reads a patch, delete or read job. Like in kube-burner, a delete job runs once in
// order, a read job once in order per iteration, and executionMode decides for patch jobs.
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
		r.FaultAt(j.At, "job %s has no objects", j.Name)
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
		unread(l, r.At(o.WaitOptions), j.Name, "waitOptions", "fettle ignores its conditions and waits until the objects are ready")
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
		r.FaultAt(o.At, "job %s: %s: a JSON template needs one of the patchTypes %s; a YAML template needs one of %s", j.Name, o.ObjectTemplate, strings.Join(patchTypes[:3], ", "), strings.Join(patchTypes[1:], ", "))
		return a, false
	}
	if j.ObjectWait {
		unread(l, o.At, j.Name, "objectWait", "fettle waits at the end of an iteration, not after each object")
	}
	var ok bool
	a.File, a.Text, a.Variables, ok = o.text(r, l, j, from)
	return a, ok
}

// parallel reports whether a patch job starts all patches at once.
func (j *job) parallel() bool { return j.JobType == plan.Patch && j.ExecutionMode != "sequential" }

// notePreload adds a note about the first job whose templates contain images: they are not
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
			l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s: images are not preloaded (kube-burner's default preLoadImages); on nodes without the image the times of pods include the pull", s.At, s.Name))
			return
		}
	}
}
