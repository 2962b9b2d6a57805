package systemd

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestCommand(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"ExecStart=/bin/a b \"c d\"\n", "/bin/a|b|c d"},
		{"ExecStart=/bin/a\nExecStart=\nExecStart=/bin/b %i x%%\n", "/bin/b|one|x%"},
		{"Environment=A=1 B=\nEnvironment=\"C=x y\"\nExecStart=/bin/a $A $B $C ${C} -p${A} $$A ${D}\n", "/bin/a|1|x|y|x y|-p1|$A|"},
		{"Environment=A=1\nExecStart=-:/bin/a $A ${A}\n", "/bin/a|$A|${A}"},
		{"ExecStart=@/bin/a name x\n", "/bin/a|x"},
		{"ExecStart=!!/bin/a 'b\n", "/bin/a"},
	} {
		h := machine.Mounted(t, map[string]string{"/etc/systemd/system/x@.service": "[Service]\n" + c.text})
		u, err := New(h).Load("x@one.service")
		if err != nil {
			t.Fatal(err)
		}
		argv, _ := u.Command()
		if got := strings.Join(argv, "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
