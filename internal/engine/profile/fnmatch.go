package profile

import "unicode/utf8"

// Fnmatch reports whether name matches a shell pattern by the rules of
// Python's fnmatch.fnmatchcase: *, ?, [seq] and [!seq], where * also matches a
// slash and a leading dot, a bracket without its partner is literal, and there
// is no escape character.
func Fnmatch(pattern, name string) bool {
	// The last star is the only one worth going back to, so this is linear in
	// len(pattern)*len(name) at worst.
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

// matchOne matches one character against the element of the pattern at p, which
// is not a star, and returns where the next element begins.
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

// classEnd finds the bracket that closes the class opened at p; 0 if none does.
// A closing bracket in first place, also after "!", is a member.
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
