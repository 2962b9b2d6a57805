package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func number(n int) *intstr.IntOrString     { v := intstr.FromInt32(int32(n)); return &v }
func percent(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }

// rolloutOf returns Ready nodes n1, n2, ... without settings, each changed by its words.
func rolloutOf(words ...string) []Node {
	var out []Node
	for i, all := range words {
		n := Node{Name: fmt.Sprint("n", i+1), Ready: true}
		for _, w := range strings.Fields(all) {
			switch w {
			case "done":
				n.Has = "new"
			case "not-ready":
				n.Ready = false
			case "disk":
				n.DiskPressure = true
			case "network":
				n.NetworkUnavailable = true
			case "cordoned":
				n.Unschedulable = true
			case "changing":
				n.Phase, n.Tried = Changing, "new"
			case "failed":
				n.Phase, n.Tried = Failed, "new"
			case "failed-before":
				n.Phase, n.Tried = Failed, "old"
			case "broken":
				n.Phase, n.Tried = Broken, "old"
			case "blocked":
				n.Phase, n.Tried, n.Why = Blocked, "new", "it needs a reboot"
			case "absent":
				n.Absent, n.Ready = true, false
			case "conflict":
				n.Conflict = "it is in two pools"
			case "-":
			default:
				panic(w)
			}
		}
		out = append(out, n)
	}
	return out
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		max     *intstr.IntOrString
		paused  bool
		nodes   []Node
		begin   string
		held    int
		limit   int
		stopped string
	}{
		{"one by one", nil, false, rolloutOf("-", "-", "-"), "n1", 0, 1, ""},
		{"two", number(2), false, rolloutOf("-", "-", "-"), "n1 n2", 0, 2, ""},
		{"0 becomes 1", number(0), false, rolloutOf("-", "-"), "n1", 0, 1, ""},
		{"less than 0", number(-1), false, rolloutOf("-", "-"), "", 0, 1, "maxUnavailable is -1; want 1 or more"},
		{"a percentage rounds down", percent("50%"), false, rolloutOf("-", "-", "-", "-", "-"), "n1 n2", 0, 2, ""},
		{"a percentage of few becomes 1", percent("10%"), false, rolloutOf("-", "-", "-"), "n1", 0, 1, ""},
		{"0 percent becomes 1", percent("0%"), false, rolloutOf("-", "-", "-"), "n1", 0, 1, ""},
		{"100 percent", percent("100%"), false, rolloutOf("-", "-", "-"), "n1 n2 n3", 0, 3, ""},
		{"no number", percent("many"), false, rolloutOf("-"), "", 0, 1, `maxUnavailable is "many"; want a number, or a percentage such as 10%`},
		{"a number as text", percent("2"), false, rolloutOf("-"), "", 0, 1, `maxUnavailable is "2"; want a number, or a percentage such as 10%`},
		{"all done", nil, false, rolloutOf("done", "done"), "", 0, 1, ""},
		{"done and not Ready takes the slot", nil, false, rolloutOf("done not-ready", "-"), "", 0, 1, ""},
		{"disk", nil, false, rolloutOf("done disk", "-"), "", 0, 1, ""},
		{"network", nil, false, rolloutOf("done network", "-"), "", 0, 1, ""},
		{"cordoned by somebody", nil, false, rolloutOf("done cordoned", "-"), "", 0, 1, ""},
		{"changing", nil, false, rolloutOf("changing", "-"), "", 0, 1, ""},
		{"changing under a higher limit", number(2), false, rolloutOf("changing", "-", "-"), "n2", 0, 2, ""},
		{"absent", nil, false, rolloutOf("changing absent", "-"), "", 0, 1, ""},
		{"absent and not said to change", nil, false, rolloutOf("absent", "-"), "", 1, 1, ""},
		{"what is not Ready cannot begin", number(2), false, rolloutOf("not-ready", "-", "-"), "n2", 1, 2, ""},
		{"what is cordoned cannot begin", number(3), false, rolloutOf("cordoned", "-", "-"), "n2 n3", 1, 3, ""},
		{"stops after the first failure", number(3), false, rolloutOf("failed", "-", "-"), "", 0, 3, "failed on n1: change the settings, or remove the obstacle"},
		{"other settings start over", nil, false, rolloutOf("failed-before", "-", "-"), "n1", 0, 1, ""},
		{"what is broken stops others too", number(3), false, rolloutOf("broken", "-", "-"), "", 0, 3, "failed on n1: change the settings, or remove the obstacle"},
		{"blocked holds no slot", nil, false, rolloutOf("blocked", "-"), "n2", 1, 1, ""},
		{"a conflict holds no slot", nil, false, rolloutOf("conflict", "-"), "n2", 1, 1, ""},
		{"paused", nil, true, rolloutOf("-", "-"), "", 0, 1, "the pool is paused"},
		{"no nodes", nil, false, nil, "", 0, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(Pool{MaxUnavailable: c.max, Paused: c.paused, Digest: "new"}, c.nodes)
			if got := strings.Join(d.Begin, " "); got != c.begin {
				t.Errorf("begin %q, want %q: %+v", got, c.begin, d)
			}
			if len(d.Held) != c.held || d.MaxUnavailable != c.limit || d.Stopped != c.stopped {
				t.Errorf("held %v, limit %d, stopped %q; want %d, %d, %q", d.Held, d.MaxUnavailable, d.Stopped, c.held, c.limit, c.stopped)
			}
		})
	}
}

// TestReasons tests that unavailable nodes have a reason, and that they are sorted for readers.
func TestReasons(t *testing.T) {
	nodes := rolloutOf("not-ready", "cordoned", "failed-before", "-")
	nodes[3].Name = "n10"
	d := Decide(Pool{MaxUnavailable: number(5), Digest: "new"}, nodes)
	want := Decision{
		Begin: []string{"n3", "n10"}, Waiting: []string{}, MaxUnavailable: 5, Total: 4,
		Unavailable: []Unavailable{{"n1", "it is not Ready"}, {"n2", "it was cordoned by another user"}},
		Held:        []Unavailable{{"n1", "it is not Ready"}, {"n2", "it was cordoned by another user"}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

func TestNatural(t *testing.T) {
	order := []string{"a", "a1", "a01", "a2", "a10", "a10b", "b0", "b"}
	for i := range order {
		for j := range order {
			got := natural(order[i], order[j])
			if i == j && got != 0 || i < j && got >= 0 && order[i] != "b0" || i > j && got <= 0 && order[j] != "b0" {
				t.Errorf("%s and %s: %d", order[i], order[j], got)
			}
		}
	}
}

func TestMembers(t *testing.T) {
	byLabel := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: ""}}
	}
	members, problems := Members([]Selector{
		{"b", byLabel("b")}, {"a", byLabel("a")}, {"all", &metav1.LabelSelector{}}, {"none", nil},
		{"wrong", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}}},
	}, map[string]map[string]string{"n1": {"a": ""}, "n2": {"a": "", "b": ""}, "n3": {"c": ""}})
	want := map[string]Member{
		"n1": {Pool: "a", Selected: []string{"a"}},
		"n2": {Conflict: "in several pools: a and b; only one may select it", Selected: []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 1 || problems["wrong"] == nil {
		t.Errorf("problems: %v", problems)
	}
}
