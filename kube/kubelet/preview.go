// preview predicts a rollout of KubeletConfig objects from the data of a cluster: each pool's
// settings, each node's change and what blocks it, and the order of the nodes.

package kubelet

import (
	"cmp"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
)

// Cluster is the data read from a cluster, the input of Of.
type Cluster struct {
	Configs []KubeletConfig
	Pools   []PoolPreview
	Nodes   []NodePreview
}

// PoolPreview is a KubeletPool or a MachineConfigPool.
type PoolPreview struct {
	Name           string
	Labels         map[string]string
	NodeSelector   *metav1.LabelSelector
	MaxUnavailable *intstr.IntOrString
	Paused         bool
	// Retry is the value of the pool's annotation RetryAnnotation.
	Retry string
	// Theirs marks a MachineConfigPool. Its nodes' settings are not in fettle's drop-ins, and
	// only the running kubelets show them.
	Theirs bool
	// Removed reports whether the nodes' own settings are restored, whatever is requested.
	Removed bool
}

// NodePreview is a node of the cluster.
type NodePreview struct {
	core.Node
	// Runs is the kubelet's running configuration (/configz); if nil, Unread has the reason.
	Runs   Fields
	Unread string
	// Kubelet is the node's NodeKubelet object, or nil.
	Kubelet *NodeKubelet
	// Pods are the node's pods that have not ended.
	Pods []core.Pod
}

