package tuned

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recommendCluster is a random one. Names and labels are few, so that they meet.
type recommendCluster struct {
	*rand.Rand
	objects []*Tuned
	pools   []Pool
	node    RecommendedNode
	options Options
}

// Texts of profiles, by what the cases know of them.
var (
	goodTexts = []string{
		"", "[sysctl]\nvm.swappiness=1\n", "[main]\ninclude=p1\n", "[main]\ninclude=p2,-p3\n", "[main]\ninclude=p4\n[vm]\n", "[main]\ninclude=b1\n",
		"[main]\ninclude=${f:virt_check:p5:b2}\n", "[main]\ninclude=p1,p1\n",
	}
	badTexts     = []string{"x\n", "[script]\nscript=x\n", "[sysctl]\na=${f:exec:b}\n"}
	randomNames  = []string{"p1", "p2", "p3", "p4", "p5", "p6", "b1", "b2"}
	randomLabels = []string{"a", "b", "c", "d"}
	builtins     = fstest.MapFS{
		"b1/tuned.conf": {Data: []byte("[main]\ninclude=b2\n")},
		"b2/tuned.conf": {Data: []byte("[main]\ninclude=p3\n")},
		"p6/tuned.conf": {Data: []byte("[main]\ninclude=p1\n")},
	}
)

func pick[T any](c *recommendCluster, from ...T) T { return from[c.Intn(len(from))] }

func (c *recommendCluster) labels(most int) map[string]string {
	out := map[string]string{}
	for range c.Intn(most + 1) {
		out[pick(c, randomLabels...)] = pick(c, "", "x", "y")
	}
	return out
}

func (c *recommendCluster) match(depth int) []TunedMatch {
	var out []TunedMatch
	for range 1 + c.Intn(2) {
		m := TunedMatch{Label: pick(c, randomLabels...), Type: pick(c, "", "", "node", "pod")}
		if c.Intn(3) == 0 {
			v := pick(c, "", "x", "y")
			m.Value = &v
		}
		if c.Intn(40) == 0 {
			m.Label = ""
		}
		if c.Intn(40) == 0 {
			m.Type = "Pod"
		}
		switch {
		case depth < 3 && c.Intn(2) == 0:
			m.Match = c.match(depth + 1)
		case c.Intn(10) == 0:
			m.Match = []TunedMatch{}
		}
		out = append(out, m)
	}
	return out
}

func (c *recommendCluster) rule() TunedRecommend {
	r := TunedRecommend{Profile: pick(c, randomNames...)}
	if c.Intn(15) > 0 {
		p := uint64(c.Intn(4))
		r.Priority = &p
	}
	if c.Intn(30) == 0 {
		r.Profile = pick(c, "", "..", "a b")
	}
	switch c.Intn(12) {
	case 0:
	case 1:
		r.Match = []TunedMatch{}
	default:
		r.Match = c.match(0)
	}
	switch c.Intn(6) {
	case 0, 1:
		r.MachineConfigLabels = map[string]string{"role": pick(c, "master", "worker", "own", "x")}
		if c.Intn(2) == 0 {
			r.Match = nil
		}
	case 2:
		r.MachineConfigLabels = map[string]string{}
	}
	r.Operand.Debug = c.Intn(4) == 0
	return r
}

func randomCluster(seed int64) *recommendCluster {
	c := &recommendCluster{Rand: rand.New(rand.NewSource(seed))}
	c.options = Options{PodLabels: c.Intn(2) == 0, Builtin: builtins}
	for _, name := range []string{"default", "m", "a", "z", "k"}[:1+c.Intn(5)] {
		t := &Tuned{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if c.Intn(4) == 0 {
			t.Annotations = map[string]string{DeferredAnnotation: pick(c, "always", "update", "never", "Always")}
		}
		for range c.Intn(3) {
			text := pick(c, goodTexts...)
			if c.Intn(12) == 0 {
				text = pick(c, badTexts...)
			}
			t.Spec.Profile = append(t.Spec.Profile, TunedProfile{Name: pick(c, randomNames...), Data: text})
		}
		if c.Intn(60) == 0 {
			t.Spec.Profile = append(t.Spec.Profile, TunedProfile{Name: ".", Data: ""})
		}
		for range c.Intn(4) {
			t.Spec.Recommend = append(t.Spec.Recommend, c.rule())
		}
		c.objects = append(c.objects, t)
	}
	for _, name := range []string{"master", "worker", "own", "other"} {
		if c.Intn(2) == 0 {
			c.pools = append(c.pools, Pool{
				Name: name, NodeSelector: selector(pick(c, "a", "b", "c=x", "d", "")),
				MachineConfigSelector: selector(pick(c, "role="+name, "role=worker,"+name, "")),
			})
		}
	}
	c.node = RecommendedNode{Name: "n", Labels: c.labels(4)}
	for i := range c.Intn(3) {
		c.node.Pods = append(c.node.Pods, Pod{Name: fmt.Sprintf("ns/%d", i), Labels: c.labels(3)})
	}
	if c.Intn(20) == 0 {
		c.node.Labels["kubernetes.io/os"] = pick(c, "linux", "windows")
	}
	return c
}

// TestAgainstAnotherEvaluation decides 5,000 random clusters twice: by Decide, and
// by the search of oracle_test.go.
func TestAgainstAnotherEvaluation(t *testing.T) {
	states, ties, byLabels, invalid := map[State]int{}, 0, 0, 0
	for seed := range int64(5000) {
		c := randomCluster(seed)
		rules := New(c.objects, c.pools, c.options)
		got, want := answerOf(rules.Decide(c.node), rules.Objects()), c.search()
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d (-another evaluation +Decide)\n%s\n%s", seed, d, c)
		}
		states[want.State]++
		ties += want.Ties
		invalid += len(want.Invalid)
		if want.By == ByLabels {
			byLabels++
		}
	}
	t.Logf("%v, %d ties, %d by machineConfigLabels, %d objects invalid", states, ties, byLabels, invalid)
	for _, s := range []State{Decided, Held, NoMatch, NotLinux} {
		if states[s] < 100 {
			t.Errorf("only %d of the cases are %s", states[s], s)
		}
	}
	if ties < 100 || byLabels < 100 || invalid < 1000 {
		t.Error("the cases show too little")
	}
}

