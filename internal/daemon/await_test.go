package daemon

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// promise is a place that reads as wanted from the third look on, as one does
// that a daemon is about to hold; never where it is late.
type promise struct {
	setting.Kind
	mu    sync.Mutex
	looks int
	late  bool
}

func (p *promise) Read(context.Context, setting.Setting) (setting.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looks++; p.looks > 2 && !p.late {
		return setting.Text("3"), nil
	}
	return setting.Text("2000000000"), nil
}
func (*promise) Equal(a, b setting.Value) bool { return a == b }

// TestDaemonTakesOver has a daemon that runs hold what tune cannot.
func TestDaemonTakesOver(t *testing.T) {
	const alone = "only the daemon can"
	for _, c := range []struct {
		name    string
		daemon  bool
		late    bool
		verdict plugin.Verdict
		why     string
	}{
		{"it holds it", true, false, plugin.OK, "held by fettle's daemon"},
		{"it is late", true, true, plugin.NeedsDaemon, "not yet held by fettle's daemon; check with fettle verify"},
		{"none runs", false, false, plugin.NeedsDaemon, alone},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if c.daemon {
				f, err := tune.Alive(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			kind := &promise{late: c.late}
			e := &tune.Engine{Kinds: setting.Kinds{"pmqos": kind}, StateDir: dir}
			s := setting.Setting{Kind: "pmqos", Name: "cpu_dma_latency"}
			res := &tune.Applied{Plan: &tune.Plan{Steps: []tune.Step{
				{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Verdict: plugin.Drifted},
				{Setting: s, Want: setting.Text("3"), Lifetime: setting.Held, Verdict: plugin.NeedsDaemon, Why: alone},
			}}}
			within := time.Minute
			if c.late {
				within = time.Millisecond
			}
			AwaitHeld(t.Context(), e, res, within)
			if st := res.Plan.Steps[1]; st.Verdict != c.verdict || st.Why != c.why {
				t.Errorf("%s: %s; want %s: %s", st.Verdict, st.Why, c.verdict, c.why)
			}
			if !c.daemon && kind.looks > 0 {
				t.Error("it waited without a daemon")
			}
		})
	}
}
