package unit

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size uint64

// Sizes are binary, as everywhere in the kernel.
const (
	Byte Size = 1
	KiB  Size = 1 << 10
	MiB  Size = 1 << 20
	GiB  Size = 1 << 30
	TiB  Size = 1 << 40
	PiB  Size = 1 << 50
	EiB  Size = 1 << 60
)

// SectorSize is what the block layer calls a sector, whatever the disk's own
// is: SECTOR_SIZE in include/linux/blk_types.h.
const SectorSize = 512 * Byte

var sizeUnits = []struct {
	name string
	size Size
}{{"EiB", EiB}, {"PiB", PiB}, {"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

// ParseSize reads a number of bytes: digits, optional white space, optional
// unit. All units are powers of 1024, whichever of their spellings is used:
// K M G T P E (the kernel's memparse, lib/cmdline.c), kB MB GB TB PB EB
// (/proc/meminfo, postgresql.conf) and KiB MiB ... (IEC 80000-13); upper or
// lower case. Signs, fractions and other units are errors.
func ParseSize(s string) (Size, error) {
	number, suffix := splitUnit(s)
	factor, ok := sizeFactor(suffix)
	switch {
	case ok:
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("size %q: it is below zero", s)
	case number != "" && strings.HasPrefix(suffix, "."):
		return 0, fmt.Errorf("size %q: want a whole number, if need be in a smaller unit", s)
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

// splitUnit cuts "4096 kB" into its digits and its unit.
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
		return "it does not begin with a whole number"
	}
	return digits + " is too large"
}

// String prints the size exactly, in the largest unit that leaves a whole
// number: "1536MiB", "4097B". ParseSize reads it back.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatUint(uint64(s/u.size), 10) + u.name
		}
	}
	return "0B"
}

// Human prints the size for a person, rounded to three digits or to whole
// units: "1.50 GiB", "37.2 MiB", "512 B".
func (s Size) Human() string {
	for _, u := range sizeUnits[:len(sizeUnits)-1] {
		if s < u.size {
			continue
		}
		v := float64(s) / float64(u.size)
		switch {
		case v < 9.995:
			return fmt.Sprintf("%.2f %s", v, u.name)
		case v < 99.95:
			return fmt.Sprintf("%.1f %s", v, u.name)
		}
		return fmt.Sprintf("%.0f %s", v, u.name)
	}
	return fmt.Sprintf("%d B", uint64(s))
}

// Amount is a size, or a share of something whose size the reader knows, as
// TuneD's dirty_bytes takes: "40%" is written to vm.dirty_ratio.
type Amount struct {
	Size    Size // bytes, when Percent is false
	Share   int  // 0..100, when Percent is true
	Percent bool
}

// ParseAmount reads a size (see ParseSize) or a whole percentage from 0% to
// 100%.
func ParseAmount(s string) (Amount, error) {
	number, suffix := splitUnit(s)
	if suffix != "%" {
		size, err := ParseSize(s)
		return Amount{Size: size}, err
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("percentage %q: %s", s, whyNotNumber(number))
	}
	if n > 100 {
		return Amount{}, fmt.Errorf("percentage %q: more than 100%%", s)
	}
	return Amount{Share: int(n), Percent: true}, nil
}

// String prints the amount exactly; ParseAmount reads it back.
func (a Amount) String() string {
	if a.Percent {
		return strconv.Itoa(a.Share) + "%"
	}
	return a.Size.String()
}

// ParseReadAhead reads TuneD's read-ahead: a number of KiB ("4096", the unit of
// /sys/block/*/queue/read_ahead_kb), or of sectors of 512 bytes ("4096 s" or
// "4096 sectors"), in which case an odd number is rounded down to whole KiB.
func ParseReadAhead(s string) (Size, error) {
	number, suffix := splitUnit(s)
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read-ahead %q: %s", s, whyNotNumber(number))
	}
	switch strings.ToLower(suffix) {
	case "", "k", "kb", "kib":
	case "s", "sector", "sectors":
		n /= uint64(KiB / SectorSize)
	default:
		return 0, fmt.Errorf("read-ahead %q: unknown unit %q (none is KiB, s is sectors)", s, suffix)
	}
	// read_ahead_kb is an unsigned long of KiB that the kernel shifts to bytes.
	if n > 1<<53 {
		return 0, fmt.Errorf("read-ahead %q: too large", s)
	}
	return Size(n) * KiB, nil
}