// TestOrderDoesNotMatter: the order in which objects, pools and pods are listed
// is the API server's.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range int64(1000) {
		c := randomCluster(seed)
		first := New(c.objects, c.pools, c.options)
		want := first.Decide(c.node)
		c.Shuffle(len(c.objects), func(i, j int) { c.objects[i], c.objects[j] = c.objects[j], c.objects[i] })
		c.Shuffle(len(c.pools), func(i, j int) { c.pools[i], c.pools[j] = c.pools[j], c.pools[i] })
		c.Shuffle(len(c.node.Pods), func(i, j int) { c.node.Pods[i], c.node.Pods[j] = c.node.Pods[j], c.node.Pods[i] })
		second := New(c.objects, c.pools, c.options)
		if d := cmp.Diff(want, second.Decide(c.node)); d != "" {
			t.Fatalf("seed %d\n%s\n%s", seed, d, c)
		}
		if d := cmp.Diff(first.Objects(), second.Objects()); d != "" {
			t.Fatalf("seed %d\n%s\n%s", seed, d, c)
		}
	}
}

// TestOneBadObjectNeverStopsTheOthers adds an object that is wrong in every way:
// nodes that do not need a profile of its names are decided as before.
func TestOneBadObjectNeverStopsTheOthers(t *testing.T) {
	same, held := 0, 0
	for seed := range int64(3000) {
		c := randomCluster(seed)
		rules := New(c.objects, c.pools, c.options)
		before := rules.Decide(c.node)
		bad := &Tuned{ObjectMeta: metav1.ObjectMeta{Name: pick(c, "0", "l", "zz"), Annotations: map[string]string{DeferredAnnotation: "?"}}}
		bad.Spec.ManagementState = "Removed"
		bad.Spec.Profile = []TunedProfile{{Name: "p1", Data: "[main]\ninclude=nobody\n"}, {Name: "mine", Data: "x"}, {Name: "..", Data: ""}, {Name: "mine", Data: "[script]\n"}}
		bad.Spec.Recommend = []TunedRecommend{{}, {Profile: "mine", Match: []TunedMatch{{Label: "nobody's"}, {}, {Label: "a", Type: "?"}}}}
		if before.State != NoMatch { // its first rule holds everywhere, and comes last
			bad.Spec.Recommend[0].Profile = "mine"
		} else {
			bad.Spec.Recommend = bad.Spec.Recommend[1:]
		}
		after := New(append(slices.Clone(c.objects), bad), c.pools, c.options)
		got := after.Decide(c.node)
		// Of the rules without a priority, one of the bad object's may be a tie.
		notie := func(n Note) bool { return n.Reason == Tie && n.Object == bad.Name }
		got.Notes = slices.DeleteFunc(slices.Clone(got.Notes), notie)
		if got.Rule != nil && got.Rule.Object == bad.Name {
			continue // the bad object comes before others that have no priority
		}
		if before.State == Decided && got.State == Held && slices.ContainsFunc(got.Notes, func(n Note) bool { return n.Reason == DuplicateProfile && n.Profile == "p1" }) {
			if !slices.Contains(before.Profiles, "p1") {
				t.Fatalf("seed %d: held for p1, which the node does not need\n%s", seed, c)
			}
			held++
			continue
		}
		if before.Profile != got.Profile || before.State != got.State || !cmp.Equal(before.Rule, got.Rule) {
			// A name that was missing may be there now.
			if !slices.ContainsFunc(before.Notes, func(n Note) bool { return n.Reason == MissingProfile && n.Profile == "p1" }) {
				t.Fatalf("seed %d\n%s\n%s", seed, cmp.Diff(before, got), c)
			}
		}
		same++
		if managed := after.Managed(); managed != rules.Managed() {
			t.Fatalf("seed %d: %s", seed, managed)
		}
	}
	if same < 1000 || held < 50 {
		t.Errorf("%d the same, %d held: too few", same, held)
	}
}
