package cluster

import (
	"testing"

	"fettle.dev/fettle/internal/rule"
)

// A machine is no cluster; and what was told of a cluster is answered, with why the rest
// is not known.
func TestAnswers(t *testing.T) {
	none := Source().Open(t.Context(), nil)
	if a := none.Answer("cluster.version"); a.Value != nil || a.Unknown != "" {
		t.Errorf("a machine is a cluster: %+v", a)
	}
	if names, why := none.Items(Members); len(names) > 0 || why != "" {
		t.Errorf("a machine has members: %v %s", names, why)
	}
	a := New()
	for _, name := range []string{"b", "a", "b"} {
		a.Item(Nodes, name)
	}
	a.Give("cluster.node.a.max_pods", 110.0, "node a")
	a.Unclear("cluster.node.b.max_pods", "node b", "forbidden")
	a.Unlisted(Claims, "forbidden")
	if names, why := a.Items(Nodes); len(names) != 2 || names[0] != "a" || why != "" {
		t.Errorf("%v %s", names, why)
	}
	if got := a.Answer("cluster.node.a.max_pods"); got.Value != 110.0 || got.At != "node a" {
		t.Errorf("%+v", got)
	}
	if got := a.Answer("cluster.node.b.max_pods"); got.Value != nil || got.Unknown != "forbidden" {
		t.Errorf("%+v", got)
	}
	if _, why := a.Items(Claims); why != "forbidden" {
		t.Errorf("%q", why)
	}
}

// Each input is one of a set that there is, and has a type that rules know.
func TestSource(t *testing.T) {
	s := Source()
	sets := map[string]bool{}
	for _, name := range s.Sets {
		sets[name] = true
	}
	for _, in := range s.Inputs {
		if of := in.Of(); of != "" && !sets[of] {
			t.Errorf("%s is of no set", in.Name)
		}
		switch in.Type {
		case rule.Number, rule.Text, rule.Truth, rule.List:
		default:
			t.Errorf("%s is %q", in.Name, in.Type)
		}
	}
}
