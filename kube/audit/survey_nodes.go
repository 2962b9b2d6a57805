package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/kube/cluster"
)

// ofOVN is the annotation in which OVN-Kubernetes stores a node's ranges of the cluster network.
const ofOVN = "k8s.ovn.org/node-subnets"

// nodes reads all nodes into the Cluster.
func (s *Survey) nodes(ctx context.Context) {
	c := s.cluster
	err := list(ctx, s, "/api/v1/nodes", false, func(n *core.Node) {
		out := Node{Name: n.Name, CIDRs: cidrs(n), Kubelet: n.Status.NodeInfo.KubeletVersion}
		out.MaxPods = int(n.Status.Capacity.Pods().Value())
		out.Cores = n.Status.Capacity.Cpu().AsApproximateFloat64()
		for _, x := range n.Status.Conditions {
			out.Ready = out.Ready || x.Type == core.NodeReady && x.Status == core.ConditionTrue
		}
		c.Nodes = append(c.Nodes, out)
		n.ManagedFields, n.Status.Images = nil, nil
		c.CoreNodes = append(c.CoreNodes, *n)
		if text, err := document(n); err == nil {
			c.Objects = append(c.Objects, openshift.Object{Kind: "Node", Name: n.Name, Text: text, Listed: true})
		}
	})
	if err != nil {
		c.Nodes, c.CoreNodes = nil, nil
		c.Miss(OfNodes, "cannot list the nodes: %v", err)
		c.Counts = append(c.Counts, Count{What: "nodes", Unread: err.Error()})
		return
	}
	c.Counts = append(c.Counts, Count{What: "nodes", N: len(c.Nodes)})
}

// cidrs returns a node's ranges of the cluster network, assigned by the controller manager or
// OVN-Kubernetes.
func cidrs(n *core.Node) []string {
	if len(n.Spec.PodCIDRs) > 0 {
		return n.Spec.PodCIDRs
	}
	if n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return subnets(n.Annotations[ofOVN])
}

// subnets parses OVN-Kubernetes' annotation: {"default": ["10.128.0.0/23"]}, or a string instead of
// the list in versions with only one IP family.
func subnets(text string) []string {
	var said struct{ Default any }
	if text == "" || json.Unmarshal([]byte(text), &said) != nil {
		return nil
	}
	switch v := said.Default.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			if t, ok := x.(string); ok {
				out = append(out, t)
			}
		}
		return out
	}
	return nil
}

// document returns, as JSON, the fields of a node that rules from documents use.
func document(n *core.Node) ([]byte, error) {
	of := func(l core.ResourceList) map[string]string {
		out := map[string]string{}
		for _, name := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
			if q, ok := l[name]; ok {
				out[string(name)] = q.String()
			}
		}
		return out
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n.Name, "labels": n.Labels},
		"status": map[string]any{"capacity": of(n.Status.Capacity), "allocatable": of(n.Status.Allocatable)},
	})
}

// atOnce is the number of kubelets queried concurrently, oneKubelet the time limit for each.
const (
	atOnce     = 16
	oneKubelet = 10 * time.Second
)

// kubelets reads the running configurations of all Ready nodes' kubelets through the API server.
func (s *Survey) kubelets(ctx context.Context) {
	all, cancel := context.WithTimeout(ctx, s.Kubelets)
	defer cancel()
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range s.cluster.Nodes {
		n := &s.cluster.Nodes[i]
		if !n.Ready {
			n.Unread = "node not Ready; not queried"
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-all.Done():
			n.Unread = "not queried: the other nodes used up the time limit of " + s.Kubelets.String() + " (--kubelet-time)"
			continue
		}
		wait.Go(func() {
			defer func() { <-slots }()
			n.Config, n.Unread = s.configz(all, n.Name)
		})
	}
	wait.Wait()
}

// noWay returns why the API server cannot reach a node, or "".
func (s *Survey) noWay(name string) string {
	for i := range s.cluster.CoreNodes {
		if n := &s.cluster.CoreNodes[i]; n.Name == name {
			return cluster.NoWay(n)
		}
	}
	return ""
}

// configz returns a kubelet's running configuration, or why it is unknown.
func (s *Survey) configz(ctx context.Context, node string) (config []byte, unread string) {
	ctx, cancel := context.WithTimeout(ctx, oneKubelet)
	defer cancel()
	var text []byte
	if err := s.Server.Get(ctx, "/api/v1/nodes/"+node+"/proxy/configz", &text); err != nil {
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return nil, "no answer in time"
		}
		if cluster.IsStatus(err, http.StatusForbidden) {
			return nil, fmt.Sprintf("configuration not readable; allow this user to get nodes/proxy: %v", err)
		}
		return nil, cmp.Or(s.noWay(node), fmt.Sprintf("configuration not readable: %v", err))
	}
	config, err := configOf(text)
	if err != nil {
		return nil, err.Error()
	}
	return config, ""
}

// configOf returns the KubeletConfiguration in a response of /configz.
func configOf(text []byte) ([]byte, error) {
	var said struct {
		Config json.RawMessage `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("/configz: %w", err)
	}
	if len(said.Config) == 0 || said.Config[0] != '{' {
		return nil, fmt.Errorf("/configz has no kubeletconfig, only %s", strconv.Quote(string(text[:min(len(text), 100)])))
	}
	return said.Config, nil
}
