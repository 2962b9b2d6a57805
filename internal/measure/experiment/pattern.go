package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// compile compiles a REGEXP of the command line. ^ and $ match at line ends. Errors include the
// position in the pattern.
func compile(pattern string) (*regexp.Regexp, error) {
	_, err := regexp.Compile(pattern)
	bad := (*syntax.Error)(nil)
	if !errors.As(err, &bad) {
		if err != nil {
			return nil, err
		}
		return regexp.Compile("(?m)" + pattern)
	}
	part, at := bad.Expr, strings.LastIndex(pattern, bad.Expr)
	if bad.Code == syntax.ErrMissingParen {
		part, at = "(", unclosed(pattern)
	}
	if at < 0 || part == "" {
		return nil, fmt.Errorf("%s: %s", pattern, bad.Code)
	}
	return nil, fmt.Errorf("%s: %s: %q at character %d", pattern, bad.Code, part, utf8.RuneCountInString(pattern[:at])+1)
}

// unclosed returns the index of the last unclosed parenthesis, or -1.
func unclosed(pattern string) int {
	var open []int
	class := -1 // index of the open [
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class >= 0:
			// an initial ] belongs to the class
			if c == ']' && strings.TrimPrefix(pattern[class+1:i], "^") != "" {
				class = -1
			}
		case c == '[':
			class = i
		case c == '(':
			open = append(open, i)
		case c == ')' && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}
