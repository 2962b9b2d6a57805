package peers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// limits are the pairs of spellings, with harmless values for each.
var limits = [][2]struct{ name, value string }{
	{{"vm.dirty_bytes", "900000000"}, {"vm.dirty_ratio", "45"}},
	{{"vm.dirty_background_bytes", "400000000"}, {"vm.dirty_background_ratio", "15"}},
	{{"vm.overcommit_kbytes", "7000000"}, {"vm.overcommit_ratio", "65"}},
}

// pairCase is one order of the lines of every pair: which spelling has the value, the
// other being 0, and which line comes first.
type pairCase struct{ inForce, valued, first int }

func (c pairCase) String() string {
	return fmt.Sprintf("in force %d, value for %d, first %d", c.inForce, c.valued, c.first)
}

// lines are "NAME = VALUE" for each spelling of each pair, the first ones first.
func (c pairCase) lines() (first, second []string) {
	for _, pair := range limits {
		text := func(k int) string {
			if k == c.valued {
				return pair[k].name + " = " + pair[k].value
			}
			return pair[k].name + " = 0"
		}
		first, second = append(first, text(c.first)), append(second, text(1-c.first))
	}
	return first, second
}

func (c pairCase) want() map[string]string {
	m := map[string]string{}
	for _, pair := range limits {
		m[pair[c.valued].name], m[pair[1-c.valued].name] = pair[c.valued].value, "0"
	}
	return m
}

// TestPairsInEveryOrder sets both spellings of every limit on the running kernel, one
// of them 0, in every order and from each way to write them: fettle leaves the value
// that is not 0, as TuneD, systemd-sysctl and procps do except for what is listed,
// and undo gives back what was there. All orders are of the slow matrix.
func TestPairsInEveryOrder(t *testing.T) {
	root.Disposable(t)
	root.Real(t, "runs TuneD for every order")
	program := root.Program(t, "./cmd/fettle")
	before := pairValues(t)
	t.Cleanup(func() { setPairs(t, before) })
	r := root.New(t, root.Options{Live: true, Stubs: liveStubs(),
		Binds: []root.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}}})
	profile := func(name string, lines ...string) {
		r.Must("sh", "-c", `mkdir -p "/etc/tuned/$1" && printf '%s\n' "$2" >"/etc/tuned/$1/tuned.conf"`, "sh", name, strings.Join(lines, "\n"))
	}
	file := func(path string, lines ...string) {
		r.Must("sh", "-c", `mkdir -p "${1%/*}" && printf '%s\n' "$2" >"$1"`, "sh", path, strings.Join(lines, "\n"))
	}
	count := 0
	for n := range 8 {
		if n%3 != 0 && os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
			continue // a sample: TuneD takes a second for each
		}
		c := pairCase{n & 1, n >> 1 & 1, n >> 2 & 1}
		first, second := c.lines()
		start := func() { startPairs(t, c.inForce) }

		for _, peer := range []struct {
			name string
			run  func()
		}{
			{"TuneD", func() {
				profile("pairs", append([]string{"[sysctl]"}, append(first, second...)...)...)
				r.TunedOnce("pairs")
			}},
			{"systemd-sysctl", func() {
				file("/run/pairs.conf", append(first, second...)...)
				r.Run("/lib/systemd/systemd-sysctl", "/run/pairs.conf") // fails where one line is refused
			}},
			{"procps", func() { r.Run("/sbin/sysctl", "-p", "/run/pairs.conf") }},
		} {
			start()
			peer.run()
			got := pairValues(t)
			for _, pair := range limits {
				a, b := got[pair[0].name], got[pair[1].name]
				both := a == c.want()[pair[0].name] && b == c.want()[pair[1].name]
				if listed := zeroedBy(peer.name, pair[c.valued].name, c); both == listed {
					t.Errorf("%s: %s leaves %s=%s %s=%s; listed as a difference: %v", c, peer.name, pair[0].name, a, pair[1].name, b, listed)
				}
			}
		}

		forms := map[string]func(){
			"one file": func() { profile("pairs", append([]string{"[sysctl]"}, append(first, second...)...)...) },
			"parent and child": func() {
				profile("parent", append([]string{"[sysctl]"}, first...)...)
				profile("pairs", append([]string{"[main]", "include=parent", "[sysctl]"}, second...)...)
			},
			"two units": func() {
				profile("pairs", append(append([]string{"[sysctl]"}, first...), append([]string{"[later]", "type=sysctl"}, second...)...)...)
			},
			"[vm] and [sysctl]": func() {
				vm, rest := sections(first)
				profile("pairs", append(append([]string{"[vm]"}, vm...), append(append([]string{"[sysctl]"}, rest...), second...)...)...)
			},
			"[sysctl] and [vm]": func() {
				vm, rest := sections(second)
				profile("pairs", append(append(append([]string{"[sysctl]"}, first...), rest...), append([]string{"[vm]"}, vm...)...)...)
			},
			"sysctl.d and a profile": func() {
				// The file of the administrator has the value, and the profile the 0.
				given := slices.DeleteFunc(append(slices.Clone(first), second...), func(s string) bool { return strings.HasSuffix(s, " = 0") })
				zeros := slices.DeleteFunc(append(slices.Clone(first), second...), func(s string) bool { return !strings.HasSuffix(s, " = 0") })
				file("/etc/sysctl.d/99-pairs.conf", given...)
				profile("pairs", append([]string{"[sysctl]"}, zeros...)...)
			},
			"a profile and sysctl.d": func() {
				given := slices.DeleteFunc(append(slices.Clone(first), second...), func(s string) bool { return strings.HasSuffix(s, " = 0") })
				zeros := slices.DeleteFunc(append(slices.Clone(first), second...), func(s string) bool { return !strings.HasSuffix(s, " = 0") })
				file("/etc/sysctl.d/99-pairs.conf", zeros...)
				profile("pairs", append([]string{"[sysctl]"}, given...)...)
			},
		}
		for _, form := range slices.Sorted(maps.Keys(forms)) {
			r.Run("rm", "-f", "/etc/sysctl.d/99-pairs.conf")
			start()
			at := pairValues(t)
			forms[form]()
			out, code := r.Run("fettle", "tune", "pairs")
			got := pairValues(t)
			want := c.want()
			if form == "sysctl.d and a profile" { // what the file says is the boot's work, not the profile's
				want = at
			}
			if code != 0 || !maps.Equal(got, want) {
				t.Errorf("%s, %s: exit %d, left %v, want %v\n%s", c, form, code, got, want, out)
			}
			if out, code := r.Run("fettle", "verify"); code != 0 {
				t.Errorf("%s, %s: verify: exit %d\n%s", c, form, code, out)
			}
			r.Run("fettle", "undo")
			if got := pairValues(t); !maps.Equal(got, at) {
				t.Errorf("%s, %s: undo left %v, want %v", c, form, got, at)
			}
			count++
		}
	}
	t.Logf("%d orders and forms, %d limits in each", count, len(limits))
}

