package experiment

import (
	"regexp/syntax"
	"testing"
)

// TestCompile tests that an error in a pattern refers to the given text.
func TestCompile(t *testing.T) {
	for pattern, want := range map[string]string{
		`(`:                    `(: missing closing ): "(" at character 1`,
		`took ([0-9]+`:         `took ([0-9]+: missing closing ): "(" at character 6`,
		`a\(b[)](c(d)`:         `a\(b[)](c(d): missing closing ): "(" at character 8`,
		`größe ([z-a])`:        `größe ([z-a]): invalid character class range: "z-a" at character 9`,
		`*x`:                   "*x: " + string(syntax.ErrMissingRepeatArgument) + `: "*" at character 1`,
		`a)`:                   "a): unexpected ): \"a)\" at character 1",
		`x{2,1}`:               `x{2,1}: invalid repeat count: "{2,1}" at character 2`,
		`(?<=x)y`:              `(?<=x)y: invalid named capture: "(?<=x)y" at character 1`,
		"took \xff([0-9]+) us": "",
	} {
		re, err := compile(pattern)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken", pattern)
			}
			continue
		}
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", pattern, err, want)
		}
		if re != nil && err != nil {
			t.Errorf("%q: %v", pattern, re)
		}
	}
	re, err := compile(`^took ([0-9]+)$`)
	if err != nil || string(re.FindSubmatch([]byte("a\ntook 5\nb"))[1]) != "5" {
		t.Error(err)
	}
}
