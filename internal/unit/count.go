package unit

import "strings"

// PlainCount returns the digits of a whole number: 12000 for 12k and 12,000. It returns other
// texts unchanged.
func PlainCount(s string) string {
	if digits, thousands := strings.CutSuffix(s, "k"); thousands && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return digits + "000"
	}
	groups := strings.Split(strings.TrimPrefix(s, "-"), ",")
	for i, g := range groups {
		if len(g) > 3 || len(g) < 3 && i > 0 || g == "" {
			return s
		}
	}
	return strings.ReplaceAll(s, ",", "")
}
