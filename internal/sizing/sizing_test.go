package sizing_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
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

// Write puts its own files anew, leaves those of others alone, and knows them apart
// also after somebody has changed one.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	files := host.Mounted(dir).Files
	write := func(force bool, content ...string) ([]string, error) {
		t.Helper()
		var all []sizing.Artefact
		for i := 0; i < len(content); i += 2 {
			all = append(all, sizing.Artefact{Name: content[i], Content: content[i+1]})
		}
		out, err := sizing.Write(files, all, force)
		var states []string
		for _, w := range out {
			states = append(states, w.State)
		}
		return states, err
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	step := func(force bool, want string, content ...string) {
		t.Helper()
		got, err := write(force, content...)
		if err != nil || strings.Join(got, ", ") != want {
			t.Fatalf("%v, %v, want %s", got, err, want)
		}
	}
	step(false, "new, new", "a.yaml", "1", "etc/sysctl.d/x.conf", "2")
	step(false, "replaced, as it was", "a.yaml", "3", "etc/sysctl.d/x.conf", "2")
	if read("a.yaml") != "3" || read("etc/sysctl.d/x.conf") != "2" {
		t.Error("not what was written")
	}
	put("a.yaml", "somebody's")
	put("b.yaml", "somebody's")
	for range 2 { // a refusal does not make them ours
		_, err := write(false, "a.yaml", "4", "b.yaml", "5", "c.yaml", "6")
		var foreign *sizing.ForeignError
		if !errors.As(err, &foreign) || !slices.Equal(foreign.Names, []string{"a.yaml", "b.yaml"}) {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "c.yaml")); err == nil || read("a.yaml") != "somebody's" {
			t.Fatal("something was written")
		}
	}
	step(true, "replaced, replaced, new", "a.yaml", "4", "b.yaml", "5", "c.yaml", "6")
	step(false, "replaced", "b.yaml", "7")
	// Of equal content nobody is asked.
	put("d.yaml", "8")
	step(false, "as it was", "d.yaml", "8")
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../b", ".fettle-size.json", "a/"} {
		if _, err := write(true, name, "x"); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	// A link is followed inside the directory only, and no file is put behind one.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("o"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := write(true, "link.yaml", "x"); err == nil {
		t.Error("written through a link")
	}
	if text, _ := os.ReadFile(outside); string(text) != "o" {
		t.Error("written outside")
	}
	put(".fettle-size.json", "{")
	if _, err := write(false, "e.yaml", "1"); err == nil {
		t.Error("a ledger that is broken is none")
	}
}
