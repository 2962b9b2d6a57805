package setting

import (
	"strconv"
	"strings"
)

// Comparison is the result of comparing a requested or written value with the value that the
// setting has now.
type Comparison int

// Results. Unclear means that the texts differ and the file's output format is unknown: the
// value may or may not be in force.
const (
	Different Comparison = iota
	Same
	Unclear
)

// Compare compares a requested value of a setting with the value read from it.
func (k Kinds) Compare(s Setting, want, read Value) Comparison {
	if want == read {
		return Same
	}
	kind, err := k.For(s)
	switch c, each := kind.(Comparer); {
	case err != nil || want.Absent != read.Absent || want.Unknown || read.Unknown:
		return Different
	case want.Absent:
		return Same
	case each:
		return c.Compare(s, want, read)
	case kind.Equal(want, read):
		return Same
	}
	return Different
}

// Equal reports whether a and b are the same value of a setting.
func (k Kinds) Equal(s Setting, a, b Value) bool { return k.Compare(s, a, b) == Same }

// Compare implements Comparer.
func (k sysctl) Compare(s Setting, want, read Value) Comparison {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Different
	}
	return compareFile(comparisonInput{k.host, p, want.Text, read.Text})
}

// Compare implements Comparer.
func (k sysfs) Compare(s Setting, want, read Value) Comparison {
	return compareFile(comparisonInput{k.host, s.Name, want.Text, read.Text})
}

// equalFields compares two texts word by word, separated by any white space. Numbers are equal
// by value (0x10 equals 16), and CPU masks regardless of leading zeros and commas.
func equalFields(a, b string) bool {
	if a == b {
		return true
	}
	fa, fb := strings.Fields(a), strings.Fields(b)
	if len(fa) != len(fb) {
		return false
	}
	for i := range fa {
		if !equalWord(fa[i], fb[i]) {
			return false
		}
	}
	return true
}

func equalWord(a, b string) bool {
	if a == b {
		return true
	}
	if na, ok := number(a); ok {
		if nb, ok := number(b); ok {
			return na == nb
		}
	}
	ma, oka := mask(a)
	mb, okb := mask(b)
	return oka && okb && ma == mb
}

// number parses a whole number like the kernel's strtol with base 0: 0x means hexadecimal, a
// leading 0 octal. Kernel files never print leading zeros.
func number(s string) (int64, bool) {
	if d := strings.TrimLeft(strings.ToLower(s), "+-"); strings.Contains(d, "_") || strings.HasPrefix(d, "0b") || strings.HasPrefix(d, "0o") {
		return 0, false // accepted by strconv, not by the kernel
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil { // values above int64, such as kernel.shmmax, wrap around
		var u uint64
		u, err = strconv.ParseUint(s, 0, 64)
		n = int64(u)
	}
	// Files in jiffies print -0 for a negative number of less than one unit.
	return n, err == nil && (n != 0 || s[0] != '-')
}

// mask parses a bitmap in the kernel's format (lib/bitmap "%*pb"): comma-separated groups of
// eight hexadecimal digits. A word without a comma or a full group is not a mask: "12" is a
// number, "full" a word.
func mask(s string) (string, bool) {
	s = strings.TrimPrefix(strings.ToLower(s), "0x")
	if s == "" {
		return "", false
	}
	for _, c := range s {
		if !strings.ContainsRune("0123456789abcdef,", c) {
			return "", false
		}
	}
	groups := strings.Split(s, ",")
	for i, g := range groups {
		if len(g) > 8 || g == "" || i > 0 && len(g) != 8 {
			return "", false // a list of numbers, not a bitmap
		}
	}
	return strings.TrimLeft(strings.Join(groups, ""), "0"), true
}
