// drain takes a node out of service for a change and returns it to service. It cordons the node and
// evicts its pods, respecting disruption budgets. It undoes only its own cordon.

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"fettle.dev/fettle/internal/host"
)

// Cordoned is the annotation of a node that fettle cordoned, set in the same request. A cordoned
// node without it was cordoned by another user.
const Cordoned = "fettle.dev/cordoned"

// Defaults of Node.
const (
	DefaultPatience = 10 * time.Minute
	DefaultInterval = 5 * time.Second
)

// Node drains one node.
type Node struct {
	Client kubernetes.Interface
	Name   string
	// Patience limits the time for all pods to leave; 0 means DefaultPatience.
	Patience time.Duration
	// Interval is the time between attempts at an eviction that a disruption budget forbids; 0
	// means DefaultInterval.
	Interval time.Duration
	// Force also evicts pods that no controller would recreate.
	Force bool
}

// Cordon makes the node unschedulable and records the reason in an annotation. It leaves a node
// that another user cordoned unchanged.
func (n *Node) Cordon(ctx context.Context, why string) error {
	return n.change(ctx, func(node *core.Node) any {
		if node.Spec.Unschedulable {
			return nil
		}
		return marked(node, why, true)
	})
}

// Uncordon reverts Cordon. If another user has uncordoned the node in the meantime, it only removes
// the annotation.
func (n *Node) Uncordon(ctx context.Context) error {
	return n.change(ctx, func(node *core.Node) any {
		if _, ours := node.Annotations[Cordoned]; !ours {
			return nil
		}
		return marked(node, nil, false)
	})
}

// Annotate sets an annotation of the node, or removes it if value is "".
func (n *Node) Annotate(ctx context.Context, name, value string) error {
	return n.change(ctx, func(node *core.Node) any {
		if node.Annotations[name] == value {
			return nil
		}
		var to any
		if value != "" {
			to = value
		}
		return map[string]any{"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]any{name: to}}}
	})
}

// marked returns a patch of a node that applies only to the version that was read.
func marked(node *core.Node, why any, cordoned bool) any {
	return map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]any{Cordoned: why}},
		"spec":     map[string]any{"unschedulable": cordoned},
	}
}

func (n *Node) change(ctx context.Context, to func(*core.Node) any) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		patch := to(node)
		if patch == nil {
			return nil
		}
		text, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		_, err = n.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, text, meta.PatchOptions{})
		return err
	})
}

// Pods returns the node's pods that have not ended.
func (n *Node) Pods(ctx context.Context) ([]core.Pod, error) {
	list, err := n.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p core.Pod) bool {
		return p.Spec.NodeName != n.Name || Ended(&p)
	}), nil
}

// Sorted groups a node's pods by their treatment in a drain.
type Sorted struct {
	// Move are the pods to evict. Stay are DaemonSet pods and static pods.
	Move, Stay []core.Pod
	// Lost are pods that no controller would recreate; they are not evicted.
	Lost []core.Pod
}

// Sort groups pods by their treatment in a drain.
func Sort(pods []core.Pod) Sorted {
	var s Sorted
	for _, p := range pods {
		switch {
		case Stays(&p):
			s.Stay = append(s.Stay, p)
		case meta.GetControllerOf(&p) == nil:
			s.Lost = append(s.Lost, p)
		default:
			s.Move = append(s.Move, p)
		}
	}
	return s
}

// Drain evicts the pods and waits until they are gone. The error names the remaining pods with the
// reasons; evicted pods stay gone.
func (n *Node) Drain(ctx context.Context) error {
	pods, err := n.Pods(ctx)
	if err != nil {
		return err
	}
	s := Sort(pods)
	if len(s.Lost) > 0 && !n.Force {
		return fmt.Errorf("%s: no controller would recreate these pods; delete them, or create them through a Deployment", names(s.Lost))
	}
	patience := cmp.Or(n.Patience, DefaultPatience)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left := append(s.Move, s.Lost...)
	why := map[types.UID]string{}
	for len(left) > 0 {
		left = slices.DeleteFunc(left, func(p core.Pod) bool {
			gone, err := n.evict(ctx, &p)
			if err != nil && ctx.Err() == nil {
				why[p.UID] = err.Error()
			}
			return gone
		})
		if len(left) == 0 {
			break
		}
		if err := host.Sleep(ctx, cmp.Or(n.Interval, DefaultInterval)); err != nil {
			var texts []string
			for _, p := range left {
				texts = append(texts, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, cmp.Or(why[p.UID], "it is being deleted")))
			}
			return fmt.Errorf("not gone after %s: %s: %w", patience, strings.Join(texts, ", "), err)
		}
	}
	return nil
}

// evict requests a pod's eviction once, and reports whether the pod is gone.
func (n *Node) evict(ctx context.Context, p *core.Pod) (gone bool, err error) {
	now, err := n.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, meta.GetOptions{})
	switch {
	case errors.IsNotFound(err), err == nil && now.UID != p.UID:
		return true, nil
	case err != nil:
		return false, err
	case now.DeletionTimestamp != nil:
		return false, nil
	}
	uid := p.UID
	err = n.Client.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policy.Eviction{
		ObjectMeta:    meta.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &uid}},
	})
	if errors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

func names(pods []core.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return First(all, 5)
}