// Plan is the predicted rollout.
type Plan struct {
	Schema string `json:"schema"` // fettle/kubelet-plan/v1
	// Headline counts the nodes that would change, and the refusals.
	Headline ui.Headline `json:"headline"`
	Pools    []PoolPlan  `json:"pools"`
	// Unselected are KubeletConfig objects that select no pool.
	Unselected []string `json:"unselected,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

// PoolPlan is the predicted rollout of one pool.
type PoolPlan struct {
	Name string `json:"name"`
	// KubeletConfigs are the objects that select the pool, Settings their merged settings.
	KubeletConfigs []string `json:"kubelet_configs,omitempty"`
	Settings       Fields   `json:"settings,omitempty"`
	Notes          []string `json:"notes,omitempty"`
	// Refused is why the pool's nodes would not change, or "".
	Refused string `json:"refused,omitempty"`
	// Releases are the objects' effects on each release of the nodes' kubelets, without releases
	// that have nothing to report.
	Releases       []ReleasePlan `json:"releases,omitempty"`
	MaxUnavailable int           `json:"max_unavailable"`
	Stopped        string        `json:"stopped,omitempty"`
	Nodes          []NodePlan    `json:"nodes,omitempty"`
}

// NodePlan is the predicted change of a node.
type NodePlan struct {
	Name string `json:"name"`
	// Order is the node's position in the rollout, from 1; 0 without a change.
	Order int `json:"order,omitempty"`
	// Now reports whether the node would start at once.
	Now bool `json:"now,omitempty"`
	// Class is nothing, restart, drain and restart, or unknown.
	Class    string   `json:"class"`
	Settings []string `json:"settings,omitempty"`
	// Moves is the number of pods that a drain would evict.
	Moves int `json:"moves,omitempty"`
	// Problem is why the node would refuse the change, Held why it must wait.
	Problem string `json:"problem,omitempty"`
	Held    string `json:"held,omitempty"`
	// Unread is true if Problem says that the kubelet could not be read. Whether the node would
	// refuse the change is then unknown.
	Unread bool `json:"unread,omitempty"`
}

// Unknown is the class of a change if the kubelet's configuration is unknown.
const Unknown = "unknown"

// Of predicts the rollout in a cluster.
func Of(c Cluster) Plan {
	p := Plan{Schema: "fettle/kubelet-plan/v1", Pools: []PoolPlan{}}
	var selectors []Selector
	for _, pool := range c.Pools {
		selectors = append(selectors, Selector{Pool: pool.Name, Nodes: pool.NodeSelector})
	}
	labels := map[string]map[string]string{}
	for _, n := range c.Nodes {
		labels[n.Name] = n.Labels
	}
	members, wrong := Members(selectors, labels)
	selected := map[string]bool{}
	pools := slices.Clone(c.Pools)
	slices.SortFunc(pools, func(a, b PoolPreview) int { return cmp.Compare(a.Name, b.Name) })
	for _, pool := range pools {
		out := PoolPlan{Name: pool.Name}
		want, err := WantOfConfig(c.Configs, pool.Labels)
		if configs, _ := Selecting(c.Configs, pool.Labels); len(configs) > 0 {
			for _, k := range configs {
				selected[k.Name] = true
				out.KubeletConfigs = append(out.KubeletConfigs, k.Name)
			}
		}
		if err == nil {
			err = wrong[pool.Name]
		}
		if err == nil && !pool.Removed && !pool.Theirs {
			err = RefusedBy(want.Fields, c.kubeletsWithout(want.Digest, pool.Name, members))
		}
		if !pool.Removed {
			out.byRelease(c, pool, members)
		}
		switch {
		case pool.Removed:
			out.Notes = append(out.Notes, "the pool's managementState is Removed: its nodes are restored and ignore KubeletConfig objects")
		case err != nil:
			out.Refused = err.Error()
		default:
			out.Settings, out.Notes = want.Fields, want.Notes
			out.nodes(pool, want, c.Nodes, members)
		}
		p.Pools = append(p.Pools, out)
	}
	for _, k := range c.Configs {
		if !selected[k.Name] {
			p.Unselected = append(p.Unselected, k.Name)
		}
	}
	slices.Sort(p.Unselected)
	return p
}

// kubeletsWithout returns a pool's nodes without the settings of a digest, by kubelet version.
func (c Cluster) kubeletsWithout(digest, pool string, members map[string]Member) map[string][]string {
	out := map[string][]string{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if slices.Contains(members[n.Name].Selected, pool) && n.has() != digest {
			version := n.Status.NodeInfo.KubeletVersion
			out[version] = append(out[version], n.Name)
		}
	}
	return out
}

// nodes plans each node of the pool and orders the nodes.
func (p *PoolPlan) nodes(pool PoolPreview, want Want, all []NodePreview, members map[string]Member) {
	plans := map[string]*NodePlan{}
	var states []Node
	for _, n := range all {
		m, ok := members[n.Name]
		if !ok || !slices.Contains(m.Selected, pool.Name) {
			continue
		}
		s := n.state(pool, want)
		plan, back := n.plan(pool, want, s)
		for _, name := range back {
			if note := name + " is removed from the nodes, which then use their own files (not checked here)"; !slices.Contains(p.Notes, note) {
				p.Notes = append(p.Notes, note)
			}
		}
		plans[n.Name] = &plan
		s.Conflict = m.Conflict
		if pool.Theirs {
			s.Has = "other settings"
			if plan.Class == Nothing.String() {
				s.Has = want.Digest
			}
		}
		tried := s.Tried == want.Digest || s.Phase == Changing || s.Phase == Broken
		if plan.Problem != "" && (s.Phase == Idle || !tried) {
			// The node's agent will report this for the new settings, whatever it reported for
			// others.
			s.Phase, s.Tried, s.Why = Blocked, want.Digest, plan.Problem
		}
		states = append(states, s)
	}
	d := Decide(Pool{MaxUnavailable: pool.MaxUnavailable, Paused: pool.Paused, Digest: want.Digest}, states)
	p.MaxUnavailable, p.Stopped = d.MaxUnavailable, d.Stopped
	for i, name := range append(slices.Clone(d.Begin), d.Waiting...) {
		plans[name].Order, plans[name].Now = i+1, i < len(d.Begin)
	}
	for _, h := range d.Held {
		if plans[h.Node].Problem == "" {
			plans[h.Node].Held = h.Why
		}
	}
	for _, u := range d.Unavailable {
		if plan := plans[u.Node]; plan.Class != Nothing.String() && plan.Order == 0 && plan.Problem == "" && plan.Held == "" {
			plan.Held = u.Why
		}
	}
	for _, s := range states {
		p.Nodes = append(p.Nodes, *plans[s.Name])
	}
	last := len(states) + 1
	place := func(n NodePlan) int {
		if n.Order == 0 {
			return last
		}
		return n.Order
	}
	slices.SortStableFunc(p.Nodes, func(a, b NodePlan) int { return cmp.Or(place(a)-place(b), cmp.Compare(a.Name, b.Name)) })
}

// plan returns the change of a node in state s. back are the settings that the node will lose.
func (n *NodePreview) plan(pool PoolPreview, want Want, s Node) (p NodePlan, back []string) {
	p.Name = n.Name
	switch {
	case n.Runs != nil:
	case s.Phase == Changing: // the kubelet may be down at the moment
		p.Class = Unknown
		return p, nil
	case !pool.Theirs && s.Has == want.Digest && s.Phase != Broken: // nothing is requested from the node
		p.Class = Nothing.String()
		return p, nil
	default:
		p.Class, p.Unread, p.Problem = Unknown, true, "cannot read its kubelet's configuration: "+n.Unread
		return p, nil
	}
	then := Merge(n.Runs, want.Fields)
	c := ChangeOf(n.Runs, then, nil)
	if !pool.Theirs && s.Has != want.Digest {
		// The drop-in changes, and a kubelet reads it only at start.
		c.Class = max(c.Class, Restart)
		back = n.back(want)
	}
	for _, name := range back {
		c.Class = max(c.Class, ClassOf(name))
		if !slices.Contains(c.Settings, name) {
			c.Settings = append(c.Settings, name)
		}
	}
	slices.Sort(c.Settings)
	p.Class, p.Settings = c.Class.String(), c.Settings
	if c.Class == Nothing {
		return p, back
	}
	if problems := Problems(then, n.Runs, On{Kubelet: n.kubelet()}); len(problems) > 0 {
		p.Problem = "the kubelet would not start: " + strings.Join(problems, "; ")
		return p, back
	}
	pods := cluster.Sort(n.Pods)
	stay := len(n.Pods)
	if c.Class == Drain {
		p.Moves, stay = len(pods.Move), len(pods.Stay)
		if len(pods.Lost) > 0 {
			first := pods.Lost[0]
			p.Problem = "pods without a controller block a drain: " + first.Namespace + "/" + first.Name
			if more := len(pods.Lost) - 1; more > 0 {
				p.Problem += text.Sprintf(" and %d more", more)
			}
			return p, back
		}
	}
	cpus := n.Status.Capacity[core.ResourceCPU]
	if err := TooManyPods(then, int(cpus.Value()), stay); err != nil {
		p.Problem = err.Error()
	}
	return p, back
}
