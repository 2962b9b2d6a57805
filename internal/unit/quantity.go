package unit

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseQuantity parses a Kubernetes quantity: 100Gi, 500m, 16163880Ki, 1e3. Units without i are
// powers of 1000.
func ParseQuantity(text string) (float64, error) {
	bad := fmt.Errorf("%q is not a quantity such as 100Gi", text)
	i := len(text)
	for i > 0 && (text[i-1] < '0' || text[i-1] > '9') && text[i-1] != '.' {
		i--
	}
	number := text[:i]
	factor := map[string]float64{
		"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
	}[text[i:]]
	if number == "" || strings.Trim(number, "0123456789.eE+-") != "" {
		return 0, bad
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || factor == 0 || n < 0 || n*factor > 1e20 {
		return 0, bad
	}
	return n * factor, nil
}
