package load

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// judged returns the result of generated samples: for each start, the times from the intended start
// until it was sent and answered.
func judged(t *testing.T, p Plan, until time.Duration, cpu float64, each func(at time.Duration) engine.Sample, gates ...string) *Result {
	t.Helper()
	p.Set = &engine.Set{Asked: []engine.Asked{{Weight: 1, Method: "GET", URL: "http://localhost/"}}, Requests: []*engine.Request{{}}}
	p.Connections, p.Timeout = 100, time.Minute
	for _, text := range gates {
		g, err := engine.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Gates = append(p.Gates, g)
	}
	plan, stretches, err := p.schedule()
	if err != nil {
		t.Fatal(err)
	}
	m := engine.NewMeter(stretches, p.Timeout, 1, p.good)
	s := plan.Schedule
	if s == nil {
		if s, err = engine.NewRate(engine.Stage{From: 500, To: 500, For: p.WarmUp + p.For}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.Count() {
		at := s.At(i)
		if at >= until {
			break
		}
		x := each(at)
		x.Begin, x.Sent, x.End = at, at+x.Sent, at+x.End
		m.Add([]engine.Sample{x})
	}
	for at := time.Duration(0); at < until; at += time.Second {
		took := cpu
		if cpu > 1 { // of processors that others had
			took = 0.09
		}
		m.CPU(at, took, cpu)
	}
	r := &Prepared{plan: p}
	x, err := r.result(m, []*part{{meter: m, Counts: fleet.Counts{Until: until, Connections: 3, CPU: time.Second, Processors: 2}}}, nil, p.Length())
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	run := &evidence.Run{Body: body}
	if _, err := evidence.SeriesOf(run); err != nil {
		t.Error(err)
	}
	if _, err := evidence.CurvesOf(run); err != nil {
		t.Error(err)
	}
	return x
}

const ms = time.Millisecond

func answer(after time.Duration) engine.Sample {
	return engine.Sample{End: after, Answer: engine.Answer{Status: 200, In: 100}}
}

func at(perSecond float64, length time.Duration) Plan {
	return Plan{For: length, Stages: []engine.Stage{{From: perSecond, To: perSecond, For: length}}}
}

func TestVerdicts(t *testing.T) {
	const minute = time.Minute
	steps := Plan{For: 20 * time.Second}
	for _, r := range []float64{100, 200, 400} {
		steps.Stages = append(steps.Stages, engine.Stage{From: r, To: r, For: 20 * time.Second})
	}
	ramp := Plan{For: minute, Stages: []engine.Stage{{From: 10, To: 100, For: minute}}}
	late := func(time.Duration) engine.Sample {
		x := answer(9 * ms)
		x.Sent = 5 * ms
		return x
	}
	// What a server that answers 200 a second makes of a higher rate.
	overload := func(perSecond float64) func(time.Duration) engine.Sample {
		return func(at time.Duration) engine.Sample { return answer(time.Duration((perSecond/200 - 1) * float64(at))) }
	}
	warming := func(d time.Duration) engine.Sample {
		return answer(10*ms + max(0, 40*ms-2*ms*time.Duration(d/time.Second)))
	}
	for name, c := range map[string]struct {
		plan  Plan
		cpu   float64
		each  func(time.Duration) engine.Sample
		word  Word
		text  string
		other func(x *Result) bool
	}{
		"sustained": {at(500, minute), 0.1, func(time.Duration) engine.Sample { return answer(5 * ms) }, Sustained, "the server sustained 500/s: p50 5 ms, p99 5 ms, no errors", func(x *Result) bool {
			return x.Whole.Starts == 30_000 && x.WarmUp.State == Settled && len(x.Series) == 3 && len(x.Series[0].Samples) == 10
		}},
		"overload": {at(500, minute), 0.1, overload(500), NotSustained, "the server did not sustain 500/s: 200 answers a second", nil},
		"closed":   {Plan{For: minute}, 0.1, func(time.Duration) engine.Sample { return answer(5 * ms) }, Measured, "answers a second with 3 connections, p50 5 ms", nil},
		"late":     {at(500, minute), 0.1, late, Limited, "the generator was the limit, not the server: 500 answers a second, p50 9 ms, p99 9 ms, no errors\n100 % of the requests were sent more than 1 ms late although a connection was free (p99 5", nil},
		"busy":     {at(500, minute), 0.95, func(time.Duration) engine.Sample { return answer(5 * ms) }, Limited, "the generator used 95 % of its", nil},
		// It has work all the time, and the server gets what others leave.
		"starved": {at(500, minute), 1.2, overload(500), Limited, "200 answers a second, p50 45 s, p99 89.1 s, no errors\nthe generator always had work but got only 9 % of its 2 processors: other programs used them", nil},
		// Late by what makes no difference to answers that take so long.
		"a little late": {at(500, minute), 0.1, func(time.Duration) engine.Sample {
			x := answer(500 * ms)
			x.Sent = 5 * ms
			return x
		}, Sustained, "the server sustained 500/s", nil},
		"no connection free": {at(500, minute), 0.1, func(time.Duration) engine.Sample {
			x := answer(50 * ms)
			x.Sent, x.Waited = 40*ms, true
			return x
		}, Sustained, "the server sustained 500/s", func(x *Result) bool {
			return x.Generator.WaitedShare == 1 && strings.Contains(x.Generator.Texts[0], "found all 100 connections in use")
		}},
		"refused": {at(500, minute), 0.1, func(time.Duration) engine.Sample {
			return engine.Sample{Answer: engine.Answer{Failure: engine.Refused, Err: engine.ErrNoAnswer}}
		}, Silent, "no request succeeded: connection-refused 30,000 times, as the server closed", nil},
		"errors": {at(500, minute), 0.1, func(time.Duration) engine.Sample { return engine.Sample{Answer: engine.Answer{Status: 503}} }, Silent, "status 503 30,000 times", nil},
		"some errors": {at(500, minute), 0.1, func(at time.Duration) engine.Sample {
			if (at+ms)%(100*ms) < 2*ms {
				return engine.Sample{Answer: engine.Answer{Status: 503}}
			}
			return answer(5 * ms)
		}, Sustained, "2 % errors", func(x *Result) bool { return x.Whole.Statuses["503"] == 600 && x.Whole.Latency.N == 29_400 }},
		"warms up": {at(500, minute), 0.1, warming, Sustained, "the server sustained 500/s: p50 10 ms", func(x *Result) bool {
			return x.WarmUp.LeftOutS >= 15 && x.WarmUp.LeftOutS <= 25 && !x.Slices[0].Counts && x.Slices[59].Counts && strings.Contains(x.WarmUp.Text, "are left out")
		}},
		"not warm": {at(500, 20*time.Second), 0.1, warming, Warming, "the latency did not settle: still getting faster at the end", func(x *Result) bool { return x.Whole.FromS >= 15 }},
		"asked to warm up": {Plan{For: 30 * time.Second, WarmUp: 30 * time.Second, Stages: at(500, 30*time.Second).Stages}, 0.1, warming, Sustained, "the server sustained 500/s: p50 10 ms", func(x *Result) bool {
			return x.Whole.FromS >= 30 && x.WarmUp.AskedS == 30 && x.WarmUp.LeftOutS == 0
		}},
		"steps": {steps, 0.1, func(at time.Duration) engine.Sample {
			return answer(5*ms + 600*ms*time.Duration(max(0, at-40*time.Second)/time.Second)) // the third gets 3 s late each 5 s
		}, NotSustained, "the server sustained 200/s (p50 5 ms, p99 5 ms, no errors); the server did not sustain 400/s", func(x *Result) bool { return len(x.Stages) == 3 && len(x.Series) == 9 }},
		"steps held": {steps, 0.1, func(time.Duration) engine.Sample { return answer(5 * ms) }, Sustained, "the server sustained all rates: 100/s p99 5 ms, 200/s p99 5 ms, 400/s p99 5 ms; no errors", nil},
		"ramp":       {ramp, 0.1, func(at time.Duration) engine.Sample { return answer(5*ms + at/10_000) }, Sustained, "the server sustained 10/s..100/s", func(x *Result) bool { return x.WarmUp.State == Unknown }},
		"nothing": {at(0.01, time.Minute), 0.1, func(time.Duration) engine.Sample {
			return engine.Sample{Answer: engine.Answer{Failure: engine.Timeout}, End: minute}
		}, Silent, "timeout 1 time", nil},
	} {
		x := judged(t, c.plan, c.plan.Length(), c.cpu, c.each)
		if h := strings.Join(x.Headline().Lines, "\n"); x.Word != c.word || !strings.Contains(h, c.text) || c.other != nil && !c.other(x) {
			t.Errorf("%s: %s %q (want %s %q)\nwarm-up %+v\ngenerator %+v\nstages %+v", name, x.Word, x.Text, c.word, c.text, x.WarmUp, x.Generator, x.Stages)
		}
	}
}

// TestCutResult tests that an interrupted load says so, and that its figures cover the time until
// then.
func TestCutResult(t *testing.T) {
	x := judged(t, at(500, time.Minute), 12500*ms, 0.1, func(time.Duration) engine.Sample { return answer(5 * ms) })
	if x.Cut == nil || x.Cut.Done != 12 || x.Cut.Planned != 60 || len(x.Slices) != 13 || x.Whole.ToS != 12.5 || !strings.HasPrefix(x.Text, "interrupted after 12 of 60 seconds: the server sustained 500/s") {
		t.Errorf("%q %+v %+v", x.Text, x.Cut, x.Whole)
	}
	if d := x.Whole.AnswerRate - 500; d < -5 || d > 5 {
		t.Errorf("%v answers a second", x.Whole.AnswerRate)
	}
}

// TestGatesOfStages tests that with --steps each step must meet the thresholds.
func TestGatesOfStages(t *testing.T) {
	p := Plan{For: 20 * time.Second}
	for _, r := range []float64{100, 200} {
		p.Stages = append(p.Stages, engine.Stage{From: r, To: r, For: 20 * time.Second})
	}
	x := judged(t, p, 40*time.Second, 0.1, func(at time.Duration) engine.Sample {
		return answer(map[bool]time.Duration{true: 5 * ms, false: 50 * ms}[at < 20*time.Second])
	}, "p99 < 20ms", "errors < 1%")
	var said []string
	for _, g := range x.Gates {
		said = append(said, g.Stage+" "+g.Gate+" "+map[bool]string{true: "met", false: "not met"}[g.Met])
	}
	const want = "100/s p99 < 20ms met; 100/s errors < 1% met; 200/s p99 < 20ms not met; 200/s errors < 1% met"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("%s", got)
	}
	if f := x.Failed(); len(f) != 1 || f[0].Stage != "200/s" {
		t.Errorf("%+v", f)
	}
}

// TestResultWords tests the words of the JSON output, which programs compare.
func TestResultWords(t *testing.T) {
	for word, want := range map[Word]string{Sustained: "sustained", NotSustained: "not-sustained", NonMonotonic: "not-monotonic"} {
		text, err := json.Marshal(Result{Word: word})
		if err != nil || !strings.Contains(string(text), `"result":"`+want+`"`) {
			t.Errorf("%s: %v, %.200s", want, err, text)
		}
	}
}
