package text

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/unit"
)

// Sprintf is fmt.Sprintf with Numbers.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, Numbers(args)...) }

// Numbers returns arguments for fmt.Sprintf and fmt.Errorf: %d, %v and %.0f without a width write
// their whole numbers with commas.
func Numbers(args []any) []any {
	read := make([]any, len(args))
	for i, a := range args {
		switch n := a.(type) {
		case int:
			a = number{a, float64(n)}
		case int64:
			a = number{a, float64(n)}
		case uint64:
			a = number{a, float64(n)}
		case float64:
			a = number{a, n}
		}
		read[i] = a
	}
	return read
}

// number is a number as an argument of Numbers, and its value.
type number struct {
	arg any
	n   float64
}

// Format implements fmt.Formatter.
func (v number) Format(s fmt.State, verb rune) {
	_, width := s.Width()
	decimals, fixed := s.Precision()
	if !width && (verb == 'd' || verb == 'v' && v.n == math.Trunc(v.n) || verb == 'f' && fixed && decimals == 0) && math.Abs(v.n) < 1<<53 {
		fmt.Fprint(s, unit.Decimals(v.n, 0))
		return
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), v.arg)
}

// Errorf is fmt.Errorf with Numbers.
func Errorf(format string, args ...any) error { return fmt.Errorf(format, Numbers(args)...) }
