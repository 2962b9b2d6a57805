package sizing_test

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/sizing"
	"fettle.dev/fettle/internal/sizing/sizingtest"
)

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{
		"0.5": 0.5, "500m": 0.5, "4": 4, "500M": 5e8, "500 MB": 5e8, "1GB": 1e9, "1 GiB": 1 << 30, "2Gi": 2 << 30, "1T": 1e12, "10k": 1e4, "0": 0,
	} {
		if got, err := sizing.Quantity(text); err != nil || got != want {
			t.Errorf("%q: %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "GB", "1 parsec", "1.2.3", "1e9", "NaN", "9999999P"} {
		if got, err := sizing.Quantity(text); err == nil {
			t.Errorf("%q: %g", text, got)
		}
	}
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"500m", "1.5Gi", "9999999999999999999999", "1 GB", ".", "0x1p3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := sizing.Quantity(s); err == nil && !(v >= 0 && v <= 1e18) {
			t.Errorf("%q is %g", s, v)
		}
	})
}

func TestVersions(t *testing.T) {
	f := sizingtest.Figures(t)
	if v, err := sizing.KnownVersion(f, "openshift-releases", ""); err != nil || v != "4.20" {
		t.Errorf("the newest is %s, %v", v, err)
	}
	if _, err := sizing.KnownVersion(f, "openshift-releases", "3.11"); err == nil || !strings.Contains(err.Error(), "there are 4.1, 4.2") {
		t.Error(err)
	}
}

func TestCeil(t *testing.T) {
	for _, tt := range []struct {
		amount, size float64
		want         int
	}{{2200, 500, 5}, {2500, 500, 5}, {2501, 500, 6}, {0, 5, 0}, {0.3, 0.1, 3}, {1, 0, 1<<31 - 1}, {1e300, 1, 1<<31 - 1}} {
		if got := sizing.Ceil(tt.amount, tt.size); got != tt.want {
			t.Errorf("%g / %g: %d, want %d", tt.amount, tt.size, got, tt.want)
		}
	}
}
