package linux

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestBasis(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"usr/lib/tuned/throughput-performance/tuned.conf": "[main]\nsummary=s\n",
		"usr/lib/tuned/virtual-guest/tuned.conf":          "[main]\ninclude=throughput-performance\n",
		"usr/lib/tuned/profiles/postgresql/tuned.conf":    "[main]\ninclude=throughput-performance\n",
		"etc/tuned/site/tuned.conf":                       "[main]\ninclude=virtual-guest\n[sysctl]\nvm.swappiness=5\n",
		"etc/tuned/profiles/team/tuned.conf":              "[main]\ninclude=site, -postgresql\n",
		"etc/tuned/alone/tuned.conf":                      "[sysctl]\nvm.swappiness=5\n",
		"etc/tuned/virtual-guest/tuned.conf":              "[main]\ninclude=throughput-performance\n",
		"etc/tuned/circle/tuned.conf":                     "[main]\ninclude=circle2\n",
		"etc/tuned/circle2/tuned.conf":                    "[main]\ninclude=circle\n",
		"etc/tuned/late/tuned.conf":                       "[main]\ninclude=${which}\n",
	})
	for names, want := range map[string]string{
		"throughput-performance": "throughput-performance", "virtual-guest": "virtual-guest", "site": "virtual-guest", "team": "virtual-guest postgresql",
		"alone": "alone", "site alone": "virtual-guest alone", "nowhere": "nowhere", "": "", "circle": "", "late": "late", "../site": "../site",
	} {
		if got := basis(h, names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
