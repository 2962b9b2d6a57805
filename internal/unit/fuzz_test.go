package unit

import (
	"fmt"
	"testing"
	"time"
)

// Printed values parse to the same value, in each notation.

func FuzzCPUList(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "0-31:2/4", "all", "2-N", "1,,2", "3-1", " 1 , 2 ", "8191", "0x3", "5-9:3/9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		set, err := ParseCPUList(s)
		if err != nil {
			return
		}
		if again, err := ParseCPUList(set.String()); err != nil || !again.Equal(set) {
			t.Errorf("%q: list %q is read back as %q, %v", s, set, again, err)
		}
		checkCPUSet(t, set)
	})
}

func FuzzCPUMask(f *testing.F) {
	for _, s := range []string{"", "f", "ffffffff,0000000f", "1,f", "0xff", "1ffffffff", "f,,f", "g"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if set, err := ParseCPUMask(s); err == nil {
			checkCPUSet(t, set)
		}
	})
}

func checkCPUSet(t *testing.T, set CPUSet) {
	t.Helper()
	if again, err := ParseCPUMask(set.Mask()); err != nil || !again.Equal(set) {
		t.Errorf("mask %q of %q is read back as %q, %v", set.Mask(), set, again, err)
	}
	if again := CPUs(set.Numbers()...); !again.Equal(set) || len(set.Numbers()) != set.Len() {
		t.Errorf("numbers of %q make %q", set, again)
	}
	var all CPUSet
	all.AddRange(0, MaxCPUs-1)
	inverted := set.Invert(all)
	if !inverted.Invert(all).Equal(set) || inverted.Len()+set.Len() != MaxCPUs ||
		!inverted.Union(set).Equal(all) || !inverted.Intersect(set).IsEmpty() {
		t.Errorf("complement of %q is wrong: %q", set, inverted)
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"", "0", "4 kB", "1.5G", "15E", "16E", "18446744073709551615", "1 KiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if size, err := ParseSize(s); err == nil {
			if again, err := ParseSize(size.String()); err != nil || again != size {
				t.Errorf("%q: %v is read back as %v, %v", s, size, again, err)
			}
			if size.Human() == "" {
				t.Errorf("%q: no words for %d", s, uint64(size))
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"", "1h 30min", "1min30s", "5µs", "90", "300y", "1M", "1m", "-1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s, time.Second)
		if err != nil {
			return
		}
		if again, err := ParseDuration(fmt.Sprint(int64(d), "ns"), 0); err != nil || again != d || d < 0 {
			t.Errorf("%q: %v is read back as %v, %v", s, d, again, err)
		}
	})
}
