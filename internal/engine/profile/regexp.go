package profile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// RegexpFlags are the flags of Python's re that TuneD uses.
type RegexpFlags uint8

const (
	// Multiline makes ^ and $ match at line ends (re.MULTILINE).
	Multiline RegexpFlags = 1 << iota
	// DotAll makes . match a newline (re.S).
	DotAll
	// IgnoreCase is re.IGNORECASE.
	IgnoreCase
	// AnchorStart matches only at the start of the text, as re.match does.
	AnchorStart
)

// maxRegexp is the maximum size of a pattern, in bytes.
const maxRegexp = 64 << 10

// CompileRegexp translates a regular expression from Python's syntax to Go's, for testing whether
// it matches. It returns an error for features that Go lacks: look-around, back-references,
// conditional groups, atomic groups, possessive repeats, verbose mode. One difference remains: \b
// and \B use only ASCII words.
func CompileRegexp(pattern string, flags RegexpFlags) (*regexp.Regexp, error) {
	if len(pattern) > maxRegexp {
		return nil, fmt.Errorf("regular expression larger than %d KiB", maxRegexp>>10)
	}
	t := &regexpTranslator{in: pattern, multiline: flags&Multiline != 0}
	if err := t.run(); err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", clip(pattern), err)
	}
	prefix := ""
	for _, f := range []struct {
		flag RegexpFlags
		text string
	}{{Multiline, "m"}, {DotAll, "s"}, {IgnoreCase, "i"}} {
		if flags&f.flag != 0 {
			prefix += f.text
		}
	}
	if prefix != "" {
		prefix = "(?" + prefix + ")"
	}
	text := prefix + t.out.String()
	if flags&AnchorStart != 0 {
		text = prefix + `\A(?:` + t.out.String() + ")"
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %s", clip(pattern), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

// regexpTranslator copies a pattern and rewrites what differs between the dialects (Python library
// reference, re; Go regexp/syntax).
type regexpTranslator struct {
	in        string
	at        int
	out       strings.Builder
	multiline bool
	flagsEnd  int // end of the flags at the start of the pattern
}

func (t *regexpTranslator) run() error {
	for t.at < len(t.in) {
		var err error
		switch c := t.in[t.at]; c {
		case '\\':
			err = t.escape(false)
		case '[':
			err = t.class()
		case '(':
			err = t.group()
		case '{':
			t.repeat()
		case '$':
			t.at++
			if t.multiline {
				t.out.WriteByte('$')
			} else {
				// $ also matches before a newline at the end of the text.
				t.out.WriteString(`(?:\n?\z)`)
			}
		case '*', '+', '?':
			err = t.quantifier(c)
		default:
			t.copyRune()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *regexpTranslator) copyRune() {
	_, size := utf8.DecodeRuneInString(t.in[t.at:])
	t.out.WriteString(t.in[t.at : t.at+size])
	t.at += size
}

var errPossessive = errors.New("possessive repeats (*+, ++, ?+) are not supported")

func (t *regexpTranslator) quantifier(c byte) error {
	t.out.WriteByte(c)
	t.at++
	return t.afterRepeat()
}

func (t *regexpTranslator) afterRepeat() error {
	if t.at < len(t.in) && t.in[t.at] == '+' {
		return errPossessive
	}
	if t.at < len(t.in) && t.in[t.at] == '?' {
		t.out.WriteByte('?')
		t.at++
	}
	return nil
}

// repeat rewrites {,n} as {0,n}, because Go's regexp matches {,n} literally. Other braces are
// copied.
func (t *regexpTranslator) repeat() {
	if rest := t.in[t.at+1:]; strings.HasPrefix(rest, ",") {
		digits := rest[1:]
		if end := strings.IndexByte(digits, '}'); end > 0 && isDigits(digits[:end]) {
			t.out.WriteString("{0")
			t.at++
			return
		}
	}
	t.out.WriteByte('{')
	t.at++
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func (t *regexpTranslator) group() error {
	rest := t.in[t.at:]
	unsupported := func(what string) error { return fmt.Errorf("%s is not supported", what) }
	switch {
	case strings.HasPrefix(rest, "(?#"):
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return errors.New("missing ), unterminated comment")
		}
		t.at += end + 1
		return nil
	case strings.HasPrefix(rest, "(?="), strings.HasPrefix(rest, "(?!"):
		return unsupported("look-ahead " + rest[:3])
	case strings.HasPrefix(rest, "(?<="), strings.HasPrefix(rest, "(?<!"):
		return unsupported("look-behind " + rest[:4])
	case strings.HasPrefix(rest, "(?P="):
		return unsupported("a back-reference (?P=name)")
	case strings.HasPrefix(rest, "(?("):
		return unsupported("a conditional group (?(")
	case strings.HasPrefix(rest, "(?>"):
		return unsupported("an atomic group (?>")
	case strings.HasPrefix(rest, "(?<"):
		return errors.New("unknown extension (?<; a named group is (?P<name>...)")
	case strings.HasPrefix(rest, "(?P<"), strings.HasPrefix(rest, "(?:"):
	case strings.HasPrefix(rest, "(?"):
		return t.flagGroup(rest)
	}
	t.out.WriteByte('(')
	t.at++
	if strings.HasPrefix(rest, "(?") {
		t.out.WriteByte('?')
		t.at++
	}
	return nil
}

// flagGroup handles (?i), (?i:...) and (?-i:...).
func (t *regexpTranslator) flagGroup(rest string) error {
	end := strings.IndexAny(rest, ":)")
	if end < 0 {
		return errors.New("unterminated (?")
	}
	var flags []byte
	for _, c := range []byte(rest[2:end]) {
		switch c {
		case 'i', 's', '-':
			flags = append(flags, c)
		case 'm':
			// The translation of "$" depends on m for the whole pattern.
			return errors.New("the flag m inside a pattern is not supported")
		case 'u': // the default of str patterns
		default:
			return fmt.Errorf("the flag %q inside a pattern is not supported", c)
		}
	}
	if rest[end] == ')' {
		if t.at != t.flagsEnd {
			return errors.New("global flags not at the start of the expression")
		}
		t.flagsEnd = t.at + end + 1
	}
	if len(flags) > 0 {
		t.out.WriteString("(?" + string(flags) + rest[end:end+1])
	} else if rest[end] == ':' {
		t.out.WriteString("(?:")
	}
	t.at += end + 1
	return nil
}

// class copies [...]. A "[" inside is literal in Python.
func (t *regexpTranslator) class() error {
	for _, anything := range []string{`[\s\S]`, `[\S\s]`, `[\w\W]`, `[\W\w]`, `[\d\D]`, `[\D\d]`} {
		if strings.HasPrefix(t.in[t.at:], anything) {
			t.out.WriteString(`(?s:.)`)
			t.at += len(anything)
			return nil
		}
	}
	t.out.WriteByte('[')
	t.at++
	if t.at < len(t.in) && t.in[t.at] == '^' {
		t.out.WriteByte('^')
		t.at++
	}
	for first := true; ; first = false {
		if t.at >= len(t.in) {
			return errors.New("unterminated character set")
		}
		switch c := t.in[t.at]; {
		case c == ']' && !first:
			t.out.WriteByte(']')
			t.at++
			return nil
		case c == ']', c == '[':
			t.out.WriteString(`\` + string(c))
			t.at++
		case c == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			t.copyRune()
		}
	}
}

// Python's character classes for str, as the content of a Go class.
const (
	wordClass  = `\p{L}\p{N}_`
	digitClass = `\p{Nd}`
	spaceClass = `\s\v\x1c-\x1f\x85\p{Z}`
)

// escape translates an escape sequence.
func (t *regexpTranslator) escape(inClass bool) error {
	if t.at+1 == len(t.in) {
		return errors.New("bad escape at the end of the pattern")
	}
	c, size := utf8.DecodeRuneInString(t.in[t.at+1:])
	t.at += 1 + size
	set := func(class string, negated bool) error {
		switch {
		case inClass && negated:
			return fmt.Errorf(`\%c inside a character set is not supported`, c)
		case inClass:
			t.out.WriteString(class)
		case negated:
			t.out.WriteString("[^" + class + "]")
		default:
			t.out.WriteString("[" + class + "]")
		}
		return nil
	}
	switch {
	case c == 'w' || c == 'W':
		return set(wordClass, c == 'W')
	case c == 'd' || c == 'D':
		return set(digitClass, c == 'D')
	case c == 's' || c == 'S':
		return set(spaceClass, c == 'S')
	case c == 'b' && inClass:
		t.out.WriteString(`\x08`)
	case (c == 'b' || c == 'B' || c == 'A') && !inClass:
		t.out.WriteString(`\` + string(c))
	case c == 'Z' && !inClass:
		t.out.WriteString(`\z`)
	case strings.ContainsRune("afnrtv", c):
		t.out.WriteString(`\` + string(c))
	case c == 'x':
		return t.hex(2)
	case c == 'u':
		return t.hex(4)
	case c == 'U':
		return t.hex(8)
	case '0' <= c && c <= '9':
		return t.octal(inClass)
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		return fmt.Errorf(`bad escape \%c`, c)
	case c < utf8.RuneSelf:
		t.out.WriteString(`\` + string(c)) // escaped punctuation is literal in Go too
	default:
		t.out.WriteRune(c)
	}
	return nil
}

func (t *regexpTranslator) hex(digits int) error {
	if t.at+digits > len(t.in) {
		return errors.New("incomplete escape")
	}
	n, err := strconv.ParseUint(t.in[t.at:t.at+digits], 16, 32)
	if err != nil || n > utf8.MaxRune {
		return errors.New("incomplete escape")
	}
	t.at += digits
	fmt.Fprintf(&t.out, `\x{%x}`, n)
	return nil
}

// octal translates \0, \0oo and \ooo; any other number is a back-reference.
func (t *regexpTranslator) octal(inClass bool) error {
	start := t.at - 1
	end := start + 1
	for end < len(t.in) && end < start+3 && '0' <= t.in[end] && t.in[end] <= '7' {
		end++
	}
	digits := t.in[start:end]
	if digits[0] != '0' && !(len(digits) == 3 && digits[0] <= '3') && !inClass {
		return fmt.Errorf(`a back-reference \%c is not supported`, digits[0])
	}
	n, err := strconv.ParseUint(digits, 8, 9)
	if err != nil || n > 0o377 {
		return fmt.Errorf(`bad escape \%s`, digits)
	}
	t.at = end
	fmt.Fprintf(&t.out, `\x{%x}`, n)
	return nil
}
