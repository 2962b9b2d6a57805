package platform

import (
	"testing"

	"fettle.dev/fettle/internal/fact"
)

// A machine is no cluster.
func TestNone(t *testing.T) {
	none := ClusterSource().Open(t.Context(), nil)
	if a := none.Answer("cluster.version"); a.Value != nil || a.Unknown != "" {
		t.Errorf("a machine is a cluster: %+v", a)
	}
	if names, why := none.Items(Members); len(names) > 0 || why != "" {
		t.Errorf("a machine has members: %v %s", names, why)
	}
}

// Each input is one of a set that there is, and has a type that rules know.
func TestSource(t *testing.T) {
	s := ClusterSource()
	sets := map[string]bool{}
	for _, name := range s.Sets {
		sets[name] = true
	}
	for _, in := range s.Inputs {
		if of := in.Of(); of != "" && !sets[of] {
			t.Errorf("%s is of no set", in.Name)
		}
		switch in.Type {
		case fact.Number, fact.Text, fact.Truth, fact.List:
		default:
			t.Errorf("%s is %q", in.Name, in.Type)
		}
	}
}
