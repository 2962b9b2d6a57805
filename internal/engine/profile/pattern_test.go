package profile

import (
	"strings"
	"testing"
)

func TestFnmatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"sd*", "sda", true}, {"sd*", "xsda", false}, {"*", "", true}, {"", "", true}, {"", "a", false},
		{"*", "a/b", true}, {"?", "/", true}, {"*", ".a", true},
		{"sd[a-c]", "sdb", true}, {"sd[a-c]", "sdd", false}, {"sd[!a-c]", "sdd", true}, {"sd[^a]", "sd^", true}, {"sd[^a]", "sdb", false},
		{"[]]", "]", true}, {"[!]]", "]", false}, {"[", "[", true}, {"[a", "[a", true}, {"[a-]", "-", true}, {"[z-a]", "m", false},
		{`\*`, `\x`, true}, {`\*`, `*`, false},
		{"*a*b", "xaxbxab", true}, {"é?", "éx", true}, {"?", "é", true},
		{strings.Repeat("a*", 30) + "b", strings.Repeat("a", 200), false},
	} {
		if got := Fnmatch(c.pattern, c.name); got != c.want {
			t.Errorf("Fnmatch(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestDeviceMatcher(t *testing.T) {
	devices := []string{"sda", "sdb", "nvme0n1", "dm-0"}
	for _, c := range []struct{ rules, want string }{
		{"*", "sda sdb nvme0n1 dm-0"},
		{"", "sda sdb nvme0n1 dm-0"},
		{"sda", "sda"},
		{"sd*, nvme*", "sda sdb nvme0n1"},
		{"sd* !sdb", "sda"},
		{"!sd*", "nvme0n1 dm-0"},
		{"!dm-*,!sda", "sdb nvme0n1"},
		{"sda,!sda", ""},
		{"sda\nsdb", "sda sdb"},
		{" , sda , ", "sda"},
		{"hd*", ""},
	} {
		if got := strings.Join(NewDeviceMatcher(c.rules).Filter(devices), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.rules, got, c.want)
		}
	}
}

func TestMatchUdev(t *testing.T) {
	properties := map[string]string{"ID_BUS": "ata", "DEVNAME": "/dev/sda"}
	for pattern, want := range map[string]bool{
		"ID_BUS=ata": true, "^ID_BUS=ata$": true, "^DEVNAME=/dev/sda\nID_BUS": true, "ID_BUS=scsi": false,
	} {
		got, err := MatchUdev(pattern, properties)
		if err != nil || got != want {
			t.Errorf("%q: %v %v", pattern, got, err)
		}
	}
	if _, err := MatchUdev("(", properties); err == nil {
		t.Error("a bad expression was accepted")
	}
}

func TestCompileRegexp(t *testing.T) {
	for _, c := range []struct {
		pattern string
		flags   RegexpFlags
		text    string
		want    bool
	}{
		{"b", 0, "abc", true},
		{"b", AnchorStart, "abc", false},
		{"a|b", AnchorStart, "xb", false},
		{"^b", 0, "a\nb", false}, {"^b", Multiline, "a\nb", true},
		{"a$", 0, "a\n", true}, {"a$", 0, "a\n\n", false}, {"a$", 0, "a\nb", false}, {"a$", Multiline, "a\nb", true},
		{`a\Z`, 0, "a\n", false}, {`a\Z`, 0, "a", true}, {`\Aa`, Multiline, "b\na", false},
		{"a.b", 0, "a\nb", false}, {"a.b", DotAll, "a\nb", true},
		{"A", IgnoreCase, "a", true}, {"(?i)A", 0, "a", true}, {"x(?i:A)", 0, "xa", true},
		{`\d`, 0, "٣", true}, {`\w`, 0, "é", true}, {`\W`, 0, "é", false}, {`\s`, 0, "\u00a0", true}, {`[\w-]`, 0, "é", true}, {`[\s\S]`, 0, "\n", true},
		{"[[]", 0, "[", true}, {"[[:alpha:]]", 0, ":]", true}, {"[]a]", 0, "]", true}, {"[^]a]", 0, "]", false},
		{`\/\-\_\ \"`, 0, `/-_ "`, true}, {`[\b]`, 0, "\b", true}, {`\x41\u00e9\075`, 0, "Aé=", true}, {`\0`, 0, "\x00", true},
		{"^a{,2}$", 0, "aa", true}, {"^a{,2}$", 0, "aaa", false}, {"a{,x}", 0, "a{,x}", true}, {"a{1", 0, "a{1", true},
		{"a(?#comment)b", 0, "ab", true}, {"(?P<n>a)", 0, "a", true}, {"^$", AnchorStart | DotAll, "", true}, {"^$", AnchorStart | DotAll, "\n", true},
		{`\b[y,Y,1,t,T]\b`, 0, "isolate y", true},
		{"(?s)(?i)A.B", 0, "a\nb", true},
	} {
		re, err := CompileRegexp(c.pattern, c.flags)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if got := re.MatchString(c.text); got != c.want {
			t.Errorf("%q flags %d on %q: %v (as %s)", c.pattern, c.flags, c.text, got, re)
		}
	}
	for pattern, want := range map[string]string{
		"(?=a)": "look-ahead", "(?!a)": "look-ahead", "(?<=a)b": "look-behind", "(?<!a)b": "look-behind",
		`(a)\1`: "back-reference", "(?P<n>a)(?P=n)": "back-reference", "(a)?(?(1)b|c)": "conditional", "(?>a)": "atomic",
		"a++": "possessive", "a*+": "possessive", "(?x)a b": "the flag", "a(?i)": "not at the start", "(?m)^a": "the flag m",
		"(": "missing closing )", "[a": "unterminated character set", `\`: "bad escape", `\Qa\E`: `bad escape \Q`, `\p{L}`: `bad escape \p`, "*": "missing argument",
		"a{2,1}": "invalid repeat count", "a{1001}": "invalid repeat count", `[\W]`: `\W inside a character set`, `\xg0`: "incomplete escape", "(?<n>a)": "unknown extension",
	} {
		if _, err := CompileRegexp(pattern, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}

// FuzzPatterns tests that no pattern panics or takes more than linear time.
func FuzzPatterns(f *testing.F) {
	f.Add(`(?i)[^]\w-]{,3}\x41$|\012`, "aaa\n")
	f.Add("[!]a-]*?[", "]x[")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		Fnmatch(pattern, text)
		NewDeviceMatcher(pattern).Match(text)
		for flags := range RegexpFlags(16) {
			if re, err := CompileRegexp(pattern, flags); err == nil {
				re.MatchString(text)
			}
		}
	})
}
