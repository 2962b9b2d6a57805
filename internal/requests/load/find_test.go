package load

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/testkit/root"
)

// expecting is a plan with thresholds.
func expecting(t *testing.T, p Plan, gates ...string) Plan {
	t.Helper()
	for _, text := range gates {
		g, err := engine.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Gates = append(p.Gates, g)
	}
	return p
}

// TestHolds tests the verdict of a stage on its rate.
func TestHolds(t *testing.T) {
	steady := func(d time.Duration) func(time.Duration) engine.Sample {
		return func(time.Duration) engine.Sample { return answer(d) }
	}
	late := func(d time.Duration) func(time.Duration) engine.Sample {
		return func(time.Duration) engine.Sample {
			x := answer(d)
			x.Sent = d / 2
			return x
		}
	}
	for name, c := range map[string]struct {
		each  func(time.Duration) engine.Sample
		gates []string
		want  Verdict
		why   string
	}{
		"holds":        {steady(5 * ms), []string{"p99 < 20ms", "errors < 1%"}, Holds, "p50 5 ms, p99 5 ms, no errors"},
		"slow":         {steady(50 * ms), []string{"p99 < 20ms"}, Fails, "threshold p99 < 20ms not met: 50"},
		"falls behind": {func(at time.Duration) engine.Sample { return answer(at) }, []string{"p99 < 1h"}, Fails, "did not keep up"},
		"dead": {func(time.Duration) engine.Sample {
			return engine.Sample{Answer: engine.Answer{Failure: engine.Refused}}
		}, []string{"p99 < 20ms"}, Fails, "no request succeeded"},
		// Late starts are not a fault of the server, and if the thresholds are met they do
		// not matter at all.
		"generator": {late(50 * ms), []string{"p99 < 20ms"}, KneeLimited, "were sent more than 1 ms late"},
		"late, and refused": {func(at time.Duration) engine.Sample {
			x := late(50 * ms)(0)
			if at < time.Second {
				x.Answer.Status = 503
			}
			return x
		}, []string{"errors < 1%"}, KneeLimited, "were sent more than 1 ms late"},
		"late, and all refused": {func(time.Duration) engine.Sample {
			x := late(50 * ms)(0)
			x.Answer.Status = 503
			return x
		}, []string{"errors < 1%"}, Fails, "status 503 10,000 times"},
		"late, and fine": {late(10 * ms), []string{"p99 < 20ms"}, Holds, "p99 10"},
	} {
		p := at(500, 20*time.Second)
		x := judged(t, p, 20*time.Second, 0.1, c.each, c.gates...)
		g := &Rig{Prepared: &Prepared{plan: expecting(t, p, c.gates...)}}
		if v, why, err := g.holds(x); err != nil || v != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s %q %v, want %s %q", name, v, why, err, c.want, c.why)
		}
	}
	// A server that is looked at no longer is no server that is too busy.
	p := at(500, 20*time.Second)
	x := judged(t, p, 20*time.Second, 0.1, steady(ms), "cpu < 80%")
	x.Observed = []Observed{{Machine: "web1", Ended: "ssh: gone"}}
	g := &Rig{Prepared: &Prepared{plan: expecting(t, p, "cpu < 80%")}}
	if v, _, err := g.holds(x); err == nil || !strings.Contains(err.Error(), "cpu < 80%: cannot tell: not observed: web1: ssh: gone") {
		t.Errorf("%s %v", v, err)
	}
}

func TestKneeVerdicts(t *testing.T) {
	stages := []KneeStage{{Rate: 100, Verdict: Holds, Why: "quick"}, {Rate: 200, Verdict: Fails, Why: "slow"}, {Rate: 220, Verdict: Holds, Why: "odd"}, {Rate: 100, Verdict: Fails, Why: "late"}}
	for want, r := range map[string]kneeResult{
		"100/s is the knee: the server sustained it (quick), but not 200/s: slow":                    {Answer: Found, Rate: 100, Failed: 200},
		"the server fails even at the lowest rate, 200/s: slow":                                      {Answer: FailsAtLowest, Failed: 200},
		"the server sustained 100/s (quick), the highest rate of the search":                         {Answer: HoldsAtHighest, Rate: 100},
		"the generator was the limit at 200/s: slow; the server sustained 100/s (quick)":             {Answer: GeneratorFirst, Rate: 100, Failed: 200},
		"the generator was the limit, even at 200/s: slow":                                           {Answer: GeneratorFirst, Failed: 200},
		"not monotonic: the server did not sustain 200/s (slow), but it sustained 220/s twice (odd)": {Answer: KneeNonMonotonic, Failed: 200, Odd: 220},
		"not monotonic: the server sustained 100/s in the search but not in the confirmation: late":  {Answer: KneeNonMonotonic, Failed: 100, Odd: 100},
	} {
		x := &Result{Knee: &Knee{Stages: stages}}
		if _, text := x.kneeVerdict(r); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

func TestStageLength(t *testing.T) {
	for _, c := range []struct {
		gate          string
		rate          float64
		stage, before time.Duration
	}{{"errors < 1%", 10, 10 * time.Second, 2 * time.Second}, {"p99 < 1s", 100, 10 * time.Second, 2 * time.Second}, {"p99 < 1s", 10, 36 * time.Second, 7200 * ms}, {"p99.9 < 1s", 100, 36 * time.Second, 7200 * ms}} {
		p := expecting(t, Plan{}, c.gate)
		if stage, before := p.StageLength(c.rate, 10*time.Second); stage != c.stage || before != c.before {
			t.Errorf("%s at %v/s: %v after %v", c.gate, c.rate, stage, before)
		}
	}
}

// TestFindKnee searches the knee of a real server and checks the stages in the result. An
// interrupted search has no answer.
func TestFindKnee(t *testing.T) {
	root.Real(t, "waits eight seconds: stages, and the silence between them")
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	quiet := func(time.Duration, time.Duration, fleet.Now) {}
	p := expecting(t, Plan{For: time.Second}, "errors < 1%")
	p.Stages = at(20, time.Second).Stages
	r, err := prepared(t.Context(), t, p, engine.Common{}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &Rig{Prepared: r}
	n := 0
	x, err := g.FindKnee(t.Context(), Range{20, 20, time.Second}, 1, quiet, func(KneeStage) { n++ })
	if err != nil || x.Word != TooSlow || x.Knee.Answer != FailsAtLowest || len(x.Knee.Stages) != 2 || n != 2 || x.Whole.Starts != 20 || x.Whole.FromS != 1 {
		t.Errorf("%+v %v", x, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if x, err := g.FindKnee(ctx, Range{20, 20, time.Second}, 1, quiet, func(KneeStage) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v %v", x, err)
	}
}
