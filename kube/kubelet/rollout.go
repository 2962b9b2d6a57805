package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/text"
)

// rollout decides which nodes of a pool may now start a change of their kubelet. It is a pure
// function.
//
// The rules are those of OpenShift's Machine Config Operator (pkg/controller/node:
// node_controller.go, layered_node_state.go). Two are fettle's own: nodes that disappear during a
// change count as unavailable, and after the first failure no other node starts.

// Pool is the request for a pool's nodes.
type Pool struct {
	// MaxUnavailable is a number of nodes, or a percentage ("10%"), rounded down. nil and 0 mean 1.
	MaxUnavailable *intstr.IntOrString
	Paused         bool
	// Digest identifies the requested settings; "" means the nodes' own.
	Digest string
}

// Phase is a node's state in a rollout.
type Phase string

// Phases of a node.
const (
	Idle Phase = "" // no change in progress, no problem
	// Changing: the node has started a change and not reported the result.
	Changing Phase = "changing"
	// Failed: the node could not run with the settings in Node.Tried and was rolled back.
	Failed Phase = "failed"
	// Broken: the node tried the settings, and does not run even with its former ones.
	Broken Phase = "broken"
	// Blocked: the settings need an administrator's action, such as a reboot or a kubelet that
	// reads drop-ins.
	Blocked Phase = "blocked"
)

// Node is a node of the pool.
type Node struct {
	Name string
	// Has is the digest of the node's present settings.
	Has   string
	Phase Phase
	// Tried is the digest of the settings to which Phase applies.
	Tried string
	// Why is the reason for Phase, as text.
	Why string
	// Absent reports whether the Node object is gone and the node was changing before.
	Absent bool
	// Fields from the Node object.
	Ready, DiskPressure, NetworkUnavailable, Unschedulable bool
	// Conflict is why the node's pool is ambiguous, or "".
	Conflict string
}

// Unavailable is a node that occupies a slot, and the reason.
type Unavailable struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Decision lists the nodes that may start now, and why others may not.
type Decision struct {
	// Begin are the nodes that may start now, in order.
	Begin []string `json:"begin,omitempty"`
	// Waiting are the nodes that will change later, in order.
	Waiting []string `json:"waiting,omitempty"`
	// Unavailable are the nodes that occupy slots, sorted by name.
	Unavailable []Unavailable `json:"unavailable,omitempty"`
	// Held are nodes that need the change but cannot start in their present state.
	Held []Unavailable `json:"held,omitempty"`
	// MaxUnavailable is the limit of concurrently unavailable nodes.
	MaxUnavailable int `json:"max_unavailable"`
	Total          int `json:"total"`
	// Done counts the nodes with the requested settings.
	Done int `json:"done"`
	// Stopped is why the rollout has stopped; "" if it continues.
	Stopped string `json:"stopped,omitempty"`
}

// Decide returns which nodes of a pool may start a change now.
func Decide(p Pool, nodes []Node) Decision {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return natural(a.Name, b.Name) })
	d := Decision{Total: len(nodes)}
	limit, wrong := limit(p.MaxUnavailable, len(nodes))
	d.MaxUnavailable = limit
	if wrong != nil {
		d.Stopped = wrong.Error()
	}
	var failed []string
	var ready []string
	for _, n := range nodes {
		if why := n.unavailable(p.Digest); why != "" {
			d.Unavailable = append(d.Unavailable, Unavailable{n.Name, why})
		}
		switch {
		case n.Has == p.Digest && n.Phase != Changing && n.Phase != Broken:
			d.Done++
			continue
		case (n.Phase == Failed || n.Phase == Broken) && n.Tried == p.Digest, n.Phase == Broken:
			failed = append(failed, n.Name)
			continue
		}
		switch why := n.held(p.Digest); {
		case n.Phase == Changing:
		case why != "":
			d.Held = append(d.Held, Unavailable{n.Name, why})
		default:
			ready = append(ready, n.Name)
		}
	}
	switch {
	case d.Stopped != "":
	case len(failed) > 0:
		d.Stopped = fmt.Sprintf("failed on %s: change the settings, or remove the obstacle", strings.Join(failed, ", "))
	case p.Paused:
		d.Stopped = "the pool is paused"
	}
	slots := max(0, limit-len(d.Unavailable))
	if d.Stopped != "" {
		slots = 0
	}
	slots = min(slots, len(ready))
	d.Begin, d.Waiting = ready[:slots:slots], ready[slots:]
	return d
}

// unavailable returns why a node occupies a slot, or "".
func (n Node) unavailable(digest string) string {
	switch {
	case n.Absent:
		return "it disappeared during its change"
	case n.Phase == Changing:
		return "it is changing"
	case n.Phase == Broken:
		return "the kubelet runs with neither the new nor its former settings" + because(n.Why)
	case n.Phase == Failed && n.Tried == digest && n.Has != digest:
		return "the settings failed on it" + because(n.Why)
	}
	return n.condition()
}

