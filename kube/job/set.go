package job

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/requests/load/fleet"
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

// Missing returns those of the rights that this user lacks in the namespace.
func (s *Set) Missing(ctx context.Context, rights []Right) (missing []Right, err error) {
	lacks, failed := make([]bool, len(rights)), make([]error, len(rights))
	var wait sync.WaitGroup
	for i, r := range rights {
		wait.Go(func() {
			ask := authorization.SelfSubjectAccessReview{
				TypeMeta: meta.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
				Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Namespace: s.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}},
			}
			failed[i] = s.Post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &ask, &ask)
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

// Post creates an object and decodes the answer.
func (s *Set) Post(ctx context.Context, path string, object, into any) error {
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

// Path returns the path of a resource in the namespace.
func (s *Set) Path(group, resource string) string {
	return group + "/namespaces/" + s.Namespace + "/" + resource
}

// Create creates the Job.
func (s *Set) Create(ctx context.Context, j *batch.Job) (types.UID, error) {
	var made batch.Job
	if err := s.Post(ctx, s.Path("/apis/batch/v1", "jobs"), j, &made); err != nil {
		return "", fmt.Errorf("cannot create Job %s: %w", s.Name, err)
	}
	return made.UID, nil
}

// Delete deletes the Job. Kubernetes then deletes its pods and what else it owns. It works after ctx has
// ended, too.
func (s *Set) Delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	a, err := s.Server.Do(ctx, 0, http.MethodDelete, s.Path("/apis/batch/v1", "jobs/"+s.Name), []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`))
	if err == nil && a.Status != http.StatusOK && a.Status != http.StatusAccepted && a.Status != http.StatusNotFound {
		err = a.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot delete Job %s: %w", s.Name, err)
	}
	return nil
}

// Pod is a pod of the Job.
type Pod struct{ Name, Node string }

// hopeless are the reasons for which a container does not start until a user changes the pod or
// the registry.
var hopeless = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// Pods returns the pods by index.
func (s *Set) Pods(ctx context.Context) ([]core.Pod, error) {
	var list core.PodList
	if err := s.Server.Get(ctx, s.Path("/api/v1", "pods?labelSelector=")+url.QueryEscape(s.Label+"="+s.Name), &list); err != nil {
		return nil, fmt.Errorf("cannot list the pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b core.Pod) int {
		return cmp.Or(cmp.Compare(Index(&a), Index(&b)), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Describe returns the command that shows why pods do not run.
func (s *Set) Describe() string {
	return fmt.Sprintf("kubectl describe job %s --namespace %s", s.Name, s.Namespace)
}

// Running reports whether a pod runs.
func Running(p *core.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(c core.ContainerStatus) bool { return c.State.Running != nil })
}

// Stuck returns why a pod cannot start until a user changes something, or nil.
func Stuck(p *core.Pod) error {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
			return fmt.Errorf("pod %s cannot start: %s: %s", p.Name, w.Reason, w.Message)
		}
	}
	return nil
}

// Unscheduled returns why a pod has no node, or "".
func Unscheduled(p *core.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			return fmt.Sprintf("pod %s is not scheduled: %s", p.Name, c.Message)
		}
	}
	return ""
}

// Index returns the completion index of a pod.
func Index(p *core.Pod) int {
	n, _ := strconv.Atoi(p.Annotations[batch.JobCompletionIndexAnnotation])
	return n
}

// why returns what became of a pod whose stream has ended. The API server knows it a little later
// than the stream, so why asks again within a time.
func (s *Set) why(pod Pod, within time.Duration, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within+5*time.Second)
	defer cancel()
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		var p core.Pod
		got := s.Server.Get(ctx, s.Path("/api/v1", "pods/"+pod.Name), &p)
		switch {
		case cluster.IsStatus(got, http.StatusNotFound):
			return &fleet.Gone{Why: "the pod was deleted" + pod.where()}
		case got == nil && gone(&p):
			return &fleet.Gone{Why: Ended(&p)}
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

// message returns the last line of a container's output that is a message for people: the others
// are JSON for its caller.
func message(output string) string {
	lines := slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "{") })
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// OutOfMemory is the reason of a container that exceeded its limit of memory.
const OutOfMemory = "OOMKilled"

// Ended says why a pod has ended or ends.
func Ended(p *core.Pod) string {
	at := Pod{p.Name, p.Spec.NodeName}.where()
	what := "the process"
	for _, own := range p.Spec.Containers {
		what = "the " + own.Name
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.DisruptionTarget && c.Status == core.ConditionTrue {
			return fmt.Sprintf("the pod was removed%s: %s: %s", at, c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		switch t := c.State.Terminated; {
		case t == nil:
		case t.Reason == OutOfMemory:
			limit := ""
			for _, own := range p.Spec.Containers {
				limit = own.Resources.Limits.Memory().String()
			}
			return fmt.Sprintf("%s%s used more memory than its limit of %s and was killed (%s); raise --memory", what, at, limit, OutOfMemory)
		case p.DeletionTimestamp != nil:
		case t.ExitCode != 0:
			return fmt.Sprintf("%s%s ended with exit code %d: %s", what, at, t.ExitCode, cmp.Or(message(t.Message), t.Reason))
		default:
			return fmt.Sprintf("%s%s ended", what, at)
		}
	}
	if p.DeletionTimestamp != nil {
		return "the pod was deleted" + at
	}
	return fmt.Sprintf("the pod%s ended: %s %s", at, cmp.Or(p.Status.Reason, string(p.Status.Phase)), p.Status.Message)
}
