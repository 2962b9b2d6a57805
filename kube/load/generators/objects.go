// Package generators runs the load generators of an HTTP load or a scenario as the pods of an
// Indexed Job (package job), with Secrets that hold the load's job. The verbs load http and load
// scenario of kubectl fettle use it; package fleet drives the generators.
package generators

import (
	"fmt"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/job"
)

// MaxLoad is the maximum size of a load's job, in bytes. Secrets of 1 MiB hold its parts.
const MaxLoad = 16 * core.MaxSecretSize

const (
	// label has the Job's name, on each of its objects.
	label    = "fettle.dev/load-generators"
	filesDir = "/etc/fettle-load"
	jobFile  = "job.json"
	volume   = "job"
)

// Generators returns r with the label, the names and the user of load generators. The caller sets
// the other fields.
func Generators(r job.Request) job.Request {
	r.Label, r.App, r.Container, r.User = label, "fettle-load", "generator", job.User
	return r
}

// Job returns the Indexed Job. A pod that fails is not replaced, and the others go on: the
// caller judges the load.
func (s *Set) Job() *batch.Job {
	args, sources := []string{"load", "worker", "--caller-within", s.Alone.String()}, []core.VolumeProjection{}
	for i := range s.parts() {
		args = append(args, "--job", filesDir+"/"+partFile(i))
		sources = append(sources, core.VolumeProjection{Secret: &core.SecretProjection{LocalObjectReference: core.LocalObjectReference{Name: s.partName(i)}}})
	}
	j := s.Request.Job(args...)
	job.Mount(j, filesDir, core.Volume{Name: volume, VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{Sources: sources}}})
	return j
}

// parts returns how many Secrets hold the load's job.
func (s *Set) parts() int {
	return max(1, (len(s.Load)+core.MaxSecretSize-1)/core.MaxSecretSize)
}

// partName returns the name of a Secret.
func (s *Set) partName(i int) string {
	if i == 0 {
		return s.Name
	}
	return fmt.Sprintf("%s-%d", s.Name, i)
}

// partFile returns the name of the file with a part of the load's job.
func partFile(i int) string {
	if i == 0 {
		return jobFile
	}
	return fmt.Sprintf("%s.%d", jobFile, i)
}

// Secrets returns the Secrets with the parts of the load's job. The Job owns them, so they go with
// the Job.
func (s *Set) Secrets(of types.UID) (all []*core.Secret) {
	for i := range s.parts() {
		from := i * core.MaxSecretSize
		all = append(all, &core.Secret{
			TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: meta.ObjectMeta{
				Namespace: s.Namespace, Name: s.partName(i), Labels: map[string]string{label: s.Name},
				OwnerReferences: []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: s.Name, UID: of}},
			},
			Immutable: new(true), Type: core.SecretTypeOpaque, Data: map[string][]byte{partFile(i): s.Load[from:min(from+core.MaxSecretSize, len(s.Load))]},
		})
	}
	return all
}

// Role returns the rights that a caller needs, as kubectl create role takes them.
func (s *Set) Role() []job.Right {
	rights := append(s.Request.Role(), job.Right{Resource: "secrets", Verb: "create"})
	if s.AnyUser { // its admission lets only those set an owner who may delete the object
		rights = append(rights, job.Right{Resource: "secrets", Verb: "delete"})
	}
	return rights
}
