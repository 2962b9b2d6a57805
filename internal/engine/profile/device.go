package profile

import (
	"maps"
	"slices"
	"strings"
)

// DeviceMatcher says which devices a unit's devices= names: a list of Fnmatch
// patterns separated by white space or commas, in which "!x" takes devices
// away. With no pattern but negative ones, all devices are meant.
type DeviceMatcher struct {
	positive, negative []string
}

// NewDeviceMatcher parses the expanded value of devices=.
func NewDeviceMatcher(devices string) DeviceMatcher {
	var m DeviceMatcher
	for _, rule := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' || isSpace(r) }) {
		if negated, ok := strings.CutPrefix(rule, "!"); ok {
			m.negative = append(m.negative, negated)
		} else {
			m.positive = append(m.positive, rule)
		}
	}
	if len(m.positive) == 0 {
		m.positive = []string{"*"}
	}
	return m
}

// Rest is true for a list that only leaves devices out: it is for whatever else
// there is, if anything.
func (m DeviceMatcher) Rest() bool {
	return len(m.negative) > 0 && slices.Equal(m.positive, []string{"*"})
}

// Match reports whether a device name is meant.
func (m DeviceMatcher) Match(device string) bool {
	return matchAny(m.positive, device) && !matchAny(m.negative, device)
}

// Filter returns the devices that are meant, in the order given.
func (m DeviceMatcher) Filter(devices []string) []string {
	var out []string
	for _, d := range devices {
		if m.Match(d) {
			out = append(out, d)
		}
	}
	return out
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if Fnmatch(p, name) {
			return true
		}
	}
	return false
}

// MatchUdev reports whether devices_udev_regex finds something in a device's
// udev properties, which it sees as KEY=value lines sorted by key.
func MatchUdev(pattern string, properties map[string]string) (bool, error) {
	re, err := CompileRegexp(pattern, Multiline)
	if err != nil {
		return false, err
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		text.WriteString(k + "=" + properties[k] + "\n")
	}
	return re.MatchString(text.String()), nil
}
