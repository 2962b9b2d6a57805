package agent

import (
	"testing"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/kube/tuned"
)

// TestFunctions tests that each built-in function is allowed or needs a permission: a new function
// is refused until this is decided.
func TestFunctions(t *testing.T) {
	none, all := refuse(nil), refuse(tuned.Allow{tuned.Exec: true})
	for _, f := range profile.Functions {
		kind, listed := functions[f.Name]
		if !listed {
			t.Errorf("function %s is not listed: may a profile of a cluster call it?", f.Name)
		}
		if err := none(f.Name); (err == nil) != (kind == "") {
			t.Errorf("%s, nothing allowed: %v", f.Name, err)
		}
		if err := all(f.Name); err != nil {
			t.Errorf("%s, exec allowed: %v", f.Name, err)
		}
	}
	if len(functions) != len(profile.Functions) {
		t.Errorf("%d functions listed, there are %d", len(functions), len(profile.Functions))
	}
	if err := all("later"); err == nil {
		t.Error("a function that nobody knows is allowed")
	}
}
