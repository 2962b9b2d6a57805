package cpu

import (
	"math"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func FuzzParseLatency(f *testing.F) {
	for _, s := range []string{"70", "cstate.id:1|3", "cstate.id_no_zero:0|None", "cstate.name:C1E", "cstate.name_no_zero:POLL", "n/a", "", "|", "cstate.id:", "-1|2147483648"} {
		f.Add(s, true)
	}
	h := machine.Mounted(f, idle())
	f.Fuzz(func(t *testing.T, value string, na bool) {
		l, reason, wrong := parseLatency(h, value, na)
		n, err := strconv.ParseInt(l.text, 10, 64)
		switch {
		case l.none && l.text == "":
		case l.text == "n/a":
			if !na {
				t.Errorf("%q gives n/a where that is no value", value)
			}
		case l.text != "":
			if err != nil || n < 0 || n > math.MaxInt32 {
				t.Errorf("%q gives %q", value, l.text)
			}
		case reason == "" && !wrong:
			t.Errorf("%q gives nothing, and nobody is told why", value)
		}
	})
}
