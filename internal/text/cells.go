package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/unit"
)

// Decimal writes a number exactly; one that is not known is empty.
func Decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// CSVCell keeps a spreadsheet from reckoning with a text.
func CSVCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}

// SecondsOrDash is a time with its unit, or a dash where it is not known.
func SecondsOrDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return unit.FormatSeconds(*v)
}

// SignedSeconds writes a difference of times.
func SignedSeconds(s float64) string {
	if s < 0 {
		return "-" + unit.FormatSeconds(-s)
	}
	return "+" + unit.FormatSeconds(s)
}

// EscapeControls writes control characters as \xhh: clients that speak TLS to a port without it
// send them as requests.
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
