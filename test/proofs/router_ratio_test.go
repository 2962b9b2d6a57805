package proofs

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"fettle.dev/fettle/internal/stats"
)

// readRouter reads a record.
func readRouter(name string) (*routerRecord, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &routerRecord{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// routerRatios makes ratios of a record: of two cells, round by round.
type routerRatios struct {
	*routerRecord
	of map[routerCell][]routerSample // one of each round
}

func newRouterRatios(r *routerRecord) (*routerRatios, error) {
	if r.Schema != routerSchema {
		return nil, fmt.Errorf("a record of %q, want %s", r.Schema, routerSchema)
	}
	x := &routerRatios{r, map[routerCell][]routerSample{}}
	for _, c := range routerCells() {
		x.of[c] = make([]routerSample, r.Rounds)
	}
	for _, s := range r.Samples {
		of := x.of[s.routerCell]
		switch {
		case s.Round < 1 || s.Round > len(of) || of[s.Round-1].Round != 0:
			return nil, fmt.Errorf("round %d of %s: once too often, or not one of the experiment's", s.Round, s.routerCell)
		case s.Requests < 1 || s.HAProxyCPUS <= 0 || s.WindowS <= 0:
			return nil, fmt.Errorf("round %d of %s: nothing was measured", s.Round, s.routerCell)
		}
		of[s.Round-1] = s
	}
	if len(r.Samples) != r.Rounds*len(x.of) || r.Rounds < 2 {
		return nil, fmt.Errorf("%d samples of %d rounds, want one of each of %d cells in at least 2", len(r.Samples), r.Rounds, len(x.of))
	}
	return x, nil
}

// What is compared: requests for a second of HAProxy's processor time, which is what one
// thread serves that is never idle, and requests a second of all three programs together.
func capacity(s routerSample) float64 { return float64(s.Requests) / s.HAProxyCPUS }
func rate(s routerSample) float64     { return float64(s.Requests) / s.WindowS }

// mean is that of a cell over the rounds, with the least and the most.
func (x *routerRatios) mean(c routerCell, value func(routerSample) float64) (mean, least, most float64) {
	var all []float64
	least, most = math.Inf(1), math.Inf(-1)
	for _, s := range x.of[c] {
		v := value(s)
		all, least, most = append(all, v), math.Min(least, v), math.Max(most, v)
	}
	return stats.Mean(all), least, most
}

// ratio is a factor with its interval of 95 %.
type ratio struct{ Factor, Low, High float64 }

// ratio compares two cells: the geometric mean over the rounds, with Student's interval of
// the logarithms. What slows a whole round down is in both cells of it.
func (x *routerRatios) ratio(c, base routerCell, value func(routerSample) float64) ratio {
	if c == base {
		return ratio{1, 1, 1}
	}
	var logs []float64
	for i, s := range x.of[c] {
		logs = append(logs, math.Log(value(s)/value(x.of[base][i])))
	}
	mean := stats.Mean(logs)
	half := stats.StudentQuantile(0.975, float64(len(logs)-1)) * stats.SD(logs) / math.Sqrt(float64(len(logs)))
	return ratio{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}
}

func (r ratio) String() string {
	if r.Low == 1 && r.High == 1 {
		return "1"
	}
	digits := 2
	if r.Factor < 0.095 {
		digits = 3
	}
	return fmt.Sprintf("%.*f [%.*f, %.*f]", digits, r.Factor, digits, r.Low, digits, r.High)
}

// times is the ratio of a figure, in three digits.
func (r ratio) times(figure float64) string {
	digits := func(v float64) string {
		step := math.Pow(10, math.Floor(math.Log10(v))-2)
		return fmt.Sprintf("%.0f", math.Round(v/step)*step)
	}
	return fmt.Sprintf("%s [%s, %s]", digits(figure*r.Factor), digits(figure*r.Low), digits(figure*r.High))
}

// inverted is what another amount of work would take.
func (r ratio) inverted() ratio { return ratio{1 / r.Factor, 1 / r.High, 1 / r.Low} }

// meets says whether the interval has a figure between two others in it.
func (r ratio) meets(a, b float64) bool { return r.Low <= max(a, b) && min(a, b) <= r.High }

// about says that two numbers differ by no more than a share of the second.
func about(x, y, share float64) bool { return math.Abs(x-y) <= share*math.Abs(y) }

// TestRouterRatios: ratios are those that were put in, with the interval of three numbers
// that is known.
func TestRouterRatios(t *testing.T) {
	x, err := newRouterRatios(invented())
	if err != nil {
		t.Fatal(err)
	}
	base := routerCell{Mode: "none", Bytes: page1k}
	for _, c := range routerCells() {
		got, want := x.ratio(c, base, capacity), 1/inventedCost(c)
		if !about(got.Factor, want, 1e-9) || !about(got.Low, want, 1e-9) || !about(got.High, want, 1e-9) {
			t.Errorf("%s: %v, want %v: the machine's speed in each round is in both", c, got, want)
		}
	}
	// Student's t of 95 % with two degrees of freedom is 4.3027; ratios of 1, 2 and 4 have
	// a mean of 2 and a deviation of log 2.
	odd := routerCell{Mode: "edge", Resume: true, Bytes: page1k}
	for i, factor := range []float64{1, 2, 4} {
		x.of[odd][i] = x.of[base][i]
		x.of[odd][i].HAProxyCPUS /= factor
	}
	half := math.Exp(4.3027 * math.Log(2) / math.Sqrt(3))
	if got := x.ratio(odd, base, capacity); !about(got.Factor, 2, 1e-9) || !about(got.Low, 2/half, 1e-4) || !about(got.High, 2*half, 1e-4) {
		t.Errorf("%v, want 2 [%.3f, %.3f]", got, 2/half, 2*half)
	}
	if got := x.ratio(base, base, capacity).String(); got != "1" {
		t.Error(got)
	}
	r := ratio{0.25, 0.2, 0.3125}
	if r.String() != "0.25 [0.20, 0.31]" || r.times(12345) != "3090 [2470, 3860]" || r.inverted() != (ratio{4, 3.2, 5}) {
		t.Errorf("%v, %s, %v", r, r.times(12345), r.inverted())
	}
	if got := (ratio{0.0412, 0.0388, 0.0437}).String(); got != "0.041 [0.039, 0.044]" {
		t.Error(got)
	}
	if !r.meets(0.1, 0.21) || !r.meets(0.4, 0.3) || r.meets(0.1, 0.19) || r.meets(0.33, 0.4) {
		t.Error("meets")
	}
}

// TestRouterRecordWhole: a record that lacks something, or has it twice, makes no page.
func TestRouterRecordWhole(t *testing.T) {
	for name, spoil := range map[string]func(*routerRecord){
		"a sample too few": func(r *routerRecord) { r.Samples = r.Samples[1:] },
		"one twice":        func(r *routerRecord) { r.Samples[1] = r.Samples[0] },
		"another cell":     func(r *routerRecord) { r.Samples[0].Bytes = 5 },
		"nothing measured": func(r *routerRecord) { r.Samples[0].HAProxyCPUS = 0 },
		"another record":   func(r *routerRecord) { r.Schema = "fettle/load-http/v1" },
	} {
		r := invented()
		spoil(r)
		if _, err := newRouterRatios(r); err == nil {
			t.Error(name + " was not noticed")
		}
	}
}

// invented is a record whose ratios are known: a machine that is of another speed in each
// round, and cells that differ by what inventedCost says.
func invented() *routerRecord {
	r := &routerRecord{Schema: routerSchema, Routes: routes, Rounds: routerRounds, Seed: routerSeed, WarmUpS: 2, Programs: map[string]string{"HAProxy": "2.6.12", "OpenSSL": "3.0.22", "nginx": "1.22.1", "Go": "1.26"}}
	r.Machine.Settings = map[string]string{"sysctl:net.ipv4.tcp_congestion_control": "cubic"}
	for round, speed := range []float64{1, 1.3, 0.9} {
		for _, c := range routerCells() {
			s := routerSample{Round: round + 1, routerCell: c, WindowS: 7, Requests: 10_000, HAProxyCPUS: 0.5 * speed * inventedCost(c), AnswerBytes: float64(c.Bytes + 300), NginxCPUS: 1, GeneratorCPUS: 2, OthersCPUS: 0.07}
			if c.Close {
				s.Opened, s.BackOpened = s.Requests, s.Requests
			}
			if c.encrypted() {
				s.TLS, s.Cipher, s.Handshakes = "TLS 1.3", "TLS_AES_128_GCM_SHA256", s.Opened
				if c.Resume {
					s.Resumed = s.Handshakes
				}
			}
			if c.Mode == "re-encrypt" {
				s.BackHandshakes, s.BackResumed = 1000, 900
			}
			r.Samples = append(r.Samples, s)
		}
	}
	return r
}

func inventedCost(c routerCell) float64 {
	cost := map[string]float64{"none": 1, "edge": 1.25, "passthrough": 0.5, "re-encrypt": 2.5}[c.Mode]
	if c.Close {
		cost *= 4
		if !c.Resume && c.ended() {
			cost *= 2.5
		}
	}
	if c.Bytes == page8k {
		cost *= 1.5
	}
	return cost
}
