package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/internal/product/kubelet"
)

// Sources returns the inputs that rules of a cluster may use; a Cluster answers them.
func Sources() []platform.Source {
	return []platform.Source{platform.ClusterSource(), openshift.Source(), platform.Product(kubelet.Product), platform.Product(etcd.Product)}
}

// Platforms of the rules.
const (
	ofOpenShift = "openshift"
	ofKubelet   = "kubelet"
)

// AllPlatforms are the platforms that apply to OpenShift.
var AllPlatforms = []string{platform.Name, ofKubelet, ofOpenShift}

// Platforms returns the platforms that apply to this cluster.
func (c *Cluster) Platforms() []string {
	all := []string{platform.Name, ofKubelet}
	if c.OpenShift != "" {
		all = append(all, ofOpenShift)
	}
	return all
}

// Tables looks up rows in the catalog's tables.
type Tables interface {
	Table(name string) *rule.Table
}

// Findings checks all rules. disabled maps the IDs of rules that the user disabled to their
// finding's text.
func (c *Cluster) Findings(ctx context.Context, rules *rule.Catalogue, tables Tables, disabled map[string]string) ([]rule.Finding, error) {
	m := c.answers(tables)
	platforms := []string{platform.Name}
	if c.OpenShift != "" {
		platforms = append(platforms, ofOpenShift)
	}
	out := once(append(rules.Filter(notOfRelease).Check(ctx, m, platforms, disabled), c.etcdByRelease(ctx, rules, disabled)...))
	out = append(out, c.kubelets(ctx, rules, disabled)...)
	return out, ctx.Err()
}

// once merges the findings of etcd rules if no member could be queried, because the user has only
// one problem to solve.
func once(all []rule.Finding) []rule.Finding {
	sets := []string{ofEtcd, platform.Members, platform.Peers}
	var out []rule.Finding
	told := false
	for _, f := range all {
		if f.State != rule.Unknown || f.Instance != "" || f.Rule == nil || !slices.Contains(sets, f.Rule.Each) {
			out = append(out, f)
			continue
		}
		if !told {
			out = append(out, rule.Finding{
				ID: "etcd", Title: "etcd can be queried", State: rule.Unknown, Reason: f.Reason,
				Why:     "A cluster is as fast as its etcd: quota, disk and leader were not checked.",
				Sources: []rule.Source{rule.Cite("openshift-scalability", "2.4")},
			})
		}
		told = true
	}
	return out
}

// answers returns the answers to all inputs that are known from the cluster.
func (c *Cluster) answers(tables Tables) *machineOf {
	a := &platform.Known{}
	if c.Version != "" {
		a.Give("cluster.version", c.Version, "/version")
	}
	if c.OpenShift != "" {
		a.Give("cluster.openshift", c.OpenShift, "ClusterVersion version")
	}
	c.etcd(a)
	c.network(a)
	c.counts(a, platform.Objects, "cluster.objects")
	c.storage(a, tables)
	c.machines(a)
	c.programs(a)
	m := &machineOf{own: a, counted: &platform.Known{}}
	c.counts(m.counted, objectsOfOpenShift, objectsOfOpenShift)
	a.Sort()
	m.counted.Sort()
	if c.OpenShift != "" {
		m.documents = openshift.Of(c.Objects, c.Unread[OfObjects])
	}
	return m
}

// objectsOfOpenShift is a set that is counted in the cluster, unlike the sets from OpenShift's
// documents.
const objectsOfOpenShift = "openshift.objects"

// machineOf answers the rules' inputs from a cluster.
type machineOf struct {
	own, counted *platform.Known
	documents    platform.Answers // nil for other Kubernetes
}

func (m *machineOf) of(name string) platform.Answers {
	switch {
	case strings.HasPrefix(name, objectsOfOpenShift):
		return m.counted
	case strings.HasPrefix(name, ofOpenShift+".") && m.documents != nil:
		return m.documents
	}
	return m.own
}

// Answer implements rule.Machine.
func (m *machineOf) Answer(input string) fact.Answer { return m.of(input).Answer(input) }

// Items implements rule.Machine.
func (m *machineOf) Items(set string) (names []string, unknown string) { return m.of(set).Items(set) }

// Read implements rule.Machine. A cluster has no machine settings, so the answer is unknown.
func (m *machineOf) Read(name string, _ fact.Type) fact.Answer {
	return fact.Answer{Unknown: name + " is a setting of a machine; this audit reads only a cluster"}
}

// As returns the findings that the cluster would have if its kubelets ran the given release, and if
// kubeadm of that release had installed etcd and the control plane.
func (c *Cluster) As(ctx context.Context, as kuberelease.Release, rules *rule.Catalogue, disabled map[string]string) ([]rule.Finding, error) {
	other := *c
	other.as = as
	return slices.Concat(other.programsByRelease(ctx, rules, disabled), once(other.etcdByRelease(ctx, rules, disabled)), other.kubelets(ctx, rules, disabled)), ctx.Err()
}

// KubeletVersions returns the distinct kubelet versions of the nodes.
func (c *Cluster) KubeletVersions() []string {
	var out []string
	for _, n := range c.Nodes {
		if v := strings.TrimPrefix(n.Kubelet, "v"); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// kubelets checks the kubelet rules on every node. It reports a disabled rule only once.
func (c *Cluster) kubelets(ctx context.Context, rules *rule.Catalogue, disabled map[string]string) []rule.Finding {
	var out []rule.Finding
	told := map[string]bool{}
	if len(c.Nodes) == 0 && c.Unread[OfNodes] != "" {
		c = &Cluster{Nodes: []Node{{Unread: c.Unread[OfNodes]}}, OpenShift: c.OpenShift, as: c.as}
	}
	for _, n := range c.Nodes {
		for _, f := range rules.Check(ctx, n.machine(ctx, c.OpenShift != "", c.as), []string{ofKubelet}, disabled) {
			if _, off := f.IsDisabled(); off {
				if !told[f.ID] {
					out = append(out, f)
				}
				told[f.ID] = true
				continue
			}
			f.Instance = n.Name
			out = append(out, f)
		}
	}
	return out
}

// productOf answers the rules' inputs for one program on the nodes.
type productOf struct{ platform.Answers }

// Read implements rule.Machine.
func (productOf) Read(name string, _ fact.Type) fact.Answer {
	return fact.Answer{Unknown: name + " can only be read on the node"}
}

func (n *Node) machine(ctx context.Context, openshift bool, as kuberelease.Release) fact.MachineTree {
	p := kubelet.Product
	p.Find = func(context.Context, *host.Host) ([]product.Installed, error) {
		if n.Unread != "" {
			return nil, errors.New(n.Unread)
		}
		i, err := kubelet.Of(kubelet.Reported{
			Config: n.Config, At: "/configz of node " + n.Name, Version: strings.TrimPrefix(n.Kubelet, "v"), OpenShift: openshift, As: as,
		})
		if err != nil {
			return nil, fmt.Errorf("/configz: %w", err)
		}
		return []product.Installed{i}, nil
	}
	return productOf{platform.Product(p).Open(ctx, &platform.Subject{})}
}
