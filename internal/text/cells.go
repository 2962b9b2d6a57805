package text

import (
	"fmt"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/unit"
)

// Decimal formats a number with all digits, or returns "" for nil.
func Decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return unit.Exact(*v)
}

// CSVCell returns a text that a spreadsheet does not evaluate as a formula.
func CSVCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}

// SecondsOrDash formats a time with its unit, or returns "-" for nil.
func SecondsOrDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return unit.FormatSeconds(*v)
}

// SignedSeconds formats a time difference with its sign.
func SignedSeconds(s float64) string {
	if s < 0 {
		return "-" + unit.FormatSeconds(-s)
	}
	return "+" + unit.FormatSeconds(s)
}

// EscapeControls writes control characters as \xhh. They occur in requests of clients that
// speak TLS to a plain-text port.
func EscapeControls(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
