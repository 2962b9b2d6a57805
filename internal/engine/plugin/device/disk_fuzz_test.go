package device

import (
	"fmt"
	"math"
	"testing"
)

func FuzzParseReadahead(f *testing.F) {
	for _, s := range []string{"4096", "8192 s", "8191 s", "0", "-1", "4M", "1 s s", " 7\ts ", "99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kib, ok := parseReadahead(text)
		if !ok {
			return
		}
		if kib < 0 || kib > math.MaxInt32 {
			t.Errorf("%q is %d KiB", text, kib)
		}
		if again, ok := parseReadahead(fmt.Sprintf("%d s", 2*kib)); 2*kib <= math.MaxInt32 && (!ok || again != kib) {
			t.Errorf("%q is %d KiB, and twice as many sectors are %d", text, kib, again)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"sda/apm", "disk/by-id/x/spindown", "../etc/apm", "/apm", "sda/", "a/../b/apm"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		device, what, err := parseName(name)
		if err != nil {
			return
		}
		if DiskSetting(device, what).Name != name {
			t.Errorf("%q is read as %q and %q", name, device, what)
		}
	})
}
