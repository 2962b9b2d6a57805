package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"fettle.dev/fettle/internal/kuberelease"
)

// ReleasePlan is the effect of a pool's objects on one release's kubelets.
type ReleasePlan struct {
	// Kubernetes is the release; "" if the nodes' version is invalid.
	Kubernetes string   `json:"kubernetes,omitempty"`
	Nodes      []string `json:"nodes"`
	kuberelease.Verdict
	// Unjudged is why the effect is unknown, or "".
	Unjudged string `json:"unjudged,omitempty"`
}

// kubelet returns the node's kubelet release from its version. The cgroup version is known only if
// the kubelet runs although it would refuse version 1.
func (n *NodePreview) kubelet() kuberelease.Kubelet {
	k := kuberelease.KubeletOf(n.Status.NodeInfo.KubeletVersion)
	if n.Runs["failCgroupV1"] == true && kuberelease.Known().HasField("failCgroupV1", k.Release) {
		k.Cgroup = 2
	}
	return k
}

// judged returns the effect of fields on a kubelet. With an unknown cgroup version, refusals on
// version 1 are unknown.
func judged(f Fields, k kuberelease.Kubelet) kuberelease.Verdict {
	j := kuberelease.Judge(f, k)
	if k.Cgroup != 0 {
		return j
	}
	k.Cgroup = 1
	for _, found := range kuberelease.Judge(f, k).Refused {
		if !slices.Contains(j.Refused, found) {
			found.Why = "the kubelet does not start with it on cgroup v1; unknown which version the node has (see cgroup.version in fettle facts on the node)"
			j.Unknown = append(j.Unknown, found)
		}
	}
	return j
}

// byRelease judges the fields of a pool's objects for each node's release, including fields that
// fettle does not set.
func (p *PoolPlan) byRelease(c Cluster, pool PoolPreview, members map[string]Member) {
	selecting, _ := Selecting(c.Configs, pool.Labels)
	slices.SortFunc(selecting, func(a, b KubeletConfig) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	said := Fields{}
	for i := range selecting {
		if k, err := selecting[i].Config(); err == nil {
			for name, v := range k.Fields {
				said[name] = v
			}
		}
	}
	if len(said) == 0 {
		return
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if m, ok := members[n.Name]; !ok || !slices.Contains(m.Selected, pool.Name) {
			continue
		}
		r := n.judge(said)
		r.Nodes = nil
		if reflect.DeepEqual(r, ReleasePlan{Kubernetes: r.Kubernetes}) {
			continue
		}
		same := slices.IndexFunc(p.Releases, func(o ReleasePlan) bool {
			o.Nodes = nil
			return reflect.DeepEqual(o, r)
		})
		if same < 0 {
			same, p.Releases = len(p.Releases), append(p.Releases, r)
		}
		p.Releases[same].Nodes = append(p.Releases[same].Nodes, n.Name)
	}
	slices.SortStableFunc(p.Releases, func(a, b ReleasePlan) int { return cmp.Compare(a.Kubernetes, b.Kubernetes) })
}

// judge returns the effect of fields merged over the node's present ones.
func (n *NodePreview) judge(said Fields) ReleasePlan {
	k := n.kubelet()
	table := kuberelease.Known()
	version := n.Status.NodeInfo.KubeletVersion
	switch {
	case k.Release == 0:
		return ReleasePlan{Unjudged: fmt.Sprintf("unknown kubelet version %q", version)}
	case k.Release < table.Oldest:
		return ReleasePlan{Kubernetes: k.Release.String(), Unjudged: fmt.Sprintf("older than the releases that fettle knows, %s to %s", table.Oldest, table.Newest)}
	}
	r := ReleasePlan{Kubernetes: k.Release.String(), Verdict: judged(Merge(n.Runs, said), k)}
	has := judged(n.Runs, k)
	for _, both := range []struct {
		all *[]kuberelease.Finding
		has []kuberelease.Finding
	}{{&r.Refused, has.Refused}, {&r.Ignored, has.Ignored}, {&r.Changed, has.Changed}, {&r.Unknown, has.Unknown}} {
		if *both.all = slices.DeleteFunc(*both.all, func(f kuberelease.Finding) bool { return slices.Contains(both.has, f) }); len(*both.all) == 0 {
			*both.all = nil
		}
	}
	return r
}

// has returns the digest of the node's settings from fettle, or "".
func (n *NodePreview) has() string {
	if n.Kubelet != nil && n.Kubelet.Status.Phase != "" {
		return n.Kubelet.Status.Has
	}
	return n.Annotations[SettingsAnnotation]
}

// back returns the node's settings from fettle that are no longer requested, or only in part; their
// former values are in the node's own files. It returns nil if the last turn tried other settings
// than the node has.
func (n *NodePreview) back(want Want) []string {
	k := n.Kubelet
	if k == nil || k.Spec.KubeletConfig == nil || k.Status.Has == "" || k.Status.Has != k.Spec.Digest {
		return nil
	}
	had, err := Parse(k.Spec.KubeletConfig.Raw)
	if err != nil {
		return nil // written by another version's operator
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(had)) {
		if name != "apiVersion" && name != "kind" && !covers(want.Fields[name], had[name]) {
			out = append(out, name)
		}
	}
	return out
}

// covers reports whether over replaces under completely. Maps do not, because a map is merged.
func covers(over, under any) bool {
	if over == nil {
		return false
	}
	was, object := under.(map[string]any)
	now, merged := over.(map[string]any)
	if !object || !merged {
		return true
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			return false
		}
	}
	return true
}

// state returns the node in the form that Decide takes.
func (n *NodePreview) state(pool PoolPreview, want Want) Node {
	s := SeenNode(&n.Node, n.Kubelet, want.Digest, pool.Retry)
	s.Has = n.has()
	return s
}
