package sizing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity parses a Kubernetes quantity: "500m", "0.5", "4", "500M" (10^6), "500Mi" (2^20). It
// also accepts "500MB" and "1 GB" (10^9), as used for disks and in OpenShift's documents. The
// result is from 0 to 10^18.
func Quantity(s string) (float64, error) {
	text := strings.TrimSpace(s)
	i := 0
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] == '.') {
		i++
	}
	n, err := strconv.ParseFloat(text[:i], 64)
	if err != nil {
		return 0, fmt.Errorf("quantity %q: want a number such as 0.5, 500m, 500M or 2Gi", s)
	}
	factor, ok := quantityUnits[strings.TrimSuffix(strings.TrimSpace(text[i:]), "B")]
	if !ok {
		return 0, fmt.Errorf("quantity %q: unknown unit %q (want m, k, M, G, T, Ki, Mi, Gi, Ti)", s, strings.TrimSpace(text[i:]))
	}
	if n *= factor; n > 1e18 {
		return 0, fmt.Errorf("quantity %q is too large", s)
	}
	return n, nil
}

var quantityUnits = map[string]float64{
	"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// Gi returns a number of bytes as a quantity, rounded up to whole Gi.
func Gi(bytes float64) string { return fmt.Sprintf("%dGi", Ceil(bytes, 1<<30)) }

// GB returns a number of bytes in units of 10^9, rounded to three decimals.
func GB(bytes float64) float64 { return Round(bytes / 1e9) }

// GiB returns a number of bytes in GiB, rounded to three decimals.
func GiB(bytes float64) float64 { return Round(bytes / (1 << 30)) }

// Power returns 2^n.
func Power(n int) float64 { return math.Exp2(float64(n)) }
