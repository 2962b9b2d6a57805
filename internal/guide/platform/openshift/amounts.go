package openshift

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// duration parses a Prometheus duration (15d, 24h, 1h30m) and returns seconds.
func duration(text string) (float64, error) {
	bad := fmt.Errorf("%q is not a time such as 15d", text)
	units := map[string]float64{"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3}
	rest, sum := text, 0.0
	if text == "0" {
		return 0, nil
	}
	for rest != "" {
		i := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if i < 1 {
			return 0, bad
		}
		j := strings.IndexFunc(rest[i:], func(r rune) bool { return r < 'a' || r > 'z' })
		if j < 0 {
			j = len(rest) - i
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		factor := units[rest[i:i+j]]
		if err != nil || factor == 0 || n > 1e9 {
			return 0, bad
		}
		sum += n * factor
		rest = rest[i+j:]
	}
	if text == "" {
		return 0, bad
	}
	return sum, nil
}

// quantity parses a Kubernetes quantity: 100Gi, 500m, 16163880Ki, 1e3.
func quantity(text string) (float64, error) {
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

// goDuration parses a duration in Kubernetes objects (300s, 5m0s, 1.5h, 0) and returns seconds.
func goDuration(text string) (float64, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time such as 300s or 5m", text)
	}
	return d.Seconds(), nil
}
