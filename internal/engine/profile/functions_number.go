package profile

import (
	"context"
	"math/big"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/text"
)

// kb2s:N turns KiB into sectors of 512 bytes.
func kb2s(_ context.Context, env *Env, args []string) (string, bool, error) {
	n, ok := parseInt(args[0])
	if !ok {
		env.Warn("kb2s: %q is not a whole number", args[0])
		return "", false, nil
	}
	return n.Lsh(n, 1).String(), true, nil
}

// s2kb:N turns sectors of 512 bytes into KiB. An odd number is rounded to the
// even neighbour, and numbers beyond 2^53 go through a float64 as they do in
// TuneD.
func s2kb(_ context.Context, env *Env, args []string) (string, bool, error) {
	n, ok := parseInt(args[0])
	if !ok {
		env.Warn("s2kb: %q is not a whole number", args[0])
		return "", false, nil
	}
	half, _ := new(big.Float).SetInt(n).Float64()
	half /= 2
	if half > 1e300 || half < -1e300 {
		env.Warn("s2kb: %q is too large", args[0])
		return "", false, nil
	}
	return roundHalfEven(half).String(), true, nil
}

func roundHalfEven(x float64) *big.Int {
	floor, _ := big.NewFloat(x).Int(nil)
	rest, _ := new(big.Float).Sub(big.NewFloat(x), new(big.Float).SetInt(floor)).Float64()
	// Int truncates towards zero, and halves are exact: rest is -0.5, 0 or 0.5.
	if rest != 0 && floor.Bit(0) == 1 {
		if rest < 0 {
			return floor.Sub(floor, big.NewInt(1))
		}
		return floor.Add(floor, big.NewInt(1))
	}
	return floor
}

var hexInt = text.LazyRegexp(`^[+-]?(0[xX]_?)?[0-9a-fA-F](_?[0-9a-fA-F])*$`)

// parseHexInt is Python's int(s, 16): "0x" in front is allowed.
func parseHexInt(s string) (*big.Int, bool) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	if !hexInt().MatchString(s) {
		return nil, false
	}
	sign := ""
	if s[0] == '+' || s[0] == '-' {
		sign, s = s[:1], s[1:]
	}
	if len(s) > 1 && (s[1] == 'x' || s[1] == 'X') {
		s = s[2:]
	}
	return new(big.Int).SetString(sign+strings.ReplaceAll(s, "_", ""), 16)
}

// decimalDigits is Python's str.isdecimal for ASCII.
func decimalDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
