package experiment

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/measure/prove"
)

// TestProgressNamesTheLimit tests the forecast: with little noise it names the approximate number
// of blocks. If the allowed blocks do not suffice, it says that the experiment may stay undecided.
func TestProgressNamesTheLimit(t *testing.T) {
	for spread, limited := range map[float64]bool{0.0001: false, 0.5: true} {
		d := prove.Defaults(prove.Metric{Name: "took", Unit: "s"})
		c := prove.Begin(d)
		for i := 0; c.Counted() < d.Least; i++ {
			value := 100 * (1 + spread*float64(i*i%7))
			if err := c.Took(prove.Values{"took": value}); err != nil {
				t.Fatal(err)
			}
		}
		next, _ := ahead(c, d)
		words := needed(c, d)
		if strings.Contains(next, "at most 80") != limited || strings.Contains(words, "may stay undecided") != limited {
			t.Errorf("spread %v: %s; %s", spread, next, words)
		}
	}
}
