package tune_test

import (
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// TestDetermined: a place that could be read says that there is a machine, also where
// its value is known only when applied.
func TestDetermined(t *testing.T) {
	place := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	for _, c := range []struct {
		verdict plugin.Verdict
		before  setting.Value
		want    bool
	}{
		{"", setting.Text("60"), true},
		{plugin.Deferred, setting.Text("60"), true},
		{plugin.Deferred, setting.Unknown, false},
		{plugin.Unknown, setting.Unknown, false},
	} {
		p := tune.Plan{Steps: []tune.Step{{Setting: place, Before: c.before, Verdict: c.verdict}}}
		if got := p.Determined(); got != c.want {
			t.Errorf("%s, before %v: %v", c.verdict, c.before, got)
		}
	}
}