// condition returns what makes a Node object unavailable, or "".
func (n Node) condition() string {
	switch {
	case !n.Ready:
		return "it is not Ready"
	case n.DiskPressure:
		return "it has DiskPressure"
	case n.NetworkUnavailable:
		return "its network is unavailable"
	case n.Unschedulable:
		return "it was cordoned by another user"
	}
	return ""
}

// held returns why a node that needs the change cannot start, or "".
func (n Node) held(digest string) string {
	switch {
	case n.Absent:
		return "it is gone"
	case n.Conflict != "":
		return n.Conflict
	case n.Phase == Blocked && n.Tried == digest:
		return cmp.Or(n.Why, "its agent cannot change it")
	}
	return n.condition()
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// limit returns how many of all nodes may be unavailable. For an invalid m, it returns 1 and an
// error.
func limit(m *intstr.IntOrString, all int) (int, error) {
	if m == nil {
		return 1, nil
	}
	n := m.IntValue()
	if m.Type == intstr.String {
		text, percent := strings.CutSuffix(m.StrVal, "%")
		p, err := strconv.Atoi(text)
		if err != nil || !percent || p < 0 || p > 100 {
			return 1, fmt.Errorf("maxUnavailable is %q; want a number, or a percentage such as 10%%", m.StrVal)
		}
		n = all * p / 100
	}
	if n < 0 {
		return 1, text.Errorf("maxUnavailable is %d; want 1 or more", n)
	}
	return max(n, 1), nil
}

// natural compares names by their numbers: node2 sorts before node10.
func natural(a, b string) int {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x, y := digits(a[i:]), digits(b[j:])
		if x == "" || y == "" {
			if a[i] != b[j] {
				return cmp.Compare(a[i], b[j])
			}
			i, j = i+1, j+1
			continue
		}
		m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
		i, j = i+len(x), j+len(y)
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func digits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// Selector is a pool with its node selector.
type Selector struct {
	Pool  string
	Nodes *metav1.LabelSelector
}

// Member is a node's pool. A node selected by several pools belongs to none, because its settings
// would be ambiguous; Conflict explains this.
type Member struct {
	Pool     string
	Conflict string
	// Selected are the pools that select the node, sorted by name.
	Selected []string
}

// Members returns each node's pool; it omits nodes without one. nodes maps names to labels. A nil
// or empty selector selects nothing, because a pool of all nodes, control plane included, is rarely
// intended. problems has the errors of invalid selectors by pool; such a pool has no nodes.
func Members(pools []Selector, nodes map[string]map[string]string) (members map[string]Member, problems map[string]error) {
	members, problems = map[string]Member{}, map[string]error{}
	selectors := map[string]labels.Selector{}
	var names []string
	for _, p := range pools {
		s, err := metav1.LabelSelectorAsSelector(p.Nodes)
		switch {
		case err != nil:
			problems[p.Pool] = fmt.Errorf("pool %s: nodeSelector selects nothing: %w", p.Pool, err)
		case !s.Empty():
			selectors[p.Pool] = s
			names = append(names, p.Pool)
		}
	}
	slices.Sort(names)
	for node, has := range nodes {
		var m Member
		for _, name := range names {
			if selectors[name].Matches(labels.Set(has)) {
				m.Selected = append(m.Selected, name)
			}
		}
		switch len(m.Selected) {
		case 0:
			continue
		case 1:
			m.Pool = m.Selected[0]
		default:
			m.Conflict = "in several pools: " + strings.Join(m.Selected, " and ") + "; only one may select it"
		}
		members[node] = m
	}
	return members, problems
}

// seen converts a node and its agent's report to the input of Decide. The operator and kubectl
// fettle kubelet plan use it.

// NoAgent is the message for a node whose agent has not reported yet.
const NoAgent = "its agent has not reported yet"

// SeenNode returns a node in the form that Decide takes. digest and retry belong to its pool's
// requested settings. k is nil if the operator has not requested anything from the node yet; the
// node then has no phase.
func SeenNode(n *core.Node, k *NodeKubelet, digest, retry string) Node {
	s := Node{Name: n.Name, Unschedulable: n.Spec.Unschedulable}
	for _, c := range n.Status.Conditions {
		on := c.Status == core.ConditionTrue
		switch c.Type {
		case core.NodeReady:
			s.Ready = on
		case core.NodeDiskPressure:
			s.DiskPressure = on
		case core.NodeNetworkUnavailable:
			s.NetworkUnavailable = on
		}
	}
	if k == nil {
		return s
	}
	s.Has, s.Tried, s.Why = k.Status.Has, k.Status.Tried, k.Status.Message
	again := k.Spec.Retry != retry
	switch phase := k.Status.Phase; {
	case k.Changing():
		s.Phase = Changing
	case phase == "":
		Silent(&s, digest)
	case phase == ConditionBroken:
		s.Phase = Broken
	case phase == ConditionFailed && !again:
		s.Phase = Failed
	case phase == ConditionBlocked && !again:
		s.Phase = Blocked
	}
	return s
}

// Silent marks a node as blocked because its agent has not reported on the settings of digest.
func Silent(s *Node, digest string) {
	s.Phase, s.Tried, s.Why = Blocked, digest, NoAgent
}
