// live asks and tells the kubelet of a running node: it is started and stopped by
// a service manager, and says what it runs with, and that it lives, itself or by way of
// the API server. It is what package node needs of a kubelet.

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/kube/kubelet"
)

// Service is what starts a kubelet. Its methods are those of node.Kubelet.
type Service interface {
	Stop(context.Context) error
	Start(context.Context) error
	// Steady is nil of a kubelet that runs now, and has not been started again just before.
	Steady(context.Context) error
	// Ended is an error that wraps node.ErrEnded when it has ended since it was started.
	Ended(context.Context) error
	LastWords(context.Context) string
}

// RunningKubelet is the kubelet of a node. Who asks needs the right to get nodes and the leases
// of kube-node-lease, and nodes/proxy where Direct is nil.
type RunningKubelet struct {
	Service
	Client kubernetes.Interface
	Node   string
	// Direct asks the kubelet of this machine; nil: it is asked by way of the API server.
	Direct *Direct
}

// timeout bounds a question to the API server and to the kubelet through it.
const timeout = 5 * time.Second

// Well says whether it runs well now, whatever was before.
func (k *RunningKubelet) Well(ctx context.Context) error {
	if err := k.Steady(ctx); err != nil {
		return err
	}
	_, err := k.get(ctx, "healthz")
	return err
}

// Healthy asks /healthz.
func (k *RunningKubelet) Healthy(ctx context.Context) error {
	if err := k.Ended(ctx); err != nil {
		return err
	}
	_, err := k.get(ctx, "healthz")
	return err
}

// Configz asks /configz.
func (k *RunningKubelet) Configz(ctx context.Context) (kubelet.Fields, error) {
	text, err := k.get(ctx, "configz")
	if err != nil {
		return nil, err
	}
	all, err := kubelet.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("/configz: %w", err)
	}
	f, ok := all["kubeletconfig"].(map[string]any)
	if !ok {
		return nil, errors.New("/configz has no kubeletconfig")
	}
	return f, nil
}

func (k *RunningKubelet) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := k.ask(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("/%s of the kubelet: %w", path, err)
	}
	return text, nil
}

func (k *RunningKubelet) ask(ctx context.Context, path string) ([]byte, error) {
	if k.Direct == nil {
		return k.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(k.Node).SubResource("proxy").Suffix(path).DoRaw(ctx)
	}
	n, err := k.Client.CoreV1().Nodes().Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return k.Direct.get(ctx, n, path)
}

// Heartbeat asks the API server for the node and its lease.
func (k *RunningKubelet) Heartbeat(ctx context.Context) (Heartbeat, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var h Heartbeat
	n, err := k.Client.CoreV1().Nodes().Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return h, err
	}
	i := slices.IndexFunc(n.Status.Conditions, func(c core.NodeCondition) bool { return c.Type == core.NodeReady })
	if i < 0 {
		return h, fmt.Errorf("node %s does not say whether it is Ready", k.Node)
	}
	c := n.Status.Conditions[i]
	h.Ready, h.Status, h.Why, h.Version = c.Status == core.ConditionTrue, c.LastHeartbeatTime.Time, c.Message, n.Status.NodeInfo.KubeletVersion
	lease, err := k.Client.CoordinationV1().Leases(core.NamespaceNodeLease).Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return h, err
	}
	if lease.Spec.RenewTime != nil {
		h.Lease = lease.Spec.RenewTime.Time
	}
	return h, nil
}
