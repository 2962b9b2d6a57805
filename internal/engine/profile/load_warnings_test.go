package profile

import (
	"strings"
	"testing"
)

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		profiles map[string]string
		load     []string
		want     string
	}{
		{"nothing asked", nil, nil, "no profile named"},
		{"a bad name", nil, []string{"../etc"}, `profile name "../etc": want only letters`},
		{"none of that name", map[string]string{"balanced": ""}, []string{"balancd"}, `no profile "balancd" in /usr/lib/tuned, /usr/lib/tuned/profiles, /etc/tuned, /etc/tuned/profiles (did you mean "balanced"?)`},
		{"an include of nothing", map[string]string{"p": "[main]\n\ninclude=a,-b"}, []string{"p"}, `/usr/lib/tuned/p/tuned.conf:3: include: no profile "a" in`},
		{"a variable in an include", map[string]string{"p": "[variables]\na=1\n[main]\ninclude=${a}"}, []string{"p"}, `/usr/lib/tuned/p/tuned.conf:4: include: no profile "${a}" in /usr/lib/tuned, /usr/lib/tuned/profiles, /etc/tuned, /etc/tuned/profiles (include= can use functions`},
		{"a mistake in an included file", map[string]string{"p": "[main]\ninclude=q", "q": "[u]\nx"}, []string{"p"}, "/usr/lib/tuned/q/tuned.conf:2: expected name=value"},
		{"priority", map[string]string{"p": "[u]\npriority=high"}, []string{"p"}, "/usr/lib/tuned/p/tuned.conf:2: priority=high: expected a whole number"},
		{"a regular expression", map[string]string{"p": "[u]\ncpuinfo_regex=(?!x)"}, []string{"p"}, `/usr/lib/tuned/p/tuned.conf:2: cpuinfo_regex: regular expression "(?!x)": look-ahead (?! is not supported`},
		{"an assertion", map[string]string{"p": "[variables]\na=${f:assertion:these differ:1:2}"}, []string{"p"}, "/usr/lib/tuned/p/tuned.conf:2: ${f:assertion:these differ:1:2}: "},
		{"a variables file", map[string]string{"p": "[variables]\ninclude=/v", "/v": "a=1\n=2"}, []string{"p"}, `/v:2: no name before "="`},
		{"growth", map[string]string{"p": "[variables]\na=" + strings.Repeat("x", 1000) + doubling(40) + "\n[u]\nx=${b39}"}, []string{"p"}, "expands to more than"},
		{"depth", map[string]string{"p": "[u]\nx=" + strings.Repeat("${f:strip:", 100) + strings.Repeat("}", 100)}, []string{"p"}, "/usr/lib/tuned/p/tuned.conf:2: ${ is nested more than 64 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := loadError(t, c.profiles, c.load...)
			if !strings.HasPrefix(err.Error(), c.want) && !(c.name == "growth" && strings.Contains(err.Error(), c.want)) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// doubling returns n variables, each twice as long as the one before.
func doubling(n int) string {
	var b strings.Builder
	last := "a"
	for i := range n {
		name := "b" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		b.WriteString("\n" + name + "=${" + last + "}${" + last + "}")
		last = name
	}
	return b.String()
}

func TestWarnings(t *testing.T) {
	p := load(t, map[string]string{
		"q": "[disk]\ndevices=sda\nenabled=0\n[t]\ntype=sysctl\n",
		"p": lines("[main]", "include=q", "[disk]", "drop=gone", "[t]", "[u]", "x=${nope}", "y=${f:nosuch:1}", "z=${f:kb2s}", "w=a}b${f:strip:c}", "v=${f:strip:", "u=${f}", "[variables]", "include=/nope", "a.b=1"),
	}, "p")
	for _, want := range []string{
		`tuned/p/tuned.conf:3: [disk] does not name devices, which resets devices=sda`,
		`tuned/p/tuned.conf:3: [disk] does not name enabled`,
		`tuned/p/tuned.conf:5: [t] does not name type, which resets type=sysctl`,
		`tuned/p/tuned.conf:4: drop=gone: [disk] inherits no option of that name`,
		`tuned/p/tuned.conf:7: variable "nope" is not defined`,
		`tuned/p/tuned.conf:8: unknown function "nosuch"`,
		`tuned/p/tuned.conf:9: function kb2s: 1 argument expected, found 0`,
		`tuned/p/tuned.conf:10: a } without ${`,
		`tuned/p/tuned.conf:11: a ${ without }`,
		`tuned/p/tuned.conf:12: ${f}: expected the name of a function`,
		`tuned/p/tuned.conf:14: variables file /nope does not exist`,
		`tuned/p/tuned.conf:15: variable "a.b" is not defined: a name is`,
	} {
		found := false
		for _, w := range p.Warnings {
			found = found || strings.Contains(w.String(), want)
		}
		if !found {
			t.Errorf("no warning %q", want)
		}
	}
	if t.Failed() {
		for _, w := range p.Warnings {
			t.Log(w)
		}
	}
}

// TestWordsThatAreNotTrue tests that only 1, true and True mean yes, as in TuneD. A word that a
// user may mean as yes causes a warning, a word that means no does not. A deferred call is one
// argument, whatever colons it contains, and the content of such an include is unknown.
func TestWordsThatAreNotTrue(t *testing.T) {
	p := load(t, map[string]string{
		"p": lines("[a]", "enabled=yes", "[b]", "enabled=${on}", "[c]", "enabled=off", "[d]", "enabled=True", "[e]", "replace=TRUE", "[variables]", "prepend=on", "on=1", "[f]", "prepend=on", "[g]", "enabled=", "[h]", "replace =  "),
	}, "p")
	var got []string
	for _, w := range p.Warnings {
		if _, text, ok := strings.Cut(w.String(), "tuned.conf:"); ok && strings.Contains(text, "does not mean true") {
			line, _, _ := strings.Cut(text, ":")
			got = append(got, line)
		}
	}
	if want := "2 4 10 12 17 19"; strings.Join(got, " ") != want {
		t.Errorf("warned of lines %v, want %s", got, want)
	}
}

// TestRepeated tests that repeated options and circular includes load as in TuneD, with warnings.
func TestRepeated(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		profile string
		want    []string
	}{
		{"a key twice in a section", map[string]string{"p": lines("[u]", "x=1", "y=2", "x=3")}, "p",
			[]string{"tuned/p/tuned.conf:4: [u] sets x again: DIR/tuned/p/tuned.conf:2 is ignored, this line applies"}},
		{"a section twice with the same key", map[string]string{"p": lines("[u]", "x=1", "[v]", "x=2", "[u]", "x=1")}, "p",
			[]string{"tuned/p/tuned.conf:6: [u] sets x again: DIR/tuned/p/tuned.conf:2 is ignored, this line applies"}},
		{"a key three times", map[string]string{"p": lines("[u]", "x=1", "x=2", "x=3")}, "p",
			[]string{"tuned/p/tuned.conf:3: [u] sets x again: DIR/tuned/p/tuned.conf:2 is ignored, this line applies",
				"tuned/p/tuned.conf:4: [u] sets x again: DIR/tuned/p/tuned.conf:3 is ignored, this line applies"}},
		{"the child overrides", map[string]string{"a": "[u]\nx=1\n", "p": "[main]\ninclude=a\n[u]\nx=2\n"}, "p", nil},
		{"a circle of two", map[string]string{"a": "[main]\ninclude=b\n", "b": "[main]\ninclude=a\n[u]\nx=b\n"}, "a",
			[]string{"tuned/b/tuned.conf:2: include=a is circular: DIR/tuned/a/tuned.conf already includes this profile; ignored"}},
		{"a profile that includes itself", map[string]string{"a": "[main]\nsummary=s\ninclude=-a\n"}, "a",
			[]string{"tuned/a/tuned.conf:3: include=a is circular: DIR/tuned/a/tuned.conf already includes this profile; ignored"}},
		{"a diamond", map[string]string{"base": "[u]\nx=1\n", "l": "[main]\ninclude=base\n", "r": "[main]\ninclude=base\n", "p": "[main]\ninclude=l,r\n"}, "p", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := load(t, tt.files, tt.profile)
			var got []string
			for _, w := range p.Warnings {
				got = append(got, w.String())
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				place, text, found := strings.Cut(tt.want[i], "DIR")
				if !strings.Contains(got[i], place) || found && !strings.HasSuffix(got[i], text) {
					t.Errorf("got %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}
