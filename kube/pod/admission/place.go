package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Place holds the properties of a Node object, other than its room, that exclude pods.
type Place struct {
	Labels map[string]string
	Taints []core.Taint
	// Cordoned is spec.unschedulable, which only the scheduler respects.
	Cordoned bool
	// Ports are the host ports of the node's pods that have not ended.
	Ports []HostPort
	// StrictGroups is status.features.supplementalGroupsPolicy; nil if unknown.
	StrictGroups *bool
	// Features is status.declaredFeatures; empty if unknown.
	Features []string
}

// HostPort is a port of the node that only one pod can use.
type HostPort struct {
	Address  string // 0.0.0.0 means every address
	Protocol core.Protocol
	Port     int32
}

// Placement holds the fields of a pod's specification that decide on which nodes it may run.
type Placement struct {
	// Node is spec.nodeName; if it is set, no scheduler decides.
	Node string
	// OS is spec.os.name.
	OS          core.OSName
	Selector    map[string]string
	Affinity    *core.NodeSelector // required during scheduling
	Tolerations []core.Toleration
	Ports       []HostPort
	// StrictGroups reports whether spec.securityContext.supplementalGroupsPolicy is Strict.
	StrictGroups bool
}

// Reasons of checks other than resources. Source: k8s.io/kubernetes v1.34.4,
// pkg/kubelet/lifecycle/predicate.go and pkg/scheduler/framework/plugins/names.
const (
	ReasonOS       = "PodOSNotSupported"
	ReasonGroups   = "SupplementalGroupsPolicyNotSupported"
	ReasonAffinity = "NodeAffinity"
	ReasonName     = "NodeName"
	ReasonPorts    = "NodePorts"
	ReasonTaint    = "TaintToleration"
)

// obstacle is why a pod may not run on a node: the kubelet's reason, the scheduler's message, and
// the mismatch.
type obstacle struct{ kubelet, scheduler, message string }

// selected reports whether the node's labels and name satisfy the pod's requirements.
func (p *Placement) selected(n *Node, l *Place) bool {
	pod := &core.Pod{Spec: core.PodSpec{NodeSelector: p.Selector}}
	if p.Affinity != nil {
		pod.Spec.Affinity = &core.Affinity{NodeAffinity: &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: p.Affinity}}
	}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&core.Node{ObjectMeta: meta.ObjectMeta{Name: n.Name, Labels: l.Labels}})
	return ok && err == nil
}

// obstacles returns the reasons that exclude the pod from the node, in the order of the kubelet's
// checks after the check of resources. The kubelet checks only NoExecute taints, the scheduler also
// NoSchedule.
func (p *Placement) obstacles(n *Node, l *Place, effects ...core.TaintEffect) []obstacle {
	var all []obstacle
	if l != nil && !p.selected(n, l) {
		all = append(all, obstacle{ReasonAffinity, "node(s) didn't match Pod's node affinity/selector", "the node does not match the pod's " + p.wants(l)})
	}
	if p.Node != "" && n.Name != "" && p.Node != n.Name {
		all = append(all, obstacle{ReasonName, "node(s) didn't match the requested node name", fmt.Sprintf("spec.nodeName is %s; this node is %s", p.Node, n.Name)})
	}
	if l == nil {
		return all
	}
	for _, port := range p.Ports {
		if i := slices.IndexFunc(l.Ports, port.conflicts); i >= 0 {
			all = append(all, obstacle{ReasonPorts, "node(s) didn't have free ports for the requested pod ports", fmt.Sprintf("host port %d/%s is in use by another pod", port.Port, port.Protocol)})
			break
		}
	}
	if i := slices.IndexFunc(l.Taints, func(t core.Taint) bool { return slices.Contains(effects, t.Effect) && !p.tolerates(t) }); i >= 0 {
		t := l.Taints[i]
		all = append(all, obstacle{ReasonTaint, "node(s) had untolerated taint(s)", fmt.Sprintf("the pod does not tolerate the node's taint %s", t.ToString())})
	}
	return all
}

