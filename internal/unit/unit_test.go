package unit

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseCPUList(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8\n", "0-3,8"},
		{"3,2,1", "1-3"},
		{" 1 , 2-4 ", "1-4"},
		{"0-63,64-127", "0-127"},
		{"0-31:2/4", "0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29"},
		{"5-9:1/2", "5,7,9"},
		{"8191", "8191"},
		{"007", "7"},
	} {
		got, err := ParseCPUList(c.in)
		if err != nil || got.String() != c.want {
			t.Errorf("ParseCPUList(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for in, reason := range map[string]string{
		"3-1":                  "the last CPU is before the first",
		"a":                    `"a" is not a number`,
		"1,,2":                 "a CPU number is missing",
		"1-":                   "a CPU number is missing",
		"-1":                   "a CPU number is missing",
		"1-2-3":                `"2-3" is not a number`,
		"+1":                   "is not a number",
		"1_0":                  "is not a number",
		"8192":                 "no kernel has more",
		"0-9999999":            "no kernel has more",
		"99999999999999999999": "too large",
		"1-3:1":                "USED/SIZE",
		"1-3:0/2":              "cannot use 0 of them",
		"1-3:3/2":              "cannot use 3 of them",
		"1:1/2":                "only a range",
		"0-N":                  "depends on the machine",
		"all":                  "depends on the machine",
		"0x3":                  "is not a number",
	} {
		if got, err := ParseCPUList(in); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseCPUList(%q) = %q, %v; want an error with %q", in, got, err, reason)
		}
	}
}

func TestParseCPUMask(t *testing.T) {
	for _, c := range []struct{ in, list, mask string }{
		{"f", "0-3", "0000000f"},
		{"0", "", "00000000"},
		{"00000000,0000000f\n", "0-3", "0000000f"},
		{"ffffffff,0000000f", "0-3,32-63", "ffffffff,0000000f"},
		{"1,f", "0-3,32", "00000001,0000000f"},
		{"1,00000000,00000000", "64", "00000001,00000000,00000000"},
		{"0xFF", "0-7", "000000ff"},
		{"1ffffffff", "0-32", "00000001,ffffffff"},
	} {
		got, err := ParseCPUMask(c.in)
		if err != nil || got.String() != c.list || got.Mask() != c.mask {
			t.Errorf("ParseCPUMask(%q) = %q (%s), %v; want %q (%s)", c.in, got, got.Mask(), err, c.list, c.mask)
		}
	}
	for _, in := range []string{"", "0x", "g", "f,", ",f", "f,,f", "123456789,1", "-1", "1" + strings.Repeat("0", 2048)} {
		if got, err := ParseCPUMask(in); err == nil {
			t.Errorf("ParseCPUMask(%q) = %q, want an error", in, got)
		}
	}
}

