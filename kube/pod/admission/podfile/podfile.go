// Package podfile reads the parts of a manifest that affect admission: of a Pod, or of a
// workload with a pod template, as YAML or JSON.
package podfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/pod/admission"
)

// maxSize limits a manifest, in bytes; the API server accepts at most 3 MiB.
const maxSize = 4 << 20

// File is the content of a manifest.
type File struct {
	Pods []Found
	// Skipped are the objects without pods, as "Kind/name (version)".
	Skipped []string

	at place // positions of the fields of the current document
}

// Found is a pod of a manifest, without the API server's defaults (Pod.Default).
type Found struct {
	Pod admission.Pod
	// Line is the line of the manifest at which its document begins.
	Line int
}

// Read parses a manifest with one or more documents or a List; name is for messages. Unknown fields
// are errors, because a misspelled field must not look like a missing request.
func Read(name string, data []byte) (*File, error) {
	if len(data) > maxSize {
		return nil, text.Errorf("%s has %d bytes; at most %d allowed", name, len(data), maxSize)
	}
	f := &File{}
	for _, d := range documents(data) {
		f.at = place{name: name, begin: d.line}
		if err := f.read(d.text, d.line); err != nil {
			return nil, err
		}
	}
	if len(f.Pods) == 0 {
		found := "no object at all"
		if len(f.Skipped) > 0 {
			found = "only " + strings.Join(f.Skipped, ", ")
		}
		return nil, fmt.Errorf("%s has no pod; want a Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob or PodTemplate, found %s", name, found)
	}
	return f, nil
}

type document struct {
	text []byte
	line int
}

// documents splits a manifest at its lines of three dashes.
func documents(text []byte) []document {
	var out []document
	var current []byte
	begin, line := 1, 0
	flush := func() {
		if len(bytes.TrimSpace(current)) > 0 {
			out = append(out, document{current, begin})
		}
	}
	for l := range bytes.Lines(text) {
		line++
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			flush()
			current, begin = append([]byte(nil), rest...), line
			continue
		}
		current = append(current, l...)
	}
	flush()
	return out
}

// read parses one document; line is its first line.
func (f *File) read(text []byte, line int) error {
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return f.at.unreadable(text, err)
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return nil // only comments
	}
	f.at.parse(text)
	return f.object(body, line, "")
}

// object parses one object; in is its path in the document, such as "items[0]", or "" for the whole
// document.
func (f *File) object(body []byte, line int, in string) error {
	wrong := func(path string, err error) error {
		if in != "" {
			path, err = in+"."+path, fmt.Errorf("%s: %w", in, err)
		}
		return f.at.wrong(path, err)
	}
	var head struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &head); err != nil {
		if mistyped, ok := f.at.mistyped(in, "", err); ok {
			return mistyped
		}
		return wrong("", err)
	}
	if head.Kind == "" || head.APIVersion == "" {
		return wrong("", errors.New("an object needs apiVersion and kind"))
	}
	if head.Kind == "List" && head.APIVersion == "v1" {
		for i, item := range head.Items {
			if err := f.object(item, line, fmt.Sprintf("items[%d]", i)); err != nil {
				return err
			}
		}
		return nil
	}
	blank, ok := kinds[head.APIVersion+" "+head.Kind]
	if !ok {
		f.Skipped = append(f.Skipped, fmt.Sprintf("%s/%s (%s)", head.Kind, head.Name, head.APIVersion))
		return nil
	}
	object, spec := blank()
	strict, err := kjson.UnmarshalStrict(body, object)
	var all []error
	for _, e := range append([]error{err}, strict...) {
		if e == nil {
			continue
		}
		if mistyped, ok := f.at.mistyped(in, head.Kind+" "+head.Name+": ", e); ok {
			all = append(all, mistyped)
		} else {
			all = append(all, wrong(fieldOf(e), fmt.Errorf("%s %s: %w", head.Kind, head.Name, e)))
		}
	}
	if len(all) > 0 {
		return errors.Join(all...)
	}
	of := spec()
	if of == nil {
		return wrong("", fmt.Errorf("%s %s has no pod template", head.Kind, head.Name))
	}
	found := Found{Line: line, Pod: Of(of)}
	found.Pod.Kind, found.Pod.Namespace, found.Pod.Name = head.Kind, head.Namespace, head.Name
	if found.Pod.Name == "" {
		found.Pod.Name = head.GenerateName
	}
	if pod, ok := object.(*core.Pod); ok {
		claim(&found.Pod, &pod.Status)
	}
	if head.Kind == "DaemonSet" {
		daemon(&found.Pod.Placement, of)
	}
	f.Pods = append(f.Pods, found)
	return nil
}

