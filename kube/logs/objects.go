// Package logs analyzes request logs on a volume by the pods of an Indexed Job: each pod reads a
// share of the bytes, and the results are joined into the answer of one process. A pod that fails
// is replaced by Kubernetes, and its share is read again. The verb logs of kubectl fettle uses it.
package logs

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/job"
)

const (
	// Label has the Job's name, on the Job and its pods.
	Label = "fettle.dev/logs"
	// dir is where the pods see the volume. It is their working directory.
	dir = "/logs"
	// retries is how often a pod is replaced.
	retries = 3
	// nodeLost is the number of seconds after which the pods of a lost node are replaced.
	nodeLost = 30
	// memoryShare is the share of the memory limit from which on Go collects garbage more often.
	memoryShare = 0.9
)

// Readers returns a request for pods that read logs. The caller sets the other fields.
func Readers(r job.Request) job.Request {
	r.Label, r.App, r.Container, r.Retries = Label, "fettle-logs", "reader", retries
	return r
}

// Analysis is the Job, its pods, and the volume.
type Analysis struct {
	job.Set
	// Claim is the name of the PersistentVolumeClaim with the logs.
	Claim string
	// StartWithin is the time without a running pod, or a report of one, until the call ends.
	StartWithin time.Duration
	// Say reports an event. Progress reports how many of all bytes were read.
	Say      func(format string, args ...any)
	Progress func(done, all int64)

	oneNode bool   // only one node at a time may use the volume
	node    string // the node that uses it, or ""
}

// Role returns the rights that a caller needs, as kubectl create role takes them.
func (a *Analysis) Role() []job.Right {
	return append(a.Request.Role(), job.Right{Resource: "persistentvolumeclaims", Verb: "get"})
}

// FindClaim tests whether pods can read the volume, and determines on which nodes.
func (a *Analysis) FindClaim(ctx context.Context) error {
	list := fmt.Sprintf("kubectl get persistentvolumeclaims --namespace %s lists them", a.Namespace)
	var claim core.PersistentVolumeClaim
	err := a.Server.Get(ctx, a.Path("/api/v1", "persistentvolumeclaims/"+a.Claim), &claim)
	modes := claim.Status.AccessModes
	has := func(m core.PersistentVolumeAccessMode) bool { return slices.Contains(modes, m) }
	switch {
	case cluster.IsStatus(err, http.StatusNotFound):
		return ui.Hinted(ui.Usage, fmt.Errorf("PersistentVolumeClaim %s does not exist in namespace %s", a.Claim, a.Namespace), list)
	case err != nil:
		return fmt.Errorf("cannot read PersistentVolumeClaim %s: %w", a.Claim, err)
	case claim.Status.Phase != core.ClaimBound:
		return ui.Hinted(ui.Failed, fmt.Errorf("PersistentVolumeClaim %s is %s, not Bound: it has no volume with logs", a.Claim, claim.Status.Phase), list)
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == core.PersistentVolumeBlock:
		return ui.Hinted(ui.Usage, fmt.Errorf("PersistentVolumeClaim %s is a block device without a file system", a.Claim), list)
	case has(core.ReadWriteOncePod) && a.Count > 1:
		return ui.Instead(ui.Usage, fmt.Errorf("PersistentVolumeClaim %s may be used by one pod at a time (ReadWriteOncePod)", a.Claim), "", "--pods=1")
	}
	a.oneNode = !has(core.ReadWriteMany) && !has(core.ReadOnlyMany)
	if a.oneNode {
		a.node, err = a.user(ctx)
	}
	return err
}

// user returns the node of a pod that uses the volume, or "".
func (a *Analysis) user(ctx context.Context) (node string, err error) {
	var pods core.PodList
	if err := a.Server.Get(ctx, a.Path("/api/v1", "pods"), &pods); err != nil {
		return "", fmt.Errorf("cannot list the pods: %w", err)
	}
	for _, p := range pods.Items {
		uses := slices.ContainsFunc(p.Spec.Volumes, func(v core.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == a.Claim
		})
		if uses && p.Spec.NodeName != "" && p.Status.Phase != core.PodSucceeded && p.Status.Phase != core.PodFailed {
			return p.Spec.NodeName, nil
		}
	}
	return "", nil
}

// Job returns the Indexed Job. Kubernetes replaces a pod that fails, and ends the Job if one fails
// too often.
func (a *Analysis) Job() *batch.Job {
	j := a.Request.Job("logs", "worker", "--caller-within", a.Alone.String())
	j.Spec.MaxFailedIndexes = new(int32(0))
	job.Mount(j, dir, core.Volume{Name: "logs", VolumeSource: core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: a.Claim}}})
	pod := &j.Spec.Template.Spec
	reader := &pod.Containers[0]
	reader.WorkingDir = dir
	reader.Env = []core.EnvVar{{Name: "GOMEMLIMIT", Value: fmt.Sprintf("%.0f", math.Floor(memoryShare*a.Memory.AsApproximateFloat64()))}}
	for _, key := range []string{core.TaintNodeNotReady, core.TaintNodeUnreachable} {
		pod.Tolerations = append(pod.Tolerations, core.Toleration{Key: key, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoExecute, TolerationSeconds: new(int64(nodeLost))})
	}
	if a.oneNode {
		pod.TopologySpreadConstraints = nil
		pod.Affinity = a.affinity()
	}
	return j
}

// affinity keeps all pods on one node.
func (a *Analysis) affinity() *core.Affinity {
	if a.node != "" {
		return &core.Affinity{NodeAffinity: &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
			MatchFields: []core.NodeSelectorRequirement{{Key: meta.ObjectNameField, Operator: core.NodeSelectorOpIn, Values: []string{a.node}}},
		}}}}}
	}
	return &core.Affinity{PodAffinity: &core.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []core.PodAffinityTerm{{
		TopologyKey: core.LabelHostname, LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{Label: a.Name}},
	}}}}
}
