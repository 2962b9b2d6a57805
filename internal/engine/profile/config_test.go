package profile

import (
	"fmt"
	"strings"
	"testing"
)

// dump prints a parsed file as section and quoted values, in order.
func dump(f *configFile) string {
	var b strings.Builder
	for _, s := range f.sections {
		fmt.Fprintf(&b, "[%s]%d", strings.ReplaceAll(s.name, "\n", ""), s.pos.Line)
		for _, e := range f.options(s) {
			if e.valueless {
				fmt.Fprintf(&b, " %s@%d", e.key, e.pos.Line)
				continue
			}
			fmt.Fprintf(&b, " %s=%q@%d", e.key, e.value, e.pos.Line)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestParseConfig(t *testing.T) {
	variables := parseSyntax{headerless: true, noValue: true}
	for _, c := range []struct {
		name, in string
		syntax   parseSyntax
		want     string
	}{
		{"keys are case-sensitive", "[a]\nX=1\nx=2", parseSyntax{}, `[a]1 X="1"@2 x="2"@3`},
		{"only = delimits", "[a]\nk : v = w: x", parseSyntax{}, `[a]1 k : v="w: x"@2`},
		{"first = delimits", "[a]\nk=a=b", parseSyntax{}, `[a]1 k="a=b"@2`},
		{"values are stripped, quotes kept", "[a]\nk =  \" v \"  ", parseSyntax{}, `[a]1 k="\" v \""@2`},
		{"empty value", "[a]\nk=", parseSyntax{}, `[a]1 k=""@2`},
		{"whole-line comments", "# c\n; c\n[a]\n  # c\n  ; c\nk=1", parseSyntax{}, `[a]3 k="1"@6`},
		{"inline # after white space", "[a]\nk=v # c\nl=v# no\nm= # c", parseSyntax{}, `[a]1 k="v"@2 l="v# no"@3 m=""@4`},
		{"inline ; is text", "[a]\nk=v ; c", parseSyntax{}, `[a]1 k="v ; c"@2`},
		{"comment after a header", "[a] # c\nk=1", parseSyntax{}, `[a]1 k="1"@2`},
		{"indented lines go on", "[a]\nk=1\n  2\n\t3", parseSyntax{}, `[a]1 k="1\n2\n3"@2`},
		{"an indented header goes on", "[a]\nk=1\n [b]", parseSyntax{}, `[a]1 k="1\n[b]"@2`},
		{"empty lines inside a value stay", "[a]\nk=1\n\n  2\n\n\n", parseSyntax{}, `[a]1 k="1\n\n2"@2`},
		{"a comment inside a value is not an empty line", "[a]\nk=1\n # c\n  2", parseSyntax{}, `[a]1 k="1\n2"@2`},
		{"deeper than the key, not than zero", "[a]\n  k=1\n  l=2\n   3", parseSyntax{}, `[a]1 k="1"@2 l="2\n3"@3`},
		{"last of a repeated key wins, in place", "[a]\nk=1\nl=2\nk=3", parseSyntax{}, `[a]1 k="3"@4 l="2"@3`},
		{"repeated sections merge", "[a]\nk=1\n[b]\n[a]\nl=2", parseSyntax{}, "[a]1 k=\"1\"@2 l=\"2\"@5\n[b]3"},
		{"DEFAULT leaks, own values first", "[DEFAULT]\nx=1\ny=2\n[a]\ny=3\n[b]", parseSyntax{}, "[a]4 y=\"3\"@5 x=\"1\"@2\n[b]6 x=\"1\"@2 y=\"2\"@3"},
		{"DEFAULT may come last", "[a]\n[DEFAULT]\nx=1", parseSyntax{}, `[a]1 x="1"@3`},
		{"no interpolation", "[a]\nk=%(x)s %", parseSyntax{}, `[a]1 k="%(x)s %"@2`},
		{"the name reaches to the last bracket", "[a]b] c\nk=1", parseSyntax{}, `[a]b]1 k="1"@2`},
		{"carriage returns", "[a]\r\nk=1\r\nl=2\r", parseSyntax{}, `[a]1 k="1"@2 l="2"@3`},
		{"non-breaking space is white space", "[a]\nk=1\u00a0#c", parseSyntax{}, `[a]1 k="1"@2`},
		{"headerless", "k=1\n[a]\nl=2", parseSyntax{headerless: true}, "[]1 k=\"1\"@1\n[a]2 l=\"2\"@3"},
		{"variables file", "k\nl=2\nm = ", variables, `[]1 k@1 l="2"@2 m=""@3`},
		{"empty", "", parseSyntax{}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseConfig("f", []byte(c.in), c.syntax)
			if err != nil {
				t.Fatal(err)
			}
			if got := dump(f); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestParseConfigErrors(t *testing.T) {
	for _, c := range []struct {
		name, in string
		syntax   parseSyntax
		want     string
	}{
		{"no section", "\nk=1", parseSyntax{}, `/p/tuned.conf:2: expected a [section] before "k=1"`},
		{"no =", "[a]\nword", parseSyntax{}, `/p/tuned.conf:2: expected name=value or [section], found "word"`},
		{"no name", "[a]\n=1", parseSyntax{}, `/p/tuned.conf:2: no name before "="`},
		{"no name in a variables file", "=1", parseSyntax{true, true}, `/p/tuned.conf:1: no name before "="`},
		{"empty header", "[a]\n[]", parseSyntax{}, `/p/tuned.conf:2: expected name=value or [section], found "[]"`},
		{"all of them", "[a]\nx\nk=1\ny", parseSyntax{}, "/p/tuned.conf:2: expected name=value or [section], found \"x\"\n/p/tuned.conf:4: expected name=value or [section], found \"y\""},
		{"a name without value goes on", "k\n  v", parseSyntax{true, true}, `/p/tuned.conf:2: this line continues the value of "k", but line 1 has no "="`},
		{"too large", strings.Repeat("#", maxConfigSize+1), parseSyntax{}, `/p/tuned.conf: file larger than 1024 KiB`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseConfig("/p/tuned.conf", []byte(c.in), c.syntax)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// FuzzParseConfig checks that no input panics, and that a parsed file, written again in its
// simplest form, parses to the same.
func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"[a]\nk=v # c\n  more\n\n  last", "[DEFAULT]\nx=1\n[main]\ninclude=a,-b", "k\nl=${f:strip:x}", "[a]b]\n;c\n#d\r\nk=1\x1c"} {
		f.Add(s, false, false)
		f.Add(s, true, true)
	}
	f.Fuzz(func(t *testing.T, s string, headerless, noValue bool) {
		syntax := parseSyntax{headerless, noValue}
		parsed, err := parseConfig("f", []byte(s), syntax)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, sec := range parsed.sections {
			if sec.name != headerlessSection {
				b.WriteString("[" + sec.name + "]\n")
			}
			for _, e := range parsed.options(sec) {
				if e.pos.Line < 1 || e.pos.Line > 1+strings.Count(s, "\n")+strings.Count(s, "\r") {
					t.Fatalf("%q: %s is at line %d", s, e.key, e.pos.Line)
				}
				if e.valueless {
					b.WriteString(e.key + "\n")
				} else {
					b.WriteString(e.key + "=" + strings.ReplaceAll(e.value, "\n", "\n ") + "\n")
				}
			}
		}
		// A key that begins with a bracket, and text that begins like a comment,
		// have no plain form.
		if strings.Contains(b.String(), "\n[") && strings.Count(b.String(), "\n[") >= len(parsed.sections) || strings.ContainsAny(s, "#;\r") {
			return
		}
		again, err := parseConfig("f", []byte(b.String()), syntax)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", s, b.String(), err)
		}
		if got, want := keysOf(again), keysOf(parsed); got != want {
			t.Errorf("%q was written as %q\n got %s\nwant %s", s, b.String(), got, want)
		}
	})
}

func keysOf(f *configFile) string {
	var b strings.Builder
	for _, s := range f.sections {
		fmt.Fprintf(&b, "%q:", s.name)
		for _, e := range f.options(s) {
			fmt.Fprintf(&b, " %q=%q", e.key, e.value)
		}
	}
	return b.String()
}
