package prove

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"
)

// methods are the digests of each method's texts for the same samples.
var methods = map[int]string{
	3: "9b4ac6617591b78c81b8631717df29022c872d2f086e57f941a6dbab7a5aaeef",
	4: "37402c1b079b047fd350865efdd3ac41f8aad447fe24871cb167654136b08c14",
	5: "dd43df8bb3b5251b5b39a0e148a589b7d7ec300247b66f7104daa7fc29ad77dc",
}

// TestMethod tests that every change of the verdict or its text for the same samples increases
// Method, because records name the method that judged them. It runs only on amd64, because other
// processors round a product and a sum together.
func TestMethod(t *testing.T) {
	said := sha256.New()
	for i, effect := range []float64{0, 0.01, 0.03, -0.05, 0.3, 0} {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		metric := Metric{Name: "time", Unit: "s"}
		if i%2 == 1 {
			metric = Metric{Name: "rate", Unit: "1/s", More: true}
		}
		d := Defaults(metric)
		d.Seed, d.Most = uint64(i), 20
		if i == 5 {
			d.Guards = []Guard{{Metric: Metric{Name: "guard"}, Most: 0.1}}
			d.Covariate = &Metric{Name: "load"}
		}
		c := Begin(d)
		for n := 0; ; n++ {
			s := c.Next()
			if s.Phase == Done {
				break
			}
			load := math.Exp(0.1 * r.NormFloat64())
			v := Values{metric.Name: load * math.Exp(0.005*float64(i+1)*r.NormFloat64()+0.0003*float64(n)), "guard": math.Exp(0.01 * r.NormFloat64()), "load": load}
			if i < 5 {
				v[metric.Name] /= load
			}
			if n%29 == 28 {
				v[metric.Name] *= 1.3
			}
			if s.Phase == Blocks && s.Arm == With {
				v[metric.Name] *= 1 - effect
			}
			if err := c.Took(v); err != nil {
				t.Fatal(err)
			}
			said.Write([]byte(c.Verdict().Text + "\n"))
		}
		t.Log(c.Verdict().Text)
	}
	if got := hex.EncodeToString(said.Sum(nil)); got != methods[Method] {
		t.Errorf("method %d gives other texts than before: increase Method, and store its digest here: %s", Method, got)
	}
}
