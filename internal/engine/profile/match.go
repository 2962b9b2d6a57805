package profile

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// DeviceMatcher matches devices with a unit's devices=. The list has Fnmatch patterns separated by
// white space or commas; "!x" excludes devices. If no pattern is positive, all devices not
// excluded match.
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

// Rest reports whether the list only excludes devices, so that all others match.
func (m DeviceMatcher) Rest() bool {
	return len(m.negative) > 0 && slices.Equal(m.positive, []string{"*"})
}

// Match reports whether a device name matches.
func (m DeviceMatcher) Match(device string) bool {
	match := func(pattern string) bool { return Fnmatch(pattern, device) }
	return slices.ContainsFunc(m.positive, match) && !slices.ContainsFunc(m.negative, match)
}

// Patterns returns the patterns of the selected names and of the names that are not selected.
func (m DeviceMatcher) Patterns() (selected, not []string) { return m.positive, m.negative }

// Filter returns the matching devices in the given order.
func (m DeviceMatcher) Filter(devices []string) []string {
	var out []string
	for _, d := range devices {
		if m.Match(d) {
			out = append(out, d)
		}
	}
	return out
}

// MatchUdev reports whether a devices_udev_regex matches a device's udev properties. They are
// matched as KEY=value lines sorted by key.
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

// Fnmatch reports whether name matches a shell pattern, as Python's fnmatch.fnmatchcase does: *,
// ?, [seq] and [!seq]. * also matches a slash and a leading dot. An unpaired bracket is literal.
// There is no escape character.
func Fnmatch(pattern, name string) bool {
	// Backtracking to the last star suffices, so this takes at most len(pattern)*len(name) steps.
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, n
			p++
			continue
		}
		if p < len(pattern) {
			r, size := utf8.DecodeRuneInString(name[n:])
			if ok, next := matchOne(pattern, p, r); ok {
				p, n = next, n+size
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, size := utf8.DecodeRuneInString(name[retry:])
		retry += size
		p, n = star+1, retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one character with the pattern's element at p, which is not a star. It also
// returns the position of the next element.
func matchOne(pattern string, p int, r rune) (bool, int) {
	switch pattern[p] {
	case '?':
		return true, p + 1
	case '[':
		if end := classEnd(pattern, p); end > 0 {
			return matchClass(pattern[p+1:end], r), end + 1
		}
	}
	c, size := utf8.DecodeRuneInString(pattern[p:])
	return c == r, p + size
}

// classEnd returns the position of the bracket that closes the class opened at p, or 0. A
// closing bracket in first position, also after "!", is a member.
func classEnd(pattern string, p int) int {
	i := p + 1
	if i < len(pattern) && pattern[i] == '!' {
		i++
	}
	if i < len(pattern) && pattern[i] == ']' {
		i++
	}
	for ; i < len(pattern); i++ {
		if pattern[i] == ']' {
			return i
		}
	}
	return 0
}

func matchClass(class string, r rune) bool {
	negated := class[0] == '!'
	if negated {
		class = class[1:]
	}
	members := []rune(class)
	found := false
	for i := 0; i < len(members); i++ {
		if i+2 < len(members) && members[i+1] == '-' {
			found = found || members[i] <= r && r <= members[i+2]
			i += 2
			continue
		}
		found = found || members[i] == r
	}
	return found != negated
}
