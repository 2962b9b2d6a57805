// Package job runs fettle in the pods of an Indexed Job: it creates the Job, connects to each pod by
// an attach stream of the API server, and says what became of a lost one. The pods end with the
// caller's connection, so a killed caller leaves nothing behind. Load generators and the analysis
// of logs use it.
package job

import (
	"fmt"
	"math"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request describes the pods to create.
type Request struct {
	Namespace string
	Name      string // of the Job
	// Label is the key of the label that has the Job's name, on each of its objects.
	Label     string
	App       string // app.kubernetes.io/name
	Container string // name of the container, which messages use
	Image     string
	Count     int
	// CPU is requested for each pod; Memory is requested and is the limit.
	CPU, Memory resource.Quantity
	// User is the pods' user ID. AnyUser leaves the choice to the cluster, as OpenShift wants.
	User    int64
	AnyUser bool
	// Retries is how often Kubernetes replaces a pod that failed.
	Retries int
	// Deadline is the time after which Kubernetes ends the pods. A pod to which the caller does not
	// attach ends itself after Alone.
	Deadline, Alone time.Duration
}

const (
	// MaxCount is the maximum number of pods.
	MaxCount = 500
	// KeptFor is the time for which Kubernetes keeps a Job that has ended without its caller.
	KeptFor = 15 * time.Second
	// User is the default user ID, which is not root and no account of a machine.
	User = 65532
)

// Labels returns the labels of the Job and its pods.
func (r *Request) Labels() map[string]string {
	return map[string]string{r.Label: r.Name, "app.kubernetes.io/name": r.App, "app.kubernetes.io/managed-by": "kubectl-fettle"}
}

// Job returns the Indexed Job. If a pod has failed and is not replaced any more, the others go on.
// Kubernetes removes the Job some time after its pods have ended, and ends them at the deadline.
func (r *Request) Job(args ...string) *batch.Job {
	labels := r.Labels()
	pod := core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(5)),
		TopologySpreadConstraints: []core.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: core.LabelHostname, WhenUnsatisfiable: core.ScheduleAnyway, LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{r.Label: r.Name}},
		}},
		SecurityContext: &core.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
		Containers: []core.Container{{
			Name: r.Container, Image: r.Image, Args: args,
			Stdin: true, StdinOnce: true, // the process ends with the caller's connection
			TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
			Resources:                core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: r.CPU, core.ResourceMemory: r.Memory}, Limits: core.ResourceList{core.ResourceMemory: r.Memory}},
			SecurityContext:          &core.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}},
		}},
	}
	if !r.AnyUser {
		pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup, pod.SecurityContext.RunAsNonRoot = new(r.User), new(r.User), new(r.User != 0)
	}
	return &batch.Job{
		TypeMeta:   meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Labels: labels},
		Spec: batch.JobSpec{
			Completions: new(int32(r.Count)), Parallelism: new(int32(r.Count)), CompletionMode: new(batch.IndexedCompletion), BackoffLimitPerIndex: new(int32(r.Retries)),
			ActiveDeadlineSeconds: new(int64(math.Ceil(r.Deadline.Seconds()))), TTLSecondsAfterFinished: new(int32(KeptFor.Seconds())),
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// Mount adds a volume that the pods only read.
func Mount(j *batch.Job, dir string, v core.Volume) {
	pod := &j.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, v)
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, core.VolumeMount{Name: v.Name, MountPath: dir, ReadOnly: true})
}

// Role returns the rights that a caller needs, as kubectl create role takes them.
func (r *Request) Role() []Right {
	return []Right{
		{"batch", "jobs", "", "create"}, {"batch", "jobs", "", "delete"},
		{"", "pods", "", "get"}, {"", "pods", "", "list"}, {"", "pods", "attach", "get"}, {"", "pods", "attach", "create"},
	}
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
