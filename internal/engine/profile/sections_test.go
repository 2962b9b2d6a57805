package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSections(t *testing.T) {
	got, err := Sections("p", []byte("[main]\ninclude=a\n[DEFAULT]\nscript_pre=/x\n[net]\n# type=vm\ntype=disk\nenabled=no\nmtu=1\n 2\n[variables]\na=${b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range got {
		line := fmt.Sprintf("%s [%s] %s %v", s.Pos, s.Name, s.Type, s.Enabled)
		for _, l := range s.Lines {
			line += fmt.Sprintf(" %s=%q:%d", l.Name, l.Value, l.Pos.Line)
		}
		lines = append(lines, line)
	}
	want := []string{
		`p:1 [main] main true include="a":2 script_pre="/x":4`,
		`p:5 [net] disk false type="disk":7 enabled="no":8 mtu="1\n2":9 script_pre="/x":4`,
		`p:11 [variables] variables true a="${b}":12 script_pre="/x":4`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got[1].Line("mtu") == nil || got[1].Line("type").Pos.Line != 7 || got[1].Line("x") != nil {
		t.Error("lines by name")
	}
	if o := got[1].Options(); len(o) != 1 || o[0].Name != "mtu" || len(got[1].Lines) != 4 {
		t.Errorf("options %v of %v", o, got[1].Lines)
	}
	if _, err := Sections("p", []byte("[a]\nb\n")); err == nil || !strings.Contains(err.Error(), "p:2: ") {
		t.Errorf("a line without = is not refused with its place: %v", err)
	}
}

func TestReferences(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain # { text", ""},
		{"${a}-${b_1}", "a b_1"},
		{"${f:exec:cat:/x}", `exec["cat" "/x"]`},
		{"${f:f}", "f[]"},
		{"${f}", "f"},
		{`${f:a:x\:y:z}`, `a["x\\:y" "z"]`},
		{"${f:a:${f:b:1:2}:${c}}", `1:b["1" "2"] 1:c a["${f:b:1:2}" "${c}"]`},
		{`\${a}`, `\a`},
		{"${i:PROFILE_DIR}/x", "i:PROFILE_DIR"},
		{"${i:OTHER}", "loose0"},
		{"$", "loose0"},
		{"a$", "loose1"},
		{"$${a}", "a loose0"},
		{"}", "loose0"},
		{"${a}}", "a loose4"},
		{"${a", "loose0"},
		{"${}", "loose0"},
		{"${a b}", "loose0"},
		{"${f:}", "loose0"},
		{"${f:a-b:c}", "loose0"},
		{"${${a}}", "1:a loose0"},
		{"${f:${a}:b}", "1:a loose0"},
		{"${f:ex${a}:b}", "1:a loose0"},
		{"${x:exec:b}", "loose0"},
		{"${f:a:${b}", "1:b loose0"},
		{"${f:a:$}", `a["$"] loose6`},
		{"{f:exec:x}", "loose9"},
	} {
		found := References(c.text)
		var got []string
		for _, r := range found.Refs {
			s := r.Name
			if r.Call {
				s += fmt.Sprintf("%q", r.Args)
			}
			if r.Depth > 0 {
				s = fmt.Sprintf("%d:%s", r.Depth, s)
			}
			if r.Escaped {
				s = `\` + s
			}
			if c.text[r.Start:r.Start+len(r.Text)] != r.Text {
				t.Errorf("%s: %q does not begin at %d", c.text, r.Text, r.Start)
			}
			got = append(got, s)
		}
		for _, at := range found.Loose {
			got = append(got, fmt.Sprintf("loose%d", at))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, s, c.want)
		}
	}
	deep := strings.Repeat("${f:a:", maxCallDepth+1) + strings.Repeat("}", maxCallDepth+1)
	if loose := References(deep).Loose; len(loose) == 0 || loose[0] != maxCallDepth*len("${f:a:") {
		t.Errorf("a reference more than %d deep is not loose: %v", maxCallDepth, loose)
	}
}
