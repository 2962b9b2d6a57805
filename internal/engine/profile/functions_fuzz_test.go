package profile

import (
	"context"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// FuzzTunedCPUList parses lists in TuneD's grammar. A parsed list, printed in any of the three
// notations, parses to the same set, and a list minus itself is empty.
func FuzzTunedCPUList(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "0xf,f", "0x3,,8", "0-5,^3,!0-1", `"1-2"`, "1-2-3", "3-1", "0x", "0xg,,1", "^", " 1 , +2 ", "1_0", "9999999999", "0x-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := parseTunedCPUs(s)
		if err != nil {
			if !strings.Contains(err.Error(), "no kernel has more") {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		for _, text := range []string{cpus.String(), joinCPUs("", cpus), "0x" + cpus.Mask()} {
			if again, err := parseTunedCPUs(text); err != nil || !again.Equal(cpus) {
				t.Errorf("%q: %q is read back as %q, %v", s, text, again, err)
			}
		}
		if cpus.IsEmpty() {
			return
		}
		if kernel, err := unit.ParseCPUList(cpus.String()); err != nil || !kernel.Equal(cpus) {
			t.Errorf("%q: the kernel reads %q as %q, %v", s, cpus, kernel, err)
		}
		without := cpus.String() + ",^" + strings.ReplaceAll(cpus.String(), ",", ",^")
		if rest, err := parseTunedCPUs(without); err != nil || !rest.IsEmpty() {
			t.Errorf("%q leaves %q, %v", without, rest, err)
		}
	})
}

// FuzzFunctions calls every function that runs no program with any arguments, separated by
// newlines. None may panic, and the same call must give the same result.
func FuzzFunctions(f *testing.F) {
	for i, fn := range Functions {
		f.Add(uint8(i), strings.Repeat("1\n", max(fn.MinArgs-1, 0))+"1")
	}
	f.Add(uint8(0), "0-3,^2\n0xff\n*")
	h := machine.Mounted(f, inventedCPUs(8, 2, "0-4,6-7", 5))
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		fn := Functions[int(i)%len(Functions)]
		args := strings.Split(text, "\n")
		if fn.Executes || !fn.accepts(len(args)) {
			return
		}
		env := &Env{Host: h, Warn: func(string, ...any) {}}
		first, ok, err := fn.Call(context.Background(), env, args)
		second, okAgain, errAgain := fn.Call(context.Background(), env, args)
		if first != second || ok != okAgain || (err == nil) != (errAgain == nil) {
			t.Errorf("%s%q gives %q, %v and then %q, %v", fn.Name, args, first, err, second, errAgain)
		}
		if err != nil && ok {
			t.Errorf("%s%q gives an answer and the error %v", fn.Name, args, err)
		}
	})
}