// kinds maps each kind with pods to a function that returns a new object, and a function that
// returns the decoded object's pod specification.
var kinds = map[string]func() (object any, spec func() *core.PodSpec){
	"v1 Pod":         func() (any, func() *core.PodSpec) { o := &core.Pod{}; return o, at(&o.Spec) },
	"v1 PodTemplate": func() (any, func() *core.PodSpec) { o := &core.PodTemplate{}; return o, at(&o.Template.Spec) },
	"v1 ReplicationController": func() (any, func() *core.PodSpec) {
		o := &core.ReplicationController{}
		return o, func() *core.PodSpec {
			if o.Spec.Template == nil {
				return nil
			}
			return &o.Spec.Template.Spec
		}
	},
	"apps/v1 Deployment":  func() (any, func() *core.PodSpec) { o := &apps.Deployment{}; return o, at(&o.Spec.Template.Spec) },
	"apps/v1 StatefulSet": func() (any, func() *core.PodSpec) { o := &apps.StatefulSet{}; return o, at(&o.Spec.Template.Spec) },
	"apps/v1 DaemonSet":   func() (any, func() *core.PodSpec) { o := &apps.DaemonSet{}; return o, at(&o.Spec.Template.Spec) },
	"apps/v1 ReplicaSet":  func() (any, func() *core.PodSpec) { o := &apps.ReplicaSet{}; return o, at(&o.Spec.Template.Spec) },
	"batch/v1 Job":        func() (any, func() *core.PodSpec) { o := &batch.Job{}; return o, at(&o.Spec.Template.Spec) },
	"batch/v1 CronJob": func() (any, func() *core.PodSpec) {
		o := &batch.CronJob{}
		return o, at(&o.Spec.JobTemplate.Spec.Template.Spec)
	},
}

func at(spec *core.PodSpec) func() *core.PodSpec { return func() *core.PodSpec { return spec } }

// Of converts a pod's specification to its relevant parts, without defaults.
func Of(spec *core.PodSpec) admission.Pod {
	p := admission.Pod{Overhead: Resources(spec.Overhead), Placement: placement(spec), Features: features(spec)}
	for i := range spec.InitContainers {
		p.Init = append(p.Init, container(&spec.InitContainers[i]))
	}
	for i := range spec.Containers {
		p.Containers = append(p.Containers, container(&spec.Containers[i]))
		p.Containers[i].Sidecar = false
	}
	if r := ofPod(spec); r != nil {
		if p.Requests, p.Limits = Resources(r.Requests), Resources(r.Limits); p.Requests == nil {
			p.Requests = admission.Resources{} // resources exist, though empty
		}
	}
	for _, v := range spec.Volumes {
		if v.EmptyDir != nil && strings.HasPrefix(string(v.EmptyDir.Medium), string(core.StorageMediumHugePages)) {
			p.Volumes = append(p.Volumes, admission.HugePageVolume{Name: v.Name, Medium: string(v.EmptyDir.Medium), SizeLimit: v.EmptyDir.SizeLimit})
		}
	}
	return p
}

func container(c *core.Container) admission.Container {
	return admission.Container{
		Name: c.Name, Sidecar: c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways,
		Requests: Resources(c.Resources.Requests), Limits: Resources(c.Resources.Limits),
	}
}

// Resources converts a list of the API; nil stays nil.
func Resources(list core.ResourceList) admission.Resources {
	if list == nil {
		return nil
	}
	out := make(admission.Resources, len(list))
	for name, q := range list {
		out[string(name)] = q.DeepCopy()
	}
	return out
}
