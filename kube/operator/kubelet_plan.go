package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// Cluster is the input of Of, which does not change it.
type Cluster struct {
	Configs  []kubelet.KubeletConfig
	Pools    []kubelet.KubeletPool
	Nodes    []core.Node
	Kubelets []kubelet.NodeKubelet
	// Silent are nodes whose kubelets have not reported in time, whatever their Node objects say.
	Silent map[string]bool
	// ReportOnly names another controller that manages KubeletConfig objects; fettle then only
	// reports and changes nothing. "" without one.
	ReportOnly string
	Now        time.Time
}

// Plan lists the objects to write.
type Plan struct {
	// Make are new objects. Move are objects with a new pool. Remove are objects whose node is gone
	// or has no request any more.
	Make, Move, Remove []kubelet.NodeKubelet
	// Begin are the objects of nodes that start a change now.
	Begin []kubelet.NodeKubelet
	// Pools and Configs are the objects with their new status.
	Pools   []kubelet.KubeletPool
	Configs []kubelet.KubeletConfig
	// Nodes counts the nodes of each pool by phase, for the metrics.
	Nodes map[string]map[string]int
}

// group is the nodes that share slots: the nodes of one pool, or all nodes without a pool.
type group struct {
	pool  *kubelet.KubeletPool // nil for nodes without a pool
	want  kubelet.Want
	wrong error // why the request is uncertain; nodes keep their settings
	blind bool  // the pool's selector is invalid, so nodes that it had stay its own
	nodes []kubelet.Node
	kubelet.Decision
}

// Of decides which objects to write.
func Of(c Cluster) Plan {
	p := Plan{Nodes: map[string]map[string]int{}}
	groups, members := c.groups()
	has := map[string]*kubelet.NodeKubelet{}
	for i := range c.Kubelets {
		has[c.Kubelets[i].Name] = &c.Kubelets[i]
	}
	here := map[string]bool{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		here[n.Name] = true
		c.place(&p, groups, members[n.Name], n, has[n.Name])
	}
	for i := range c.Kubelets {
		k := &c.Kubelets[i]
		switch {
		case here[k.Name]:
		case k.Changing():
			g := groups[k.Spec.Pool]
			if g == nil {
				g = groups[""]
			}
			g.nodes = append(g.nodes, kubelet.Node{Name: k.Name, Phase: kubelet.Changing, Has: k.Status.Has, Absent: true})
		default:
			p.Remove = append(p.Remove, *k)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := groups[name]
		g.decide()
		for _, node := range g.Begin {
			if c.ReportOnly == "" {
				p.Begin = append(p.Begin, g.begin(*has[node], c.Now))
			}
		}
		if g.pool != nil {
			p.Pools = append(p.Pools, c.poolStatus(g, has))
			p.Nodes[name] = c.phases(g)
		}
	}
	p.Configs = c.configStatus(groups)
	if c.ReportOnly != "" {
		p.Make, p.Move, p.Remove = nil, nil, nil
	}
	return p
}

// groups returns the groups by pool name; "" is the group without a pool.
func (c Cluster) groups() (map[string]*group, map[string]kubelet.Member) {
	labels := map[string]map[string]string{}
	for _, n := range c.Nodes {
		labels[n.Name] = n.Labels
	}
	var selectors []kubelet.Selector
	for _, p := range c.Pools {
		selectors = append(selectors, kubelet.Selector{Pool: p.Name, Nodes: p.Spec.NodeSelector})
	}
	members, problems := kubelet.Members(selectors, labels)
	runs := c.settings()
	groups := map[string]*group{"": {}}
	for i := range c.Pools {
		p := &c.Pools[i]
		g := &group{pool: p}
		if p.Spec.ManagementState != kubelet.Removed {
			g.want, g.wrong = kubelet.WantOfConfig(c.Configs, p.Labels)
		}
		if g.wrong == nil && len(g.want.Fields) > 0 {
			g.wrong = kubelet.RefusedBy(g.want.Fields, c.kubeletsWithout(g.want.Digest, p.Name, members, runs))
		}
		if problem := problems[p.Name]; problem != nil {
			g.wrong, g.blind = problem, true
		}
		if g.wrong != nil {
			g.want = kubelet.Want{Digest: p.Status.Digest, Configs: p.Status.KubeletConfigs}
		}
		groups[p.Name] = g
	}
	return groups, members
}

// settings returns the digest of the settings that each node has from fettle.
func (c Cluster) settings() map[string]string {
	out := make(map[string]string, len(c.Kubelets))
	for i := range c.Kubelets {
		out[c.Kubelets[i].Name] = c.Kubelets[i].Status.Has
	}
	return out
}

// kubeletsWithout returns a pool's nodes that lack the settings of a digest, by kubelet version.
func (c Cluster) kubeletsWithout(digest, pool string, members map[string]kubelet.Member, runs map[string]string) map[string][]string {
	out := map[string][]string{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if slices.Contains(members[n.Name].Selected, pool) && runs[n.Name] != digest {
			version := n.Status.NodeInfo.KubeletVersion
			out[version] = append(out[version], n.Name)
		}
	}
	return out
}

// place adds a node to its group, and plans the changes of its object.
func (c Cluster) place(p *Plan, groups map[string]*group, m kubelet.Member, n *core.Node, k *kubelet.NodeKubelet) {
	for _, name := range m.Selected {
		g := groups[name]
		s := state(n, k, g, c.Silent[n.Name])
		s.Conflict = m.Conflict
		g.nodes = append(g.nodes, s)
	}
	switch {
	case m.Pool != "" && k == nil:
		p.Make = append(p.Make, kubelet.NodeKubelet{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}},
			Spec:       kubelet.NodeKubeletSpec{Pool: m.Pool},
		})
	case k == nil && m.Conflict == "" && n.Annotations[kubelet.SettingsAnnotation] != "" && !anyBlind(groups):
		// The NodeKubelet object was deleted although the node still has settings. In a new object
		// the agent reports them, and is then asked to restore the node's own.
		p.Make = append(p.Make, kubelet.NodeKubelet{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}}})
	case k == nil, m.Conflict != "":
	case m.Pool == "" && groups[k.Spec.Pool] != nil && groups[k.Spec.Pool].blind:
	case m.Pool == "" && k.Status.Phase == "" && n.Annotations[kubelet.SettingsAnnotation] != "":
	case m.Pool == "" && !k.Changing() && k.Status.Has == "" && k.Status.Phase != kubelet.ConditionBroken:
		p.Remove = append(p.Remove, *k)
	default:
		if m.Pool == "" {
			g := groups[""]
			g.nodes = append(g.nodes, state(n, k, g, c.Silent[n.Name]))
		}
		if k.Spec.Pool != m.Pool {
			moved := k.DeepCopy()
			moved.Spec.Pool = m.Pool
			p.Move = append(p.Move, *moved)
		}
	}
}