// zeroedBy lists the orders in which a peer leaves a limit 0 in both spellings: the
// value first and then the 0, for files whose handler zeroes the twin at each write
// rather than at each change. procps and TuneD 2.20 write a value that is there
// already; systemd-sysctl 252 does not, and neither does TuneD from 2.26 on.
func zeroedBy(peer, valued string, c pairCase) bool {
	switch {
	case peer == "systemd-sysctl" || c.first != c.valued:
		return false
	case valued == "vm.dirty_background_bytes":
		return true
	}
	return strings.HasPrefix(valued, "vm.overcommit_")
}

// sections splits lines into those that [vm] takes and the others.
func sections(lines []string) (vm, rest []string) {
	for _, l := range lines {
		if name, ok := strings.CutPrefix(l, "vm.dirty"); ok {
			vm = append(vm, "dirty"+name)
		} else {
			rest = append(rest, l)
		}
	}
	return vm, rest
}

func pairValues(t *testing.T) map[string]string {
	t.Helper()
	m := map[string]string{}
	kinds := setting.Kernel(host.Live())
	for _, pair := range limits {
		for _, one := range pair {
			v, err := kinds.Read(context.Background(), setting.Setting{Kind: "sysctl", Name: one.name})
			if err != nil {
				t.Fatal(err)
			}
			m[one.name] = v.Text
		}
	}
	return m
}

// startPairs puts one spelling of each limit in force, with a value of its own.
func startPairs(t *testing.T, spelling int) {
	t.Helper()
	values := map[string]string{
		"vm.dirty_bytes": "800000000", "vm.dirty_ratio": "25", "vm.dirty_background_bytes": "300000000", "vm.dirty_background_ratio": "12",
		"vm.overcommit_kbytes": "6000000", "vm.overcommit_ratio": "55",
	}
	m := map[string]string{}
	for _, pair := range limits {
		m[pair[spelling].name] = values[pair[spelling].name]
	}
	setPairs(t, m)
}

// setPairs writes the values that are not 0: the others become 0 with them.
func setPairs(t *testing.T, values map[string]string) {
	t.Helper()
	kinds := setting.Kernel(host.Live())
	for name, v := range values {
		if v == "0" {
			continue
		}
		if err := kinds.Write(context.Background(), setting.Setting{Kind: "sysctl", Name: name}, setting.Text(v)); err != nil {
			t.Fatal(err)
		}
	}
}
