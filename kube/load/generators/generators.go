package generators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
)

// Set is the Job and its pods.
type Set struct {
	Request
	Server *cluster.Server
	// Config is the configuration for the attach streams.
	Config *rest.Config
}

// OpenShift reports whether the cluster chooses the user of each pod by namespace.
func OpenShift(ctx context.Context, s *cluster.Server) bool {
	var any struct{}
	return s.Get(ctx, "/apis/security.openshift.io/v1", &any) == nil
}

// Missing returns the rights that this user lacks in the namespace.
func (s *Set) Missing(ctx context.Context) (missing []Right, err error) {
	rights := s.Role()
	lacks, failed := make([]bool, len(rights)), make([]error, len(rights))
	var wait sync.WaitGroup
	for i, r := range rights {
		wait.Go(func() {
			ask := authorization.SelfSubjectAccessReview{
				TypeMeta: meta.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
				Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Namespace: s.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}},
			}
			failed[i] = s.post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &ask, &ask)
			lacks[i] = failed[i] == nil && !ask.Status.Allowed
		})
	}
	wait.Wait()
	for i, r := range rights {
		if failed[i] != nil {
			return nil, failed[i]
		}
		if lacks[i] {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// post creates an object and decodes the answer.
func (s *Set) post(ctx context.Context, path string, object, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	a, err := s.Server.Do(ctx, 0, http.MethodPost, path, body)
	switch {
	case err != nil:
		return err
	case a.Status != http.StatusCreated && a.Status != http.StatusOK:
		return a.Err()
	}
	return json.Unmarshal(a.Body, into)
}

func (s *Set) path(group, resource string) string {
	return group + "/namespaces/" + s.Namespace + "/" + resource
}

// Create creates the Job, and then the Secrets, which the Job owns: without a moment in which a
// killed caller would leave a Secret behind. The pods wait for the Secrets.
func (s *Set) Create(ctx context.Context) error {
	var made batch.Job
	if err := s.post(ctx, s.path("/apis/batch/v1", "jobs"), s.Job(), &made); err != nil {
		return fmt.Errorf("cannot create Job %s: %w", s.Name, err)
	}
	for _, secret := range s.Secrets(made.UID) {
		if err := s.post(ctx, s.path("/api/v1", "secrets"), secret, &core.Secret{}); err != nil {
			return errors.Join(fmt.Errorf("cannot create Secret %s: %w", secret.Name, err), s.Delete(ctx))
		}
	}
	return nil
}

// Delete deletes the Job. Kubernetes then deletes its pods and the Secrets. It works after ctx has
// ended, too.
func (s *Set) Delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	a, err := s.Server.Do(ctx, 0, http.MethodDelete, s.path("/apis/batch/v1", "jobs/"+s.Name), []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`))
	if err == nil && a.Status != http.StatusOK && a.Status != http.StatusAccepted && a.Status != http.StatusNotFound {
		err = a.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot delete Job %s: %w", s.Name, err)
	}
	return nil
}

// Pod is a generator's pod.
type Pod struct{ Name, Node string }

// hopeless are the reasons for which a container does not start until a user changes the pod or
// the registry.
var hopeless = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// Wait waits until all pods run. step is called with their number.
func (s *Set) Wait(ctx context.Context, within time.Duration, step func(running int)) ([]Pod, error) {
	end := time.Now().Add(within)
	for {
		pods, waiting, err := s.pods(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(pods) == s.Count:
			return pods, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("after %v only %d of %s run%s", within, len(pods), text.Count(s.Count, "generator"), waiting)
		}
		step(len(pods))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pods returns the running pods by index, and why another one waits. A pod that cannot run is an
// error.
func (s *Set) pods(ctx context.Context) (running []Pod, waiting string, err error) {
	var list core.PodList
	if err := s.Server.Get(ctx, s.path("/api/v1", "pods?labelSelector=")+url.QueryEscape(label+"="+s.Name), &list); err != nil {
		return nil, "", fmt.Errorf("cannot list the pods: %w", err)
	}
	waiting = fmt.Sprintf("; see kubectl describe job %s --namespace %s", s.Name, s.Namespace)
	slices.SortFunc(list.Items, func(a, b core.Pod) int {
		return cmp.Or(cmp.Compare(index(&a), index(&b)), strings.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		p := &list.Items[i]
		why := ""
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Running != nil && p.DeletionTimestamp == nil:
				running = append(running, Pod{p.Name, p.Spec.NodeName})
			case c.State.Waiting != nil && slices.Contains(hopeless, c.State.Waiting.Reason):
				return nil, "", fmt.Errorf("pod %s cannot start: %s: %s", p.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
				why = c.Message
			}
		}
		switch {
		case p.Status.Phase == core.PodFailed, p.Status.Phase == core.PodSucceeded, p.DeletionTimestamp != nil:
			return nil, "", errors.New(ended(p))
		case why != "":
			waiting = fmt.Sprintf("; pod %s is not scheduled: %s", p.Name, why)
		}
	}
	return running, waiting, nil
}

// index returns the completion index of a pod. It has the width of its digits.
func index(p *core.Pod) string {
	n := p.Annotations[batch.JobCompletionIndexAnnotation]
	return fmt.Sprintf("%6s", n)
}

// why returns what became of a pod whose stream has ended. The API server knows it a little later
// than the stream, so why asks again within a time.
func (s *Set) why(pod Pod, within time.Duration, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within+5*time.Second)
	defer cancel()
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		var p core.Pod
		got := s.Server.Get(ctx, s.path("/api/v1", "pods/"+pod.Name), &p)
		switch {
		case cluster.IsStatus(got, http.StatusNotFound):
			return &fleet.Gone{Why: "the pod was deleted" + pod.where()}
		case got == nil && gone(&p):
			return &fleet.Gone{Why: ended(&p)}
		case time.Now().Before(end):
		case got == nil && notReady(&p):
			return &fleet.Gone{Why: fmt.Sprintf("the pod is not ready%s: the node does not report, or the network to it is down; see kubectl get node %s", pod.where(), pod.Node)}
		default:
			return fmt.Errorf("the stream to the pod%s ended, although the pod runs: %w", pod.where(), err)
		}
	}
}

func (p Pod) where() string {
	if p.Node == "" {
		return ""
	}
	return " on node " + p.Node
}

func gone(p *core.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == core.PodFailed || p.Status.Phase == core.PodSucceeded || slices.ContainsFunc(p.Status.ContainerStatuses, func(c core.ContainerStatus) bool { return c.State.Terminated != nil })
}

func notReady(p *core.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReady && c.Status != core.ConditionTrue
	})
}

// message returns the last line of a generator's output that is a message for people: the others
// are JSON for its caller.
func message(output string) string {
	lines := slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "{") })
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// ended says why a pod has ended or ends.
func ended(p *core.Pod) string {
	at := Pod{p.Name, p.Spec.NodeName}.where()
	for _, c := range p.Status.Conditions {
		if c.Type == core.DisruptionTarget && c.Status == core.ConditionTrue {
			return fmt.Sprintf("the pod was removed%s: %s: %s", at, c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		switch t := c.State.Terminated; {
		case t == nil:
		case t.Reason == "OOMKilled":
			limit := ""
			for _, own := range p.Spec.Containers {
				limit = own.Resources.Limits.Memory().String()
			}
			return fmt.Sprintf("the generator%s used more memory than its limit of %s and was killed (OOMKilled); raise --memory", at, limit)
		case p.DeletionTimestamp != nil:
		case t.ExitCode != 0:
			return fmt.Sprintf("the generator%s ended with exit code %d: %s", at, t.ExitCode, cmp.Or(message(t.Message), t.Reason))
		default:
			return fmt.Sprintf("the generator%s ended", at)
		}
	}
	if p.DeletionTimestamp != nil {
		return "the pod was deleted" + at
	}
	return fmt.Sprintf("the pod%s ended: %s %s", at, cmp.Or(p.Status.Reason, string(p.Status.Phase)), p.Status.Message)
}
