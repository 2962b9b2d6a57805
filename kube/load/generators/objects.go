// Package generators runs the load generators of an HTTP load or a scenario as the pods of an
// Indexed Job: it creates the Job and the Secrets with the load's job, waits for the pods, connects
// to each by an attach stream of the API server, and says what became of a lost one. The verbs load
// http and load scenario of kubectl fettle use it; package fleet drives the generators.
package generators

import (
	"fmt"
	"math"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Request describes the pods to create.
type Request struct {
	Namespace string
	Name      string // of the Job and its first Secret
	Image     string
	Count     int
	// CPU is requested for each pod; Memory is requested and is the limit.
	CPU, Memory resource.Quantity
	// AnyUser leaves the choice of the pods' user to the cluster, as OpenShift wants.
	AnyUser bool
	// Deadline is the time after which Kubernetes ends the pods. A pod to which the caller does not
	// attach ends itself after Alone.
	Deadline, Alone time.Duration
	// Load is the load's job as JSON.
	Load []byte
}

// Limits of a request.
const (
	// MaxCount is the maximum number of generators.
	MaxCount = 500
	// MaxLoad is the maximum size of a load's job, in bytes. Secrets of 1 MiB hold its parts.
	MaxLoad = 16 * core.MaxSecretSize
	// KeptFor is the time for which Kubernetes keeps a Job that has ended without its caller.
	KeptFor = 15 * time.Second
)

const (
	// label has the Job's name, on each of its objects.
	label = "fettle.dev/load-generators"
	// user is the pods' user ID, which is not root and no account of a machine.
	user     = 65532
	filesDir = "/etc/fettle-load"
	jobFile  = "job.json"
	volume   = "job"
)

// Job returns the Indexed Job. A pod that fails is not replaced, and the others go on: the
// caller judges the load. Kubernetes removes the Job some time after its pods have ended, and
// ends them at the deadline.
func (r *Request) Job() *batch.Job {
	args, sources := []string{"load", "worker", "--caller-within", r.Alone.String()}, []core.VolumeProjection{}
	for i := range r.parts() {
		args = append(args, "--job", filesDir+"/"+partFile(i))
		sources = append(sources, core.VolumeProjection{Secret: &core.SecretProjection{LocalObjectReference: core.LocalObjectReference{Name: r.partName(i)}}})
	}
	labels := map[string]string{label: r.Name, "app.kubernetes.io/name": "fettle-load", "app.kubernetes.io/managed-by": "kubectl-fettle"}
	pod := core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(5)),
		TopologySpreadConstraints: []core.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: core.LabelHostname, WhenUnsatisfiable: core.ScheduleAnyway, LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{label: r.Name}},
		}},
		SecurityContext: &core.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
		Containers: []core.Container{{
			Name: "generator", Image: r.Image, Args: args,
			Stdin: true, StdinOnce: true, // the generator ends with the caller's connection
			TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
			Resources:                core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: r.CPU, core.ResourceMemory: r.Memory}, Limits: core.ResourceList{core.ResourceMemory: r.Memory}},
			SecurityContext:          &core.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}},
			VolumeMounts:             []core.VolumeMount{{Name: volume, MountPath: filesDir, ReadOnly: true}},
		}},
		Volumes: []core.Volume{{Name: volume, VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{Sources: sources}}}},
	}
	if !r.AnyUser {
		pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup = new(int64(user)), new(int64(user))
	}
	return &batch.Job{
		TypeMeta:   meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Labels: labels},
		Spec: batch.JobSpec{
			Completions: new(int32(r.Count)), Parallelism: new(int32(r.Count)), CompletionMode: new(batch.IndexedCompletion), BackoffLimitPerIndex: new(int32(0)),
			ActiveDeadlineSeconds: new(int64(math.Ceil(r.Deadline.Seconds()))), TTLSecondsAfterFinished: new(int32(KeptFor.Seconds())),
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// parts returns how many Secrets hold the load's job.
func (r *Request) parts() int {
	return max(1, (len(r.Load)+core.MaxSecretSize-1)/core.MaxSecretSize)
}

// partName returns the name of a Secret.
func (r *Request) partName(i int) string {
	if i == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s-%d", r.Name, i)
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
func (r *Request) Secrets(job types.UID) (all []*core.Secret) {
	for i := range r.parts() {
		from := i * core.MaxSecretSize
		all = append(all, &core.Secret{
			TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: meta.ObjectMeta{
				Namespace: r.Namespace, Name: r.partName(i), Labels: map[string]string{label: r.Name},
				OwnerReferences: []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: r.Name, UID: job}},
			},
			Immutable: new(true), Type: core.SecretTypeOpaque, Data: map[string][]byte{partFile(i): r.Load[from:min(from+core.MaxSecretSize, len(r.Load))]},
		})
	}
	return all
}

// Role returns the rights that a caller needs, as kubectl create role takes them.
func (r *Request) Role() []Right {
	rights := []Right{
		{"batch", "jobs", "", "create"}, {"batch", "jobs", "", "delete"}, {"", "secrets", "", "create"},
		{"", "pods", "", "get"}, {"", "pods", "", "list"}, {"", "pods", "attach", "get"}, {"", "pods", "attach", "create"},
	}
	if r.AnyUser { // its admission lets only those set an owner who may delete the object
		rights = append(rights, Right{"", "secrets", "", "delete"})
	}
	return rights
}

// Right is a verb on a resource, as in a Role.
type Right struct{ Group, Resource, Subresource, Verb string }

func (r Right) String() string {
	name := r.Resource
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	if r.Group != "" {
		name += "." + r.Group
	}
	return fmt.Sprintf("%s %s", r.Verb, name)
}
