package openshift

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/sizing"
)

func TestQuotient(t *testing.T) {
	for want, of := range map[string][2]int{
		"62,500 / 250":                        {62500, 250},
		"2,200 / 500 = 4.4, rounded up":       {2200, 500},
		"62,501 / 250 = 250.004, rounded up":  {62501, 250},
		"62,600 / 250 = 250.4, rounded up":    {62600, 250},
		"1 / 250 = 0.004, rounded up":         {1, 250},
		"150,001 / 250 = 600.004, rounded up": {150001, 250},
		"62,499 / 250 = 249.996, rounded up":  {62499, 250},
	} {
		if got := quotient(of[0], of[1]); got != want {
			t.Errorf("%v: %q, want %q", of, got, want)
		}
	}
}

// A count of one has a singular, and nothing is printed as a power of ten.
func TestOneOfEach(t *testing.T) {
	for _, said := range []string{"pods=1 nodes=1 node-cores=1", "pods=1", "pods=500 nodes=1", "nodes=1 version=4.4", "pods=500 node-cores=2 node-ram=4"} {
		r, err := sizing.Ask(sizing.Figures(t), New(), sizing.Words(said)...)
		if err != nil {
			t.Errorf("%s: %v", said, err)
			continue
		}
		all := r.Notes
		for _, v := range r.Values {
			all = append(all, v.Why)
		}
		for _, text := range all {
			for _, bad := range []string{"1 workers", "1 nodes", "1 cores,", "of 1 cores", "1 pods ", "e+0", "further 8 of 4", "further 8 of 16"} {
				if strings.Contains(" "+text, " "+bad) || strings.HasPrefix(bad, "e") && strings.Contains(text, bad) {
					t.Errorf("%s: %q has %q", said, text, bad)
				}
			}
		}
	}
}
