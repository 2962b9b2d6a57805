package mqtt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	internaltext "fettle.dev/fettle/internal/text"
)

// Limits of the settings.
const (
	maxTime  = 24 * time.Hour
	maxLimit = 1_000_000
)

// Parse parses settings such as ttl=5s,resend=15m,limit=200, with the proxy's defaults.
func Parse(text string) (Settings, error) {
	s, seen := Defaults, map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		if !ok {
			return s, fmt.Errorf("%q: want settings of the proxy such as ttl=5s,resend=15m,limit=200", text)
		}
		if seen[name] {
			return s, fmt.Errorf("%q: %s is given twice", text, name)
		}
		seen[name] = true
		var err error
		switch name {
		case "ttl":
			s.TTL, err = seconds(value)
		case "resend":
			s.Resend, err = seconds(value)
		case "limit":
			if value == "none" {
				s.Limit = 0
				break
			}
			if s.Limit, err = strconv.Atoi(value); err != nil || s.Limit < 1 || s.Limit > maxLimit {
				err = internaltext.Errorf("want a number from 1 to %d, or none", maxLimit)
			}
		default:
			err = errors.New("want ttl, resend or limit")
		}
		if err != nil {
			return s, fmt.Errorf("%q: %s: %w", text, word, err)
		}
	}
	return s, nil
}

// seconds parses a time in whole seconds, the unit of the proxy. A bare number is in seconds.
func seconds(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, plain := strconv.Atoi(text); plain == nil {
		d, err = time.Duration(n)*time.Second, nil
		if n > int(maxTime/time.Second) {
			d = maxTime + 1
		}
	}
	if err != nil || d < time.Second || d > maxTime || d%time.Second != 0 {
		return 0, fmt.Errorf("want whole seconds from 1s to %s", short(maxTime))
	}
	return d, nil
}
