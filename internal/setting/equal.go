package setting

import (
	"strconv"
	"strings"
)

// equalFields compares word by word: white space is one separator, numbers are
// equal by value (0x10 and 16), CPU masks without regard to leading zeros and
// commas.
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

// number reads decimal and 0x; a leading zero is decimal, because the kernel
// prints fixed-width decimals but no sysctl prints octal.
func number(s string) (int64, bool) {
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 63)
		return int64(n), err == nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// mask reads a bitmap as the kernel prints one (lib/bitmap "%*pb"): groups of
// eight hexadecimal digits between commas. A word without a comma or a full
// group is no mask: "12" is a number, "full" is a word.
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

// equalBool knows the kernel's two spellings of a boolean module parameter.
func equalBool(a, b string) bool {
	truth := func(s string) (bool, bool) {
		switch s {
		case "Y", "y", "1":
			return true, true
		case "N", "n", "0":
			return false, true
		}
		return false, false
	}
	x, okx := truth(strings.TrimSpace(a))
	y, oky := truth(strings.TrimSpace(b))
	return okx && oky && x == y
}
