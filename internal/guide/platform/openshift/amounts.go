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

// goDuration parses a duration in Kubernetes objects (300s, 5m0s, 1.5h, 0) and returns seconds.
func goDuration(text string) (float64, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time such as 300s or 5m", text)
	}
	return d.Seconds(), nil
}
