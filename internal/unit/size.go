package unit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size uint64

// Units are powers of 1024, as in the kernel.
const (
	Byte Size = 1
	KiB  Size = 1 << 10
	MiB  Size = 1 << 20
	GiB  Size = 1 << 30
	TiB  Size = 1 << 40
	PiB  Size = 1 << 50
	EiB  Size = 1 << 60
)

var sizeUnits = []struct {
	name string
	size Size
}{{"EiB", EiB}, {"PiB", PiB}, {"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

// ParseSize parses a number of bytes: digits, optional white space, optional unit. All units
// are powers of 1024, in upper or lower case: K M G T P E (the kernel's memparse,
// lib/cmdline.c), kB MB GB TB PB EB (/proc/meminfo, postgresql.conf) and KiB MiB ... (IEC
// 80000-13). Signs, fractions and other units are errors.
func ParseSize(s string) (Size, error) {
	number, suffix := splitUnit(s)
	factor, ok := sizeFactor(suffix)
	switch {
	case ok:
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("size %q: must not be negative", s)
	case number != "" && strings.HasPrefix(suffix, "."):
		return 0, fmt.Errorf("size %q: want a whole number; use a smaller unit", s)
	default:
		return 0, fmt.Errorf("size %q: unknown unit %q (use B, KiB, MiB, GiB, TiB)", s, suffix)
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: %s", s, whyNotNumber(number))
	}
	hi, lo := bits.Mul64(n, uint64(factor))
	if hi != 0 {
		return 0, fmt.Errorf("size %q: more than 16 EiB", s)
	}
	return Size(lo), nil
}

// BareError is returned for a size without a unit that is too small as a number of bytes.
type BareError struct {
	Text   string
	Likely Size // probable meaning
}

func (e *BareError) Error() string {
	return fmt.Sprintf("%s has no unit; did you mean %s?", e.Text, e.Likely)
}

// Works returns the probable size, as a valid value.
func (e *BareError) Works() string { return e.Likely.String() }

// Bare checks a size without a unit. If it is less than least as a number of bytes, but from
// least to most in GiB, MiB or KiB, Bare returns a BareError. Otherwise it returns nil.
func Bare(text string, least, most Size) error {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil || Size(n) >= least {
		return nil
	}
	for _, of := range []Size{GiB, MiB, KiB} {
		if s := Size(n) * of; s >= least && s <= most && (n < 1024 || of != GiB) {
			return &BareError{text, s}
		}
	}
	return nil
}

func sizeFactor(suffix string) (Size, bool) {
	switch u := strings.ToLower(suffix); u {
	case "", "b":
		return Byte, true
	default:
		for _, su := range sizeUnits[:len(sizeUnits)-1] {
			letter := strings.ToLower(su.name[:1])
			if u == letter || u == letter+"b" || u == letter+"ib" {
				return su.size, true
			}
		}
	}
	return 0, false
}

// splitUnit splits "4096 kB" into digits and unit.
func splitUnit(s string) (number, suffix string) {
	s = strings.TrimSpace(s)
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

func whyNotNumber(digits string) string {
	if digits == "" {
		return "does not begin with a whole number"
	}
	return digits + " is too large"
}

// String formats the size exactly in the largest unit that gives a whole
// number: "1536MiB", "4097B". ParseSize accepts it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatUint(uint64(s/u.size), 10) + u.name
		}
	}
	return "0B"
}

// Human formats the size for people as Digits does: "1.5 GiB", "37.2 MiB", "512 B".
func (s Size) Human() string {
	for _, u := range sizeUnits[:len(sizeUnits)-1] {
		if s < u.size {
			continue
		}
		return Digits(float64(s)/float64(u.size)) + " " + u.name
	}
	return fmt.Sprintf("%d B", uint64(s))
}

// Percent formats a ratio as a percentage without the percent sign: with one decimal, or one digit
// of a smaller one, because a confidence limit close to 0 matters ("8.2", "-0.005", "153"). Rounding
// errors around 0 become "0". Records of experiments are verified by it: do not change it.
func Percent(ratio float64) string {
	p := math.Abs(100 * ratio)
	switch {
	case p < 1e-9:
		return "0"
	case math.IsInf(p, 0):
		return strings.ToLower(strings.TrimPrefix(Exact(ratio), "+"))
	case p < 0.05:
		return Decimals(100*ratio, -int(math.Floor(math.Log10(p))))
	case p < 99.95:
		return Decimals(100*ratio, 1)
	}
	return Exact(math.Round(100 * ratio))
}

// SignedPercent is like Percent, with a plus sign for positive values.
func SignedPercent(ratio float64) string {
	text := Percent(ratio)
	if text == "0" || strings.HasPrefix(text, "-") {
		return text
	}
	return "+" + text
}

// ParsePercent parses a percentage such as 2% and returns a ratio.
func ParsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !strings.HasSuffix(text, "%") || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, errors.New("want a percentage such as 2%")
	}
	return n / 100, nil
}