// wants describes the pod's requirement and the node's value.
func (p *Placement) wants(l *Place) string {
	var words []string
	has := func(key string) string {
		if value, ok := l.Labels[key]; ok {
			return fmt.Sprintf("the node has %s=%s", key, value)
		}
		return "the node has no label " + key
	}
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		if value, ok := l.Labels[key]; !ok || value != p.Selector[key] {
			words = append(words, fmt.Sprintf("nodeSelector %s=%s (%s)", key, p.Selector[key], has(key)))
		}
	}
	if p.Affinity != nil && len(words) == 0 {
		var terms []string
		for _, t := range p.Affinity.NodeSelectorTerms {
			var parts []string
			for _, e := range t.MatchExpressions {
				parts = append(parts, fmt.Sprintf("%s %s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ","), has(e.Key)))
			}
			for _, e := range t.MatchFields {
				parts = append(parts, fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
			}
			terms = append(terms, strings.Join(parts, " and "))
		}
		words = append(words, "required node affinity: "+strings.Join(terms, "; or "))
	}
	return strings.Join(words, "; ")
}

// cordon is the taint that a pod must tolerate on a cordoned node.
var cordon = core.Taint{Key: core.TaintNodeUnschedulable, Effect: core.TaintEffectNoSchedule}

// tolerates reports whether the pod tolerates a taint. Operators that compare numbers (Lt, Gt) need
// the feature gate TaintTolerationComparisonOperators, which is off by default.
func (p *Placement) tolerates(t core.Taint) bool {
	return slices.ContainsFunc(p.Tolerations, func(l core.Toleration) bool {
		switch {
		case l.Effect != "" && l.Effect != t.Effect, l.Key != "" && l.Key != t.Key:
			return false
		case l.Operator == core.TolerationOpExists:
			return true
		}
		return (l.Operator == "" || l.Operator == core.TolerationOpEqual) && l.Value == t.Value
	})
}

// conflicts reports whether two host ports cannot be used on one node.
func (h HostPort) conflicts(other HostPort) bool {
	const all = "0.0.0.0"
	return h.Port == other.Port && h.Protocol == other.Protocol && (h.Address == other.Address || h.Address == all || other.Address == all)
}

// foreignOS returns the kubelet's refusal of a pod for another operating system, or nil. The
// kubelet checks this before resources.
func (p *Placement) foreignOS() *refusal {
	if p.OS == "" || p.OS == core.Linux {
		return nil
	}
	return &refusal{ReasonOS, fmt.Sprintf("spec.os.name is %s, and the node is %s", p.OS, core.Linux)}
}

// asksStrictGroups reports whether the kubelet checks that the node supports
// supplementalGroupsPolicy.
func (in *Input) asksStrictGroups() bool {
	return in.Pod.Placement.StrictGroups && in.Pod.Release.orNewest() >= groupsPolicy
}

// strictGroups returns the kubelet's refusal of a pod whose supplementalGroupsPolicy the node does
// not support, or nil. The kubelet checks this before resources.
func (in *Input) strictGroups() *refusal {
	if !in.asksStrictGroups() || in.Place == nil || in.Place.StrictGroups == nil || *in.Place.StrictGroups {
		return nil
	}
	return &refusal{ReasonGroups, "supplementalGroupsPolicy is Strict, and the node does not report that its container runtime supports it (status.features)"}
}

// misplaced returns the kubelet's refusal of a pod that does not match the node, or nil.
func (in *Input) misplaced() *refusal {
	all := in.Pod.Placement.obstacles(&in.Node, in.Place, core.TaintEffectNoExecute)
	if len(all) == 0 {
		return nil
	}
	return &refusal{all[0].kubelet, all[0].message}
}

// unplaced returns why the scheduler does not choose the node, other than for lack of room, or nil.
// Source: k8s.io/kubernetes v1.34.4, pkg/scheduler/apis/config/v1/default_plugins.go (the order)
// and the plug-ins' own reasons.
func (in *Input) unplaced() *Verdict {
	p := &in.Pod.Placement
	var all []obstacle
	if l := in.Place; l != nil && l.Cordoned {
		if !p.tolerates(cordon) {
			all = append(all, obstacle{"", "node(s) were unschedulable", "the node is cordoned (spec.unschedulable)"})
		}
	}
	found := p.obstacles(&in.Node, in.Place, core.TaintEffectNoSchedule, core.TaintEffectNoExecute)
	for _, reason := range []string{ReasonTaint, ReasonAffinity, ReasonPorts} {
		for _, o := range found {
			if o.kubelet == reason {
				all = append(all, o)
			}
		}
	}
	if missing, ok := in.undeclared(); ok && missing != nil && in.Place != nil {
		all = append(all, obstacle{"", "node(s) didn't match Pod's required features", "the node does not declare " + strings.Join(missing, ", ") + " (status.declaredFeatures)"})
	}
	if len(all) == 0 {
		return nil
	}
	var words []string
	for _, o := range all {
		words = append(words, o.message)
	}
	text := ""
	if in.Pod.Kind == "DaemonSet" {
		text = "the DaemonSet makes no pod for this node: "
	}
	return &Verdict{Outcome: Pending, Reason: all[0].scheduler, Message: text + strings.Join(words, "; ")}
}

// unlooked describes the checks that are skipped because the Node object is unknown; "" if it is
// known.
func (in *Input) unlooked() string {
	if in.Place != nil {
		return ""
	}
	p := &in.Pod.Placement
	var of []string
	for _, x := range []struct {
		is   bool
		word string
	}{{len(p.Selector) > 0, "nodeSelector"}, {p.Affinity != nil, "node affinity"}, {len(p.Ports) > 0, "host ports"}} {
		if x.is {
			of = append(of, x.word)
		}
	}
	text := "not considered, because not recorded: labels, taints and host ports of the node"
	if len(of) > 0 {
		text += "; the pod has " + strings.Join(of, ", ")
	}
	return text + ": kubectl fettle pod record DIR on the node records them"
}

// Features of a node that pods can need, as the node declares them.
const (
	FeatureRestartAll       = "RestartAllContainersOnContainerExits"
	FeatureHostNetworkUsers = "UserNamespacesHostNetworkSupport"
	FeatureBindMountOptions = "VolumeBindMountOptions"
)

// podFeatures maps features to the first release whose kubelets require them, and to whether the
// container runtime decides too. The feature gate of the same name must be on. Source:
// k8s.io/component-helpers v0.35.4, v0.36.3 and v0.37.2, nodedeclaredfeatures, and
// k8s.io/kubernetes v1.37.2, pkg/kubelet/lifecycle/handlers.go, declaredFeaturesAdmitHandler.
var podFeatures = map[string]struct {
	since   Release
	runtime bool
}{FeatureRestartAll: {declaredFeatures, false}, FeatureHostNetworkUsers: {36, true}, FeatureBindMountOptions: {37, true}}

// ReasonFeature is the kubelet's reason for refusing a pod that needs an undeclared feature.
const ReasonFeature = "PodFeatureUnsupported"

// declares reports whether the node has a feature, from its status.declaredFeatures, or from the
// feature gates by which the kubelet makes that list. known is false if the container runtime
// decides. Servers that drop the field leave the list empty.
func (in *Input) declares(feature string) (yes, known bool) {
	if in.Place != nil && len(in.Place.Features) > 0 {
		return slices.Contains(in.Place.Features, feature), true
	}
	on := in.Settings.gateOn(feature)
	return on, !on || !podFeatures[feature].runtime
}

// undeclared returns the features that the pod needs but the node does not declare; ok is false if
// unknown.
func (in *Input) undeclared() (missing []string, ok bool) {
	if !in.Settings.gateOn("NodeDeclaredFeatures") {
		return nil, true
	}
	var open []string
	for _, f := range in.Pod.Features {
		if in.Settings.Release.orNewest() < podFeatures[f].since {
			continue
		}
		switch yes, known := in.declares(f); {
		case !known:
			open = append(open, f)
		case !yes:
			missing = append(missing, f)
		}
	}
	if missing != nil {
		return missing, true
	}
	return open, open == nil
}

// unsupported returns the kubelet's refusal of a pod that needs undeclared features, or nil.
func (in *Input) unsupported() *refusal {
	missing, ok := in.undeclared()
	if !ok || missing == nil {
		return nil
	}
	return &refusal{ReasonFeature, "the pod needs features that the node does not declare (status.declaredFeatures): " + strings.Join(missing, ", ")}
}

// doubtful returns the verdict for a pod whose start depends on unknown features of the node, or
// nil.
func (in *Input) doubtful() *Verdict {
	missing, ok := in.undeclared()
	if ok {
		return nil
	}
	node := in.Node.Name
	if node == "" {
		node = "NODE"
	}
	return &Verdict{Outcome: Unknown, Message: fmt.Sprintf("the pod needs %s; unknown whether the node declares it (%s otherwise): kubectl get node %s -o jsonpath='{.status.declaredFeatures}'", strings.Join(missing, " and "), ReasonFeature, node)}
}

// byClaim reports whether a claim gives a container a resource, so that the device manager gives
// none.
func (in *Input) byClaim(c *Container, name string) bool {
	return slices.Contains(c.Claimed, name) && in.Settings.Release.orNewest() >= claimsGive && in.Settings.gateOn("DRAExtendedResource")
}

// withoutClaimed returns the pod without resources from claims, as counted by the kubelet's last
// check.
func (in *Input) withoutClaimed() *Pod {
	p := in.Pod
	strip := func(list []Container) []Container {
		list = slices.Clone(list)
		for i := range list {
			c := &list[i]
			requests := Resources{}
			for name, q := range c.Requests {
				if !in.byClaim(c, name) || in.Settings.Release.orNewest() < claimsFit {
					requests[name] = q
				}
			}
			c.Requests = requests
		}
		return list
	}
	p.Init, p.Containers = strip(p.Init), strip(p.Containers)
	return &p
}
