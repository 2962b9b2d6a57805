package profile

import (
	"context"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"fettle.dev/fettle/internal/text"
)

// Profiles depend on Python's definitions of white space, words and numbers. These differ from
// Go's in a few characters.

// isSpace is Python's str.isspace for one character (documentation of str.isspace:
// bidirectional type WS, B or S, or category Zs).
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func strip(s string) string      { return strings.TrimFunc(s, isSpace) }
func stripRight(s string) string { return strings.TrimRightFunc(s, isSpace) }

// isWordRune is \w of Python's re for str patterns.
func isWordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

// isWord is re.match(r'\w+$', s), but does not allow a newline at the end.
func isWord(s string) bool {
	for _, r := range s {
		if !isWordRune(r) {
			return false
		}
	}
	return s != ""
}

// parseInt is Python's int(s, 10). It allows surrounding white space (except the ASCII separators
// that strip removes), a sign, and single underscores between digits, and has no upper limit.
// Unlike int() it accepts only ASCII digits.
func parseInt(s string) (*big.Int, bool) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || len(digits) > 4300 {
		return nil, false
	}
	for i := 0; i < len(digits); i++ {
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
		case c == '_' && i > 0 && i < len(digits)-1 && digits[i-1] != '_':
		default:
			return nil, false
		}
	}
	return new(big.Int).SetString(strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", ""), 10)
}

// splitList splits at each comma or semicolon and removes surrounding white space. With afterWord,
// a separator counts only after a word character and optional white space, as TuneD parses drop=
// (unit.py: \b\s*[,;]\s*).
func splitList(s string, afterWord bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		if s[i] != ',' && s[i] != ';' {
			continue
		}
		item := stripRight(s[start:i])
		if afterWord {
			// An empty item follows another separator, which is not a word character.
			last, _ := utf8.DecodeLastRuneInString(item)
			if item == "" || !isWordRune(last) {
				continue
			}
		}
		out = append(out, item)
		rest := strings.TrimLeftFunc(s[i+1:], isSpace)
		start = len(s) - len(rest)
		i = start - 1
	}
	return append(out, s[start:])
}

// kb2s:N converts KiB to sectors of 512 bytes.
func kb2s(_ context.Context, env *Env, args []string) (string, bool, error) {
	n, ok := parseInt(args[0])
	if !ok {
		env.Warn("kb2s: %q is not a whole number", args[0])
		return "", false, nil
	}
	return n.Lsh(n, 1).String(), true, nil
}

// s2kb:N converts sectors of 512 bytes to KiB. Like TuneD it rounds half to even for odd numbers,
// and loses digits beyond 2^53 (float64).
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
	// Int truncates towards zero. Halves are exact: rest is -0.5, 0 or 0.5.
	if rest != 0 && floor.Bit(0) == 1 {
		if rest < 0 {
			return floor.Sub(floor, big.NewInt(1))
		}
		return floor.Add(floor, big.NewInt(1))
	}
	return floor
}

var hexInt = text.LazyRegexp(`^[+-]?(0[xX]_?)?[0-9a-fA-F](_?[0-9a-fA-F])*$`)

// parseHexInt is Python's int(s, 16), which allows a leading "0x".
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
