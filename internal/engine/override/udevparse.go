package override

import (
	"fmt"
	"strings"
)

// udevRule is one rule: its conditions, then what it does.
type udevRule struct {
	line    int
	text    string
	matches []udevToken
	sets    []udevToken // ATTR{} and SYSCTL{} only
	goTo    string
	label   string
}

// udevToken is KEY{attr} OP "value".
type udevToken struct{ key, attr, op, value string }

func (t udevToken) String() string {
	attr := ""
	if t.attr != "" {
		attr = "{" + t.attr + "}"
	}
	return fmt.Sprintf("%s%s%s%q", t.key, attr, t.op, t.value)
}

// parseUdev reads the rules of one file (udev(7)): a backslash at the end of a
// line joins the next one, comment lines may stand between.
func parseUdev(text string) ([]udevRule, []Problem) {
	var out []udevRule
	var problems []Problem
	noComment := func(l string, begun bool) (string, bool) {
		l = strings.Trim(l, spaces)
		return l, !strings.HasPrefix(l, "#") && (l != "" || begun)
	}
	for n, l := range joinedLines(text, noComment) {
		rule := udevRule{line: n, text: l}
		tokens, err := udevTokens(l)
		if err != "" {
			problems = append(problems, Problem{Line: n, What: err})
			continue
		}
		for _, t := range tokens {
			switch assign := t.op != "==" && t.op != "!="; {
			case !assign:
				rule.matches = append(rule.matches, t)
			case t.key == "GOTO":
				rule.goTo = t.value
			case t.key == "LABEL":
				rule.label = t.value
			case t.key == "IMPORT" || t.key == "PROGRAM":
				// With "=" these are conditions too.
				rule.matches = append(rule.matches, t)
			case (t.key == "ATTR" || t.key == "SYSCTL") && t.op != "-=":
				rule.sets = append(rule.sets, t)
			}
		}
		out = append(out, rule)
	}
	return out, problems
}

// udevTokens splits one rule; the second result says what is wrong with it.
func udevTokens(l string) ([]udevToken, string) {
	var out []udevToken
	for {
		l = strings.TrimLeft(l, spaces+",")
		if l == "" {
			return out, ""
		}
		var t udevToken
		i := strings.IndexAny(l, "{=!+-: \t")
		if i <= 0 {
			return nil, fmt.Sprintf("no udev rule at %q", clip(l))
		}
		t.key, l = l[:i], l[i:]
		if l[0] == '{' {
			end := strings.IndexByte(l, '}')
			if end < 0 {
				return nil, fmt.Sprintf("%s: { without }", clip(t.key))
			}
			t.attr, l = l[1:end], l[end+1:]
		}
		l = strings.TrimLeft(l, spaces)
		for _, op := range []string{"==", "!=", "+=", "-=", ":=", "="} {
			if strings.HasPrefix(l, op) {
				t.op = op
				break
			}
		}
		l = strings.TrimLeft(l[len(t.op):], spaces)
		escaped := strings.HasPrefix(l, `e"`)
		l = strings.TrimPrefix(strings.TrimPrefix(l, "e"), "i")
		if t.op == "" || !strings.HasPrefix(l, `"`) {
			return nil, fmt.Sprintf("%s: want an operator and a value in double quotes", clip(t.key))
		}
		end := closingQuote(l[1:], escaped)
		if end < 0 {
			return nil, fmt.Sprintf("%s: value without closing quote", clip(t.key))
		}
		t.value, l = l[1:1+end], l[end+2:]
		if escaped {
			if v, ok := cUnescape(t.value); ok {
				t.value = v
			}
		} else {
			t.value = strings.ReplaceAll(t.value, `\"`, `"`)
		}
		out = append(out, t)
	}
}

// closingQuote finds the quote that ends a value; \" does not.
func closingQuote(s string, escaped bool) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (escaped || s[i+1] == '"'):
			i++
		case s[i] == '"':
			return i
		}
	}
	return -1
}
