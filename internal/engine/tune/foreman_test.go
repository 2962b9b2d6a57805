package tune

import (
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// TestVerificationForeman: a report shows a value as failed exactly if verify fails because of it,
// unless the value only waits or is unknown.
func TestVerificationForeman(t *testing.T) {
	for _, verdict := range plugin.Verdicts {
		v := &Verification{Values: []Checked{{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Verdict: verdict, Want: setting.Value{Text: "10"}, Now: setting.Value{Text: "60"}}}}
		v.Headline.Line("one value")
		r := ui.NewForemanReport("web1.example.org", time.Unix(1_795_000_000, 0))
		v.Foreman(r)
		want := ui.ForemanFailed
		switch {
		case verdict == plugin.OK || verdict == plugin.Dynamic || verdict == plugin.Unsupported:
			want = ui.ForemanNote
		case meets(verdict) || verdict == plugin.Unknown:
			want = ui.ForemanSkipped
		case verdict == plugin.NeedsReboot || verdict == plugin.NeedsRestart || verdict == plugin.NeedsDaemon || verdict == plugin.Deferred:
			want = ui.ForemanPending
		}
		lines := 2
		if want == ui.ForemanNote {
			lines = 1
		}
		if len(r.Logs) != lines || want != ui.ForemanNote && r.Status[want] != 1 || r.Status[ui.ForemanFailed]+r.Status[ui.ForemanPending]+r.Status[ui.ForemanSkipped] != lines-1 {
			t.Errorf("%s: %+v, want %q", verdict, r, want)
		}
	}
}
