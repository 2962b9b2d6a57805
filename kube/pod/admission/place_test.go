package admission

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// TestPlace tests whether a pod may run on a node, according to its kubelet and the scheduler, and
// the message for unknown labels of the node.
func TestPlace(t *testing.T) {
	ssd := &Place{Labels: map[string]string{"kubernetes.io/hostname": "n1", "disktype": "ssd", "cores": "16"}}
	with := func(change func(*Place)) *Place { p := *ssd; change(&p); return &p }
	affinity := func(key string, op core.NodeSelectorOperator, values ...string) *core.NodeSelector {
		return &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{
			{MatchExpressions: []core.NodeSelectorRequirement{{Key: "absent", Operator: core.NodeSelectorOpExists}}},
			{MatchExpressions: []core.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}},
		}}
	}
	named := func(values ...string) *core.NodeSelector {
		return &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{MatchFields: []core.NodeSelectorRequirement{{Key: "metadata.name", Operator: core.NodeSelectorOpIn, Values: values}}}}}
	}
	taint := func(effect core.TaintEffect) *Place {
		return with(func(p *Place) { p.Taints = []core.Taint{{Key: "dedicated", Value: "db", Effect: effect}} })
	}
	port := []HostPort{{"0.0.0.0", core.ProtocolTCP, 8080}}
	for name, c := range map[string]struct {
		place *Place
		of    Placement
		// scheduler is the reason for Pending, kubelet the reason for the refusal; "" for none.
		scheduler, kubelet string
	}{
		"no conditions":                   {ssd, Placement{}, "", ""},
		"the label":                       {ssd, Placement{Selector: map[string]string{"disktype": "ssd"}}, "", ""},
		"another value":                   {ssd, Placement{Selector: map[string]string{"disktype": "hdd"}}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"no such label":                   {ssd, Placement{Selector: map[string]string{"gpu": ""}}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"labels not known":                {nil, Placement{Selector: map[string]string{"disktype": "hdd"}}, "", ""},
		"In":                              {ssd, Placement{Affinity: affinity("disktype", core.NodeSelectorOpIn, "nvme", "ssd")}, "", ""},
		"NotIn":                           {ssd, Placement{Affinity: affinity("disktype", core.NodeSelectorOpNotIn, "nvme", "ssd")}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"NotIn of a label that is absent": {ssd, Placement{Affinity: affinity("zone", core.NodeSelectorOpNotIn, "a")}, "", ""},
		"Gt":                              {ssd, Placement{Affinity: affinity("cores", core.NodeSelectorOpGt, "8")}, "", ""},
		"Gt of an equal number":           {ssd, Placement{Affinity: affinity("cores", core.NodeSelectorOpGt, "16")}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"no terms":                        {ssd, Placement{Affinity: &core.NodeSelector{}}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"an empty term":                   {ssd, Placement{Affinity: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{}}}}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"by name":                         {ssd, Placement{Affinity: named("n1")}, "", ""},
		"by another name":                 {ssd, Placement{Affinity: named("n2")}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"selector and affinity":           {ssd, Placement{Selector: map[string]string{"disktype": "ssd"}, Affinity: named("n2")}, "node(s) didn't match Pod's node affinity/selector", ReasonAffinity},
		"bound, and another label":        {ssd, Placement{Node: "n1", Selector: map[string]string{"disktype": "hdd"}}, "", ReasonAffinity},
		"bound":                           {ssd, Placement{Node: "n1"}, "", ""},
		"bound to another node":           {ssd, Placement{Node: "n2"}, "", ReasonName},
		"bound elsewhere, labels unknown": {nil, Placement{Node: "n2"}, "", ReasonName},
		"NoSchedule":                      {taint(core.TaintEffectNoSchedule), Placement{}, "node(s) had untolerated taint(s)", ""},
		"NoSchedule, bound":               {taint(core.TaintEffectNoSchedule), Placement{Node: "n1"}, "", ""},
		"PreferNoSchedule":                {taint(core.TaintEffectPreferNoSchedule), Placement{}, "", ""},
		"NoExecute":                       {taint(core.TaintEffectNoExecute), Placement{}, "node(s) had untolerated taint(s)", ReasonTaint},
		"NoExecute, bound":                {taint(core.TaintEffectNoExecute), Placement{Node: "n1"}, "", ReasonTaint},
		"tolerated":                       {taint(core.TaintEffectNoExecute), Placement{Tolerations: []core.Toleration{{Key: "dedicated", Operator: core.TolerationOpEqual, Value: "db"}}}, "", ""},
		"cordoned":                        {with(func(p *Place) { p.Cordoned = true }), Placement{}, "node(s) were unschedulable", ""},
		"cordoned, tolerated":             {with(func(p *Place) { p.Cordoned = true }), Placement{Tolerations: []core.Toleration{{Operator: core.TolerationOpExists}}}, "", ""},
		"a port in use":                   {with(func(p *Place) { p.Ports = port }), Placement{Ports: []HostPort{{"10.0.0.1", core.ProtocolTCP, 8080}}}, "node(s) didn't have free ports for the requested pod ports", ReasonPorts},
		"ports of other protocols":        {with(func(p *Place) { p.Ports = port }), Placement{Ports: []HostPort{{"0.0.0.0", core.ProtocolUDP, 8080}}}, "", ""},
		"Linux":                           {nil, Placement{OS: core.Linux}, "", ""},
		"Windows":                         {nil, Placement{OS: core.Windows}, "", ReasonOS},
	} {
		in := Input{Node: machine(1, 1, 2, 1), Place: c.place, Pod: pod(Container{Name: "c"})}
		in.Node.Name, in.Pod.Placement = "n1", c.of
		p := mustPredict(t, in)
		scheduler, kubelet := "", p.Verdict.Reason
		if p.Scheduler != nil {
			scheduler = p.Scheduler.Reason
		}
		if scheduler != c.scheduler || kubelet != c.kubelet || (p.Verdict.Outcome == Refused) != (kubelet != "") || p.Scheduler != nil && p.Answer().Outcome != Pending {
			t.Errorf("%s: scheduler %q, kubelet %q; want %q, %q (%+v)", name, scheduler, kubelet, c.scheduler, c.kubelet, p.Answer())
		}
		if assumed := strings.Join(p.Document().Assumed, "\n"); strings.Contains(assumed, "not considered, because not recorded: labels, taints and host ports of the node") != (c.place == nil) {
			t.Errorf("%s: assumed %q", name, assumed)
		}
	}
	// The advice lists all necessary changes together.
	for want, c := range map[string]Input{
		"node: kubectl label node n1 --overwrite disktype=hdd gpu=":                        {Place: ssd, Pod: Pod{Placement: Placement{Selector: map[string]string{"disktype": "hdd", "gpu": "", "cores": "16"}}}},
		"pod: change the required node affinity so that it matches the node, or remove it": {Place: ssd, Pod: Pod{Placement: Placement{Affinity: named("n2")}}},
		"pod: spec.nodeName: n1":                       {Pod: Pod{Placement: Placement{Node: "n2"}}},
		"pod: a toleration of dedicated=db:NoSchedule": {Place: taint(core.TaintEffectNoSchedule)},
		"node and pod: kubectl uncordon n1; and a toleration of a:NoExecute": {Place: with(func(p *Place) {
			p.Cordoned, p.Taints = true, []core.Taint{cordon, {Key: "a", Effect: core.TaintEffectNoExecute}}
		})},
	} {
		placement := c.Pod.Placement
		c.Node, c.Pod = machine(1, 1, 2, 1), pod(Container{Name: "c"})
		c.Node.Name, c.Pod.Placement = "n1", placement
		if a := mustPredict(t, c).Advice; len(a) != 1 || a[0].Where+": "+a[0].Change != want || !strings.HasPrefix(a[0].Then, "admitted") {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	// Resources in short supply come first (AdmissionCheck of kube-scheduler 1.34.4).
	in := Input{Node: machine(1, 1, 2, 1), Place: ssd, Capacity: &Capacity{Allocatable: Resources{}}, Pod: pod(guaranteed("c", "cpu=1 memory=1G"))}
	in.Node.Name, in.Pod.Placement = "n1", Placement{Node: "n1", Selector: map[string]string{"a": "b"}}
	if v := mustPredict(t, in).Verdict; v.Reason != "OutOfcpu" {
		t.Errorf("%+v", v)
	}
}
