package sizing_test

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
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

// A version that is not listed is newer than all, and gets the newest figures, or an error
// that proposes none.
func TestVersions(t *testing.T) {
	f := testkitsizing.Figures(t)
	for _, tt := range []struct {
		table, version, row string
		newer               bool
	}{
		{"openshift-releases", "", "4.22", false},
		{"openshift-releases", "4.16", "4.16", false},
		{"openshift-releases", "4.21", "4.21", false},
		{"openshift-releases", "4.22", "4.22", false},
		{"openshift-releases", "4.2.36", "4.2", false},
		{"openshift-releases", "4.22.1", "4.22", false},
		{"openshift-releases", "4.22.0-rc.1", "4.22", false},
		{"openshift-releases", "4.20.0-0.nightly-2026-01-01-000000", "4.20", false},
		{"openshift-releases", "4.23.0-ec.1", "4.22", true},
		{"openshift-releases", "-4.20", "", false},
		{"openshift-releases", "4.23", "4.22", true},
		{"openshift-releases", "4.100.2", "4.22", true},
		{"openshift-releases", "5.0", "4.22", true},
		{"openshift-releases", "3.11", "", false},
		{"openshift-releases", "4.0", "", false},
		{"openshift-releases", "4", "", false},
		{"openshift-releases", "4.2x", "", false},
		{"openshift-releases", "4.-3", "", false},
		{"openshift-releases", "v4.99", "", false},
		{"openshift-releases", "4.", "", false},
		{"satellite-releases", "6.15.2", "6.15", false},
		{"satellite-releases", "6.18", "6.18", false},
		{"satellite-releases", "6.19", "6.18", true},
		{"satellite-releases", "6.1", "", false},
		{"postgresql-releases", "17", "17", false},
		{"postgresql-releases", "17.4", "17", false},
		{"postgresql-releases", "19", "18", true},
		{"postgresql-releases", "9.6", "", false},
	} {
		row, newer, err := sizing.KnownVersion(f, tt.table, tt.version)
		if row != tt.row || newer != tt.newer || (err == nil) != (tt.row != "") {
			t.Errorf("%s, version %s: %q, newer %t, %v", tt.table, tt.version, row, newer, err)
		}
		if err != nil && strings.Contains(err.Error(), "did you mean") {
			t.Error(err)
		}
	}
	if _, _, err := sizing.KnownVersion(f, "openshift-releases", "3.11"); err == nil || !strings.Contains(err.Error(), "4.1 to 4.22") {
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
