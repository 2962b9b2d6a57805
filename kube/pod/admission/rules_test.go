package admission

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRefusedByAPI tests the API server's errors about resources.
func TestRefusedByAPI(t *testing.T) {
	both := func(requests, limits string) Pod {
		return pod(Container{Name: "c", Requests: with(requests), Limits: with(limits)})
	}
	for name, c := range map[string]struct {
		pod  Pod
		want string
	}{
		"good":                   {both("cpu=1 memory=1Gi hugepages-2Mi=4Mi", "cpu=2 memory=1Gi hugepages-2Mi=4Mi"), ""},
		"pages, request below":   {both("cpu=1 hugepages-2Mi=2Mi", "hugepages-2Mi=4Mi"), "must equal the limit"},
		"pages without limit":    {both("cpu=1 hugepages-2Mi=2Mi", ""), "needs a limit as well"},
		"no multiple of a page":  {both("cpu=1 hugepages-2Mi=3Mi", "hugepages-2Mi=3Mi"), "not a multiple"},
		"pages and nothing else": {both("hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi"), "together with cpu or memory"},
		"above the limit":        {both("cpu=2", "cpu=1"), "is above the limit"},
		"device, request below":  {both("example.com/nic=1", "example.com/nic=2"), "must equal the limit"},
		"a part of a device":     {both("example.com/nic=500m", "example.com/nic=500m"), "not a whole number"},
		"unknown":                {both("cpus=1", "cpus=1"), `unknown resource "cpus"`},
		"below zero":             {both("cpu=-1", ""), "below zero"},
		"two of a name":          {pod(Container{Name: "c"}, Container{Name: "c"}), "two containers"},
		"no containers":          {Pod{}, "no containers"},
		"pod: less than its containers": {Pod{Containers: []Container{{Name: "c", Requests: with("cpu=2")}}, Requests: with("cpu=1")},
			"the pod as a whole requests only 1"},
		"pod: a device": {Pod{Containers: []Container{{Name: "c"}}, Requests: with("example.com/nic=1"), Limits: with("example.com/nic=1")}, "unknown resource"},
	} {
		got := strings.Join(c.pod.refusedByAPI(), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	p := mustPredict(t, Input{Node: machine(1, 1, 4, 1), Pod: both("cpu=1 memory=1Gi hugepages-2Mi=2Mi", "cpu=1 memory=1Gi hugepages-2Mi=4Mi")})
	if p.Verdict.Outcome != Invalid || len(p.Advice) != 1 || !strings.Contains(p.Advice[0].Change, "set the request of hugepages-2Mi to 4Mi") {
		t.Errorf("%+v, %+v", p.Verdict, p.Advice)
	}
}

// TestHugePageRules tests the rules of huge pages (chapter 13): the request equals the limit, the
// node has the size, and volumes stay within the request.
func TestHugePageRules(t *testing.T) {
	n := machine(2, 1, 2, 1)
	n.NUMA[0].HugePages[0].Pages, n.NUMA[1].HugePages[0].Pages = 10, 10
	limit := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	for name, c := range map[string]struct {
		words   string
		volumes []HugePageVolume
		fails   []string
	}{
		"good":                {"cpu=1 memory=1Gi hugepages-2Mi=20Mi", []HugePageVolume{{"v", "HugePages", nil}, {"w", "HugePages-2Mi", limit("20Mi")}}, nil},
		"none used":           {"cpu=1 memory=1Gi", nil, nil},
		"no such size":        {"cpu=1 memory=1Gi hugepages-1Gi=1Gi", nil, []string{"the node has pages of this size"}},
		"more than there are": {"cpu=1 memory=1Gi hugepages-2Mi=42Mi", nil, []string{"the node has pages of this size"}},
		"volume, no pages": {"cpu=1 memory=1Gi", []HugePageVolume{{"v", "HugePages", nil}},
			[]string{"the medium of an emptyDir is a size that the pod requests"}},
		"volume of another size": {"cpu=1 memory=1Gi hugepages-2Mi=2Mi", []HugePageVolume{{"v", "HugePages-1Gi", nil}},
			[]string{"the medium of an emptyDir is a size that the pod requests"}},
		"medium of two sizes": {"cpu=1 memory=1Gi hugepages-2Mi=2Mi hugepages-1Gi=1Gi", []HugePageVolume{{"v", "HugePages", nil}},
			[]string{"the node has pages of this size", "the medium of an emptyDir is a size that the pod requests"}},
		"volume too large": {"cpu=1 memory=1Gi hugepages-2Mi=2Mi", []HugePageVolume{{"v", "HugePages", limit("4Mi")}},
			[]string{"an emptyDir is within the pod's request"}},
	} {
		p := pod(guaranteed("c", c.words))
		p.Volumes = c.volumes
		var fails []string
		for _, r := range p.hugePageRules(&n) {
			if r.Result == "fail" {
				fails = append(fails, r.Rule)
			}
		}
		if !slices.Equal(fails, c.fails) {
			t.Errorf("%s: %v, want %v", name, fails, c.fails)
		}
	}
}

// TestDefault tests the API server's defaults.
func TestDefault(t *testing.T) {
	p := pod(Container{Name: "c", Limits: with("cpu=2 memory=1Gi hugepages-2Mi=2Mi"), Requests: with("memory=512Mi")})
	done := p.Default()
	if got := p.Containers[0].Requests; len(done) != 2 || got[CPU] != p.Containers[0].Limits[CPU] || quantityOr(got[Memory], true) != "512Mi" {
		t.Errorf("%v, %v", got, done)
	}
	if again := p.Default(); len(again) != 0 {
		t.Errorf("twice: %v", again)
	}
	own := Pod{Containers: []Container{guaranteed("c", "cpu=1 hugepages-2Mi=2Mi")}, Limits: with("cpu=2 memory=1Gi")}
	own.Default()
	for field, want := range map[string]string{CPU: "1", Memory: "1Gi", "hugepages-2Mi": "2Mi"} {
		if got := quantityOr(own.Requests[field], true); got != want {
			t.Errorf("the pod requests %s of %s, want %s", got, field, want)
		}
	}
}

// TestOutOf tests a node that has too little: the kubelet's order of reasons.
func TestOutOf(t *testing.T) {
	for name, c := range map[string]struct {
		have, used string
		pods       int
		ask        string
		want       string
	}{
		"room":          {"cpu=2 memory=4Gi pods=2", "cpu=1 memory=1Gi", 1, "cpu=1 memory=3Gi", "admitted c=shared"},
		"pods first":    {"cpu=2 memory=4Gi pods=1", "cpu=2", 1, "cpu=1 memory=1Gi", "refused (OutOfpods)"},
		"cpu":           {"cpu=2 memory=4Gi pods=2", "cpu=1500m", 1, "cpu=501m memory=9Gi", "refused (OutOfcpu)"},
		"memory":        {"cpu=2 memory=4Gi pods=2", "memory=1Gi", 1, "cpu=1 memory=4Gi", "refused (OutOfmemory)"},
		"of a cluster":  {"cpu=2 memory=4Gi pods=2", "", 1, "cpu=1 memory=4Gi example.com/licence=1", "admitted c=shared"},
		"of the node":   {"cpu=2 memory=4Gi pods=2 example.com/nic=1", "example.com/nic=1", 1, "cpu=1 memory=4Gi example.com/nic=1", "refused (OutOfexample.com/nic)"},
		"no such pages": {"cpu=2 memory=4Gi pods=2", "", 1, "cpu=1 memory=4Gi hugepages-64Ki=64Ki", "refused (OutOfhugepages-64Ki)"},
	} {
		p := mustPredict(t, Input{Node: machine(1, 1, 4, 1), Pod: pod(guaranteed("c", c.ask)), Capacity: &Capacity{Allocatable: with(c.have), Requested: with(c.used), Pods: c.pods}})
		if got := outcome(p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPending tests a pod that does not fit in addition to the requests of the node's pods: it
// stays Pending. The kubelet's reaction follows after that. Chapter 6 of the OpenShift guide: 1500m
// allocatable, 1440m requested, a second pod with a whole CPU.
func TestPending(t *testing.T) {
	node := machine(1, 1, 2, 1)
	second := Input{
		Node: node, Settings: Settings{CPUManagerPolicy: PolicyStatic, KubeReserved: with("cpu=500m")}, State: held(node, "1"),
		Pod:      pod(guaranteed("c", "cpu=1 memory=1G")),
		Capacity: &Capacity{Allocatable: with("cpu=1500m memory=7548500Ki pods=250"), Requested: with("cpu=1440m memory=1G"), Pods: 9},
	}
	p := mustPredict(t, second)
	d := p.Document()
	if d.Verdict.Outcome != Pending || d.Verdict.Reason != "Insufficient cpu" || d.Kubelet == nil || d.Kubelet.Outcome != Refused || d.Kubelet.Reason != ReasonUnexpected {
		t.Errorf("%+v, kubelet %+v", d.Verdict, d.Kubelet)
	}
	// A pod that names its node bypasses the scheduler.
	bound := second
	bound.Pod.Placement.Node = "node1"
	if d := mustPredict(t, bound).Document(); d.Verdict.Outcome != Refused || d.Kubelet != nil {
		t.Errorf("a pod that names its node: %+v, %+v", d.Verdict, d.Kubelet)
	}
	// The scheduler has no objection if there is room, or if the room is unknown.
	roomy, unknown := second, second
	roomy.State, roomy.Capacity = State{}, &Capacity{Allocatable: with("cpu=1500m memory=7548500Ki pods=250"), Requested: with("cpu=440m"), Pods: 9}
	unknown.Capacity = nil
	for name, c := range map[string]struct {
		in   Input
		want string
	}{"room": {roomy, Admitted}, "room that is not known": {unknown, Refused}} {
		if d := mustPredict(t, c.in).Document(); d.Verdict.Outcome != c.want || d.Kubelet != nil {
			t.Errorf("%s: %+v, %+v", name, d.Verdict, d.Kubelet)
		}
	}
	// The scheduler also rejects a node that lacks the resource entirely.
	licence := roomy
	licence.Pod = pod(guaranteed("c", "cpu=1 memory=1G example.com/licence=1"))
	if d := mustPredict(t, licence).Document(); d.Verdict.Reason != "Insufficient example.com/licence" || d.Kubelet == nil || d.Kubelet.Outcome != Admitted {
		t.Errorf("%+v, %+v", d.Verdict, d.Kubelet)
	}
}

// TestAdvice tests that exactly the changes that help are advised.
func TestAdvice(t *testing.T) {
	two := machine(2, 1, 4, 2) // node 0: 0-3,8-11; node 1: 4-7,12-15
	for name, c := range map[string]struct {
		in   Input
		want []string // where: change
		not  string
	}{
		"whole cores": {Input{Node: two, Settings: static(PolicyNone, "full-pcpus-only"), Pod: pod(guaranteed("c", "cpu=3 memory=1Gi"))},
			[]string{"pod: container c: request and limit of cpu 4 (whole cores of 2 threads)", "pod: container c: request and limit of cpu 2", "kubelet: cpuManagerPolicyOptions: without full-pcpus-only"}, ""},
		"smaller, or another policy": {Input{Node: two, Settings: static(PolicySingleNUMANode), Pod: pod(guaranteed("c", "cpu=10 memory=1Gi"))},
			[]string{"pod: container c: request and limit of cpu 8", "kubelet: topologyManagerPolicy: restricted"}, "memory"},
		"room": {Input{Node: two, Settings: static(PolicyRestricted), State: held(two, "4-5", "6-7,12-14"), Pod: pod(guaranteed("c", "cpu=8 memory=1Gi"))},
			[]string{"pod: container c: request and limit of cpu 7", "kubelet: topologyManagerPolicy: best-effort"}, "end pod"},
		"a pod in the way": {Input{Node: two, Settings: static(PolicyRestricted), State: held(two, "4-5"), Pod: pod(guaranteed("c", "cpu=8 memory=1Gi"))},
			[]string{"node: delete pod uid-0, which has exclusive use of 2 CPUs"}, ""},
		"for itself": {Input{Node: two, Settings: static(PolicyNone), Pod: pod(Container{Name: "c", Requests: with("cpu=1500m memory=1Gi"), Limits: with("cpu=4 memory=2Gi")})},
			[]string{"pod: for exclusive CPUs: container c: request and limit of cpu 2; container c: request and limit of memory 1Gi"}, ""},
		"content": {Input{Node: two, Settings: static(PolicyNone), Pod: pod(guaranteed("c", "cpu=2 memory=1Gi"))}, nil, ":"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPredict(t, c.in)
			var got []string
			for _, a := range p.Advice {
				got = append(got, a.Where+": "+a.Change)
				if !strings.HasPrefix(a.Then, "admitted") {
					t.Errorf("%+v", a)
				}
			}
			at := 0
			for _, want := range c.want {
				i := slices.Index(got[at:], want)
				if i < 0 {
					t.Fatalf("%+v\ngot  %q\nwant %q in this order", p.Verdict, got, c.want)
				}
				at += i + 1
			}
			if all := strings.Join(got, "\n"); c.not != "" && strings.Contains(all, c.not) {
				t.Errorf("%q in %s", c.not, all)
			}
		})
	}
}

// TestPageRulesHaveAdvice tests that a broken rule of huge pages has advice, even if the kubelet
// would admit the pod.
func TestPageRulesHaveAdvice(t *testing.T) {
	n := machine(1, 1, 4, 1)
	n.NUMA[0].HugePages[0].Pages = 64
	for name, c := range map[string]struct {
		pages, medium, limit string
		want                 []string
	}{
		"kept":           {"hugepages-2Mi=64Mi", "HugePages", "64Mi", nil},
		"too large":      {"hugepages-2Mi=64Mi", "HugePages", "128Mi", []string{"volume v: set sizeLimit 64Mi; or request 128Mi of hugepages-2Mi in the containers in total"}},
		"another medium": {"hugepages-2Mi=64Mi", "HugePages-1Gi", "64Mi", []string{"volume v: request pages of this size in a container, or set another medium"}},
		"no request":     {"", "HugePages", "64Mi", []string{"volume v: request hugepages-SIZE in a container, as much as the volume needs"}},
		"no such size":   {"hugepages-1Gi=1Gi", "HugePages", "1Gi", []string{"hugepages-1Gi: request a size that the node has: hugepages-2Mi"}},
	} {
		in := Input{Node: n, Pod: pod(guaranteed("c", "cpu=1 memory=1Gi "+c.pages))}
		limit := resource.MustParse(c.limit)
		in.Pod.Volumes = []HugePageVolume{{Name: "v", Medium: c.medium, SizeLimit: &limit}}
		var got []string
		for _, a := range mustPredict(t, in).Advice {
			if a.Where == "pod" && strings.HasPrefix(a.Then, "holds: ") {
				got = append(got, a.Change)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