func TestCPUSetWords(t *testing.T) {
	for want, set := range map[string]CPUSet{"no CPUs": {}, "CPU 7": CPUs(7), "CPUs 1-3,9": CPUs(1, 2, 3, 9)} {
		if got := set.Words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCPUSetAlgebra(t *testing.T) {
	a, b := CPUs(0, 1, 2, 3, 64), CPUs(2, 3, 4, 200)
	for _, c := range []struct {
		name string
		got  CPUSet
		want string
	}{
		{"union", a.Union(b), "0-4,64,200"},
		{"union the other way", b.Union(a), "0-4,64,200"},
		{"intersect", a.Intersect(b), "2-3"},
		{"minus", a.Minus(b), "0-1,64"},
		{"minus the other way", b.Minus(a), "4,200"},
		{"invert", b.Invert(a), "0-1,64"},
		{"empty", a.Minus(a), ""},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s = %q, want %q", c.name, c.got, c.want)
		}
	}
	if !a.Minus(a).IsEmpty() || a.Minus(a).Max() != -1 || !a.Minus(a).Equal(CPUSet{}) {
		t.Error("a set less itself is not the empty set")
	}
	if a.String() != "0-3,64" || b.String() != "2-4,200" {
		t.Errorf("operands were changed: %q, %q", a, b)
	}
	if a.Has(-1) || a.Has(4) || !a.Has(64) || a.Has(100000) {
		t.Error("Has is wrong at the edges")
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "4096": 4096, "4k": 4096, "4 kB": 4096, "4KiB": 4096, "1M": MiB, "2 G": 2 * GiB,
		"1tib": TiB, "16777216 kB": 16 * GiB, "15E": 15 * EiB, "18446744073709551615": math.MaxUint64, "7B": 7,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "k", "-1", "+1", "1.5G", "1x", "1 K B", "16E", "18446744073709551616", "1kk", "40%", "1\u00a0k"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
	for size, want := range map[Size]string{0: "0B", 4097: "4097B", 1536 * MiB: "1536MiB", 2 * GiB: "2GiB", math.MaxUint64: "18446744073709551615B"} {
		if got := size.String(); got != want {
			t.Errorf("Size(%d) = %q, want %q", uint64(size), got, want)
		}
	}
	for size, want := range map[Size]string{0: "0 B", 512: "512 B", 1536 * MiB: "1.5 GiB", 38 * MiB: "38 MiB", 1023 * GiB: "1,023 GiB"} {
		if got := size.Human(); got != want {
			t.Errorf("Size(%d).Human() = %q, want %q", uint64(size), got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"60s": time.Minute, "1h 30min": 90 * time.Minute, "1min30s": 90 * time.Second, "500 ms": 500 * time.Millisecond,
		"5us": 5 * time.Microsecond, "5µs": 5 * time.Microsecond, "2 weeks": 14 * Day, "1M": Month, "1m": time.Minute,
		"0s": 0, "1y": Year, "10 s 10 s": 20 * time.Second,
	} {
		if got, err := ParseDuration(in, 0); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	if got, err := ParseDuration("90", time.Second); err != nil || got != 90*time.Second {
		t.Errorf("ParseDuration(90, s) = %v, %v", got, err)
	}
	for _, in := range []string{"", "90", "s", "-1s", "1.5h", "1 fortnight", "300y", "99999999999999999999s", "200y 200y"} {
		if got, err := ParseDuration(in, 0); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

func TestFormatSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0 s", 1e-9: "1 ns", 12.34e-6: "12.3 us", 999.4e-6: "999 us", 999.9e-6: "1 ms", 0.045: "45 ms", 0.9996: "1 s", 1.234: "1.23 s", 119.4: "119 s", 120: "2 min",
		7140: "119 min", 7199: "2 h", 7200: "2 h", 100000: "27.8 h", 172800: "2 d", 1e9: "11,574 d", -0.0231: "-23.1 ms",
	} {
		if got := FormatSeconds(s); got != want {
			t.Errorf("%g s is %q, want %q", s, got, want)
		}
	}
}

func TestKernelBefore(t *testing.T) {
	for _, c := range []struct {
		release string
		want    bool
	}{{"5.7.19", true}, {"5.8.0-rc1", false}, {"5.8+", false}, {"4.18.0-553.el8_10.x86_64", true}, {"6.1", false}, {"", false}, {"x", false}, {"5", false}} {
		if got := KernelBefore(c.release, 5, 8); got != c.want {
			t.Errorf("%q: %v", c.release, got)
		}
	}
}

func TestPercent(t *testing.T) {
	for ratio, want := range map[float64]string{0.082: "+8.2", -0.0987: "-9.9", -0.06: "-6", 0: "0", math.Copysign(0, -1): "0", -1e-15: "0", 1e-15: "0",
		-0.00005: "-0.005", 0.0004: "+0.04", 1.53: "+153", -0.9996: "-100", math.Inf(1): "+inf", math.Inf(-1): "-inf"} {
		if got := SignedPercent(ratio); got != want {
			t.Errorf("%v: %q, want %q", ratio, got, want)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for text, want := range map[string]float64{"2%": 0.02, " 0.5 %": 0.005, "-3%": -0.03, "100%": 1} {
		if got, err := ParsePercent(text); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "%", "two%", "inf%", "NaN%", "1%%"} {
		if got, err := ParsePercent(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDigits(t *testing.T) {
	tests := map[float64]string{
		0: "0", 1: "1", -2: "-2", 3.14159: "3.14", 31.4159: "31.4", 314.159: "314", 12345.6: "12,346",
		0.0123456: "0.0123", 3.6e-05: "0.000036", 2e-9: "0.000000002", 1e-17: "0", 131300: "131,300", 0.1 + 0.2: "0.3", 1e30: "1,000,000,000,000,000,000,000,000,000,000", 99.96: "100", -0.5: "-0.5", -1234.5: "-1,235", 2.50: "2.5",
	}
	for v, want := range tests {
		if got := Digits(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