// anyBlind reports whether the nodes of any pool are unknown.
func anyBlind(groups map[string]*group) bool {
	for _, g := range groups {
		if g.blind {
			return true
		}
	}
	return false
}

// state returns a node as the decision sees it.
func state(n *core.Node, k *kubelet.NodeKubelet, g *group, silent bool) kubelet.Node {
	s := kubelet.SeenNode(n, k, g.want.Digest, g.retry())
	s.Ready = s.Ready && !silent
	if k == nil {
		kubelet.Silent(&s, g.want.Digest)
	}
	return s
}

func (g *group) retry() string {
	if g.pool == nil {
		return ""
	}
	return g.pool.Annotations[kubelet.RetryAnnotation]
}

// decide decides which nodes may begin.
func (g *group) decide() {
	p := kubelet.Pool{Digest: g.want.Digest}
	if g.pool != nil {
		p.MaxUnavailable, p.Paused = g.pool.Spec.MaxUnavailable, g.pool.Spec.Paused
	}
	g.Decision = kubelet.Decide(p, g.nodes)
	if g.wrong != nil {
		g.Begin, g.Waiting = nil, nil
		g.Stopped = g.wrong.Error()
	}
}

// begin returns the object of a node that is told to change now.
func (g *group) begin(k kubelet.NodeKubelet, now time.Time) kubelet.NodeKubelet {
	out := *k.DeepCopy()
	s := kubelet.NodeKubeletSpec{
		Turn: max(k.Spec.Turn, k.Status.Turn) + 1, Since: metav1.NewTime(now.UTC().Truncate(time.Second)),
		Digest: g.want.Digest, KubeletConfigs: slices.Clone(g.want.Configs), Retry: g.retry(),
	}
	if g.pool != nil {
		s.Pool = g.pool.Name
	}
	if len(g.want.Fields) > 0 {
		text, err := json.Marshal(g.want.Fields)
		if err != nil {
			panic(fmt.Sprintf("cannot encode the fields: %v", err))
		}
		s.KubeletConfig = &runtime.RawExtension{Raw: text}
	}
	out.Spec = s
	return out
}
