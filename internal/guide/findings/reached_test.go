package findings

import (
	"slices"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
)

// TestReached has two audits with less load and two under load, in turns. Each rule is one course
// of its measured number; above 0 it is a warning.
func TestReached(t *testing.T) {
	audits := make([]*Audit, 4) // before, during, before, during
	for i := range audits {
		audits[i] = NewAudit("web1", time.Unix(0, 0), nil, nil)
		audits[i].Slow = &slow.Diagnosis{}
	}
	for id, c := range map[string]struct {
		course [4]float64
		harm   bool
	}{
		"appears":                          {[4]float64{0, 3, 0, 2}, false},
		"appears, and users notice":        {[4]float64{0, 1, 0, 1}, true},
		"stays":                            {[4]float64{1, 1, 1, 1}, true},
		"appears once":                     {[4]float64{0, 3, 0, 0}, true},
		"appears and stays":                {[4]float64{0, 3, 3, 3}, true},
		"higher under load":                {[4]float64{1, 5, 2, 4}, true},
		"higher, but users do not notice":  {[4]float64{1, 5, 2, 4}, false},
		"rises all the time":               {[4]float64{1, 2, 3, 4}, true},
		"a counter that grows under load":  {[4]float64{7, 9, 9, 12}, true},
		"a counter that grows in between":  {[4]float64{7, 9, 10, 12}, true},
		"a counter that grows only before": {[4]float64{7, 7, 9, 9}, true},
	} {
		for i, n := range c.course {
			state := rule.Passed
			if n > 0 {
				state = rule.Warned
			}
			audits[i].Findings = append(audits[i].Findings, rule.Finding{ID: id, State: state, Measured: n, Harm: c.harm})
		}
	}
	for cause, course := range map[string][4]bool{"cpu": {false, true, false, true}, "disk": {true, true, true, true}, "swap": {false, true, false, false}} {
		for i, is := range course {
			if is {
				audits[i].Slow.Causes = append(audits[i].Slow.Causes, slow.Cause{ID: cause, Reason: true})
			}
		}
	}
	before, during := []*Audit{audits[0], audits[2]}, []*Audit{audits[1], audits[3]}
	var got []string
	for _, f := range Reached(before, during) {
		got = append(got, f.ID)
		if last := got[0]; last == "appears" {
			t.Error("a finding that users do not notice comes first")
		}
	}
	for _, c := range CausesReached(before, during) {
		got = append(got, c.ID)
	}
	slices.Sort(got)
	if want := []string{"a counter that grows under load", "appears", "appears, and users notice", "cpu", "higher under load"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Reached(before, during[:1]); got != nil {
		t.Errorf("without turns: %v", got)
	}
}
