package kubelet

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func node(name, runs string, pods ...core.Pod) NodePreview {
	n := NodePreview{Pods: pods}
	n.Name, n.Labels = name, map[string]string{"worker": ""}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	n.Status.Capacity = core.ResourceList{core.ResourceCPU: resource.MustParse("4")}
	if runs == "" {
		n.Unread = "no answer"
		return n
	}
	f, err := Parse([]byte(runs))
	if err != nil {
		panic(err)
	}
	n.Runs = f
	return n
}

func pod(name, controller string) core.Pod {
	yes := true
	p := core.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}}
	if controller != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: controller, Controller: &yes}}
	}
	return p
}

func previewCluster(t *testing.T, settings string, nodes ...NodePreview) Cluster {
	t.Helper()
	o, err := Read("f", []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: k}\nspec: {machineConfigPoolSelector: {matchLabels: {pool: w}}, kubeletConfig: "+settings+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	two := intstr.FromInt32(2)
	return Cluster{Configs: o.Configs, Nodes: nodes, Pools: []PoolPreview{{
		Name: "w", Labels: map[string]string{"pool": "w"}, MaxUnavailable: &two,
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}},
	}}}
}

// lines returns the nodes of the only pool, one line each.
func lines(t *testing.T, p Plan) string {
	t.Helper()
	if len(p.Pools) != 1 {
		t.Fatalf("%+v", p)
	}
	var b strings.Builder
	for _, n := range p.Pools[0].Nodes {
		fmt.Fprintf(&b, "%d %v %s %s moves %d", n.Order, n.Now, n.Name, n.Class, n.Moves)
		for _, why := range []string{n.Problem, n.Held} {
			if why != "" {
				b.WriteString(": " + why)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestOf(t *testing.T) {
	cordoned := node("n4", "{maxPods: 110}")
	cordoned.Spec.Unschedulable = true
	crowd := make([]core.Pod, 0, 21)
	for i := range 21 {
		crowd = append(crowd, pod(fmt.Sprint("p", i), "ReplicaSet"))
	}
	for _, c := range []struct {
		name string
		in   Cluster
		want string
	}{
		{"restart", previewCluster(t, "{maxPods: 20}", node("n10", "{maxPods: 110}"), node("n2", "{maxPods: 110}"), node("n1", "{maxPods: 20}"), cordoned, node("n5", ""), node("n6", "{}", crowd...)), `1 true n1 restart moves 0
2 false n2 restart moves 0
3 false n10 restart moves 0
0 false n4 restart moves 0: it was cordoned by another user
0 false n5 unknown moves 0: cannot read its kubelet's configuration: no answer
0 false n6 restart moves 0: 21 pods run on the node, but the new limit is 20 (maxPods 20, podsPerCore unset); move pods away first, or raise the limit
`},
		{"drain", previewCluster(t, "{cpuManagerPolicy: static}", node("n1", "{kubeReserved: {cpu: 500m}}", pod("a", "ReplicaSet"), pod("b", "DaemonSet")), node("n2", "{kubeReserved: {cpu: 500m}}", pod("bare", "")), node("n3", "{}")), `1 true n1 drain and restart moves 1
0 false n2 drain and restart moves 0: pods without a controller block a drain: a/bare
0 false n3 drain and restart moves 0: the kubelet would not start: the static CPU manager needs reserved CPUs; set reservedSystemCPUs, or cpu in kubeReserved or systemReserved
`},
	} {
		if got := lines(t, Of(c.in)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestPreviewRefused(t *testing.T) {
	in := previewCluster(t, "{cgroupDriver: systemd}", node("n1", "{}"))
	p := Of(in)
	if r := p.Pools[0]; !strings.Contains(r.Refused, "cgroupDriver: cannot be set in a KubeletConfig") || len(r.Nodes) > 0 {
		t.Errorf("%+v", r)
	}
	in = previewCluster(t, "{maxPods: 20}", node("n1", "{}"))
	in.Pools[0].Labels = nil
	if p := Of(in); len(p.Unselected) != 1 || p.Unselected[0] != "k" || len(p.Pools[0].Settings) > 0 {
		t.Errorf("%+v", p)
	}
	in = previewCluster(t, "{maxPods: 20}", node("n1", "{}"))
	in.Pools = append(in.Pools, PoolPreview{Name: "x", NodeSelector: in.Pools[0].NodeSelector})
	if p := Of(in); p.Pools[0].Nodes[0].Order != 0 || p.Pools[0].Nodes[0].Held != "in several pools: w and x; only one may select it" {
		t.Errorf("%+v", p)
	}
}

// told is a node that has received settings from fettle, and whose agent has reported the result.
func told(t *testing.T, name, runs, settings string, phase NodePhase) NodePreview {
	t.Helper()
	n := node(name, runs)
	f, err := Parse([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	w, err := WantOf([]Config{{Name: "k", Fields: f}})
	if err != nil {
		t.Fatal(err)
	}
	n.Kubelet = &NodeKubelet{
		Spec:   NodeKubeletSpec{Pool: "w", Turn: 1, Digest: w.Digest, KubeletConfig: &runtime.RawExtension{Raw: []byte(settings)}},
		Status: NodeKubeletStatus{Turn: 1, Phase: phase, Tried: w.Digest},
	}
	if phase == Settled {
		n.Kubelet.Status.Has = w.Digest
	} else {
		n.Kubelet.Status.Message = "the kubelet has ended"
	}
	return n
}

// TestTakenOut tests that a setting that was removed from an object is a change, even if the
// kubelet runs with all requested settings.
func TestTakenOut(t *testing.T) {
	const runs = "{maxPods: 20, podsPerCore: 5, kubeReserved: {cpu: 500m, memory: 1Gi}}"
	same := told(t, "n2", runs, `{"maxPods": 20, "kubeReserved": {"cpu": "500m"}}`, Settled)
	p := Of(previewCluster(t, "{maxPods: 20, kubeReserved: {cpu: 500m}}", same,
		told(t, "n1", runs, `{"maxPods": 20, "podsPerCore": 5, "kubeReserved": {"cpu": "500m", "memory": "1Gi"}}`, Settled),
		node("n3", runs)))
	byName := map[string]NodePlan{}
	for _, n := range p.Pools[0].Nodes {
		byName[n.Name] = n
	}
	if n := byName["n1"]; !n.Now || n.Class != "drain and restart" || strings.Join(n.Settings, " ") != "kubeReserved podsPerCore" {
		t.Errorf("taken out: %+v", n)
	}
	if n := byName["n2"]; n.Order != 0 || n.Class != "nothing" || n.Held != "" {
		t.Errorf("as wanted: %+v", n)
	}
	if n := byName["n3"]; n.Order == 0 || n.Class != "restart" || len(n.Settings) != 0 {
		t.Errorf("the same values, and not from fettle: %+v", n)
	}
	if notes := strings.Join(p.Pools[0].Notes, "\n"); !strings.Contains(notes, "podsPerCore is removed from the nodes") || strings.Contains(notes, "maxPods is") {
		t.Errorf("notes: %s", notes)
	}
}

// TestStopped tests that a pool with a failed node starts no node until the settings or the pool's
// annotation change.
func TestStopped(t *testing.T) {
	in := previewCluster(t, "{maxPods: 20}", told(t, "n1", "{maxPods: 110}", `{"maxPods": 20}`, ConditionFailed), node("n2", "{maxPods: 110}"))
	p := Of(in)
	if got, want := lines(t, p), "1 false n2 restart moves 0\n0 false n1 restart moves 0: the settings failed on it: the kubelet has ended\n"; got != want || !strings.HasPrefix(p.Pools[0].Stopped, "failed on n1") {
		t.Errorf("%s\nwant\n%s%s", got, want, p.Pools[0].Stopped)
	}
	in.Pools[0].Retry = "1"
	if got, want := lines(t, Of(in)), "1 true n1 restart moves 0\n2 true n2 restart moves 0\n"; got != want {
		t.Errorf("again: %s", got)
	}
	other := previewCluster(t, "{maxPods: 30}", in.Nodes...)
	if got, want := lines(t, Of(other)), "1 true n1 restart moves 0\n2 true n2 restart moves 0\n"; got != want {
		t.Errorf("other settings: %s", got)
	}
	in = previewCluster(t, "{maxPods: 20}", in.Nodes...)
	in.Nodes[0].Kubelet.Status.Turn = 0
	two := Of(in)
	if got, want := lines(t, two), "1 true n2 restart moves 0\n0 false n1 restart moves 0: it is changing\n"; got != want {
		t.Errorf("one changes: %s", got)
	}
}

// TestTriedOthers tests that an obstacle for these settings also applies to a node that has tried
// others, or was asked to try again.
func TestTriedOthers(t *testing.T) {
	const why = "the kubelet would not start: the static CPU manager needs reserved CPUs"
	for _, phase := range []NodePhase{ConditionFailed, ConditionBlocked, Settled} {
		in := previewCluster(t, "{cpuManagerPolicy: static}", told(t, "n1", "{}", `{"maxPods": 20}`, phase))
		if got := lines(t, Of(in)); !strings.HasPrefix(got, "0 false n1 drain and restart moves 0: "+why) {
			t.Errorf("%s: %s", phase, got)
		}
		in = previewCluster(t, "{cpuManagerPolicy: static}", told(t, "n1", "{}", `{"cpuManagerPolicy": "static"}`, phase))
		in.Nodes[0].Kubelet.Status.Has, in.Pools[0].Retry = "", "2"
		if got := lines(t, Of(in)); !strings.HasPrefix(got, "0 false n1 drain and restart moves 0: "+why) {
			t.Errorf("%s, again: %s", phase, got)
		}
	}
}

// TestUnread tests that a node that already has the settings is not queried, and that a node in the
// middle of a change is unknown: its silent kubelet is not a refusal.
func TestUnread(t *testing.T) {
	changing, broken := told(t, "n2", "", `{"maxPods": 10}`, Settled), told(t, "n3", "", `{"maxPods": 20}`, ConditionBroken)
	changing.Kubelet.Spec.Turn = 2
	in := previewCluster(t, "{maxPods: 20}", told(t, "n1", "", `{"maxPods": 20}`, Settled), changing, broken)
	const want = `0 false n1 nothing moves 0
0 false n2 unknown moves 0: it is changing
0 false n3 unknown moves 0: cannot read its kubelet's configuration: no answer
`
	if got := lines(t, Of(in)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	in = previewCluster(t, "{maxPods: 20}", node("n1", ""))
	in.Pools[0].Labels = nil // nothing is wanted of it
	if got := lines(t, Of(in)); got != "0 false n1 nothing moves 0\n" {
		t.Errorf("%s", got)
	}
}

// TestTheirs tests that the Machine Config Operator leaves a node that runs with the settings
// unchanged.
func TestTheirs(t *testing.T) {
	in := previewCluster(t, "{maxPods: 20}", node("n1", "{maxPods: 20}"), node("n2", "{maxPods: 110}"))
	in.Pools[0].Theirs = true
	if got, want := lines(t, Of(in)), "1 true n2 restart moves 0\n0 false n1 nothing moves 0\n"; got != want {
		t.Errorf("%s", got)
	}
}
