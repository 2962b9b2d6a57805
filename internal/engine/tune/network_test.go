package tune_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/device"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestUndoOfTheWholeNetwork changes and restores every network setting, one after the other.
// Afterwards all settings, addresses and routes are as before.
func TestUndoOfTheWholeNetwork(t *testing.T) {
	if ownNetwork(t) {
		return
	}
	h := host.Live()
	kinds := setting.Kernel(h)
	maps.Copy(kinds, device.NetKinds(h))
	ctx := context.Background()
	files := networkFiles(t)
	before := network(files)
	changed, untouched := 0, 0
	var e *tune.Engine
	var names []string // since the last look at everything
	for i, p := range files {
		if i%16 == 0 { // a journal of many transactions is another test's
			e = newEngine(t, h)
			e.Kinds = kinds
		}
		s, err := setting.Parse(strings.TrimPrefix(p, "/proc/sys/"))
		if err != nil {
			t.Fatal(err)
		}
		name := setting.SysctlName(p)
		if s.Kind == "sysfs" {
			name = p
		}
		done, refused := false, false
		for _, value := range others(before[p]) {
			change := setting.Change{Setting: s, Want: setting.Text(value)}
			a, err := e.Apply(ctx, planOf(e, journal.Apply, []setting.Change{change}), tune.ApplyOptions{Kind: journal.Apply})
			if err != nil {
				t.Fatalf("%s = %s: %v", name, value, err)
			}
			verdict := a.Plan.Steps[0].Verdict
			if _, err := e.Undo(ctx); err != nil && !errors.Is(err, tune.ErrNothing) {
				t.Errorf("%s = %s: %v", name, value, err)
			}
			if verdict == plugin.Refused {
				refused = true
				break
			}
			if verdict == plugin.OK && a.Plan.Steps[0].Action == tune.Write {
				done = true
				break
			}
		}
		if _, known := notToBeTakenBack[name]; known != refused {
			t.Errorf("%s is refused: %v, want %v", name, refused, known)
		}
		if done {
			changed++
		} else if !refused {
			untouched++
			t.Logf("no other value was taken: %s = %q", name, before[p])
		}
		if names = append(names, name); len(names) < 8 && i+1 < len(files) {
			continue // all are looked at for eight of them together
		}
		after := network(files)
		for q, was := range before {
			if after[q] != was {
				t.Errorf("one of %s was changed and taken back: %s is %q, was %q", strings.Join(names, ", "), q, after[q], was)
			}
		}
		before, names = after, nil
	}
	t.Logf("%d values, %d changed and taken back, %d that take no other value", len(files), changed, untouched)
	if changed < 300 || untouched > len(files)/10 {
		t.Error("too few of them were changed: this proves little")
	}
}

// TestOnePlaceUnderTwoNames tests a device setting with two names, over netlink and in /sys.
// Changes through both names form one chain, in whatever order they are undone, also if an older
// fettle has recorded both names.
func TestOnePlaceUnderTwoNames(t *testing.T) {
	if ownNetwork(t) {
		return
	}
	h := host.Live()
	const netlinkName, sysName = "net:near/txqueuelen", "/sys/class/net/near/tx_queue_len"
	length := func() string {
		t.Helper()
		b, err := os.ReadFile(sysName)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	change := func(name, value string) setting.Change {
		t.Helper()
		s, err := setting.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		return setting.Change{Setting: s, Want: setting.Text(value)}
	}
	withNet := setting.Kernel(h)
	maps.Copy(withNet, device.NetKinds(h))
	was := length()
	for _, c := range []struct {
		first  setting.Kinds
		names  [2]string
		undone []int // 0: all that stands
	}{
		{withNet, [2]string{netlinkName, sysName}, []int{1, 2}},
		{withNet, [2]string{netlinkName, sysName}, []int{2, 1}},
		{withNet, [2]string{sysName, netlinkName}, []int{1, 2}},
		{withNet, [2]string{sysName, netlinkName}, []int{0}},
		{setting.Kernel(h), [2]string{sysName, netlinkName}, []int{0}},
	} {
		e := newEngine(t, h)
		e.Kinds = c.first
		apply(t, e, journal.Apply, change(c.names[0], "700"))
		e.Kinds = withNet
		apply(t, e, journal.Apply, change(c.names[1], "800"))
		if got := length(); got != "800" {
			t.Errorf("%s: %s", c.names, got)
		}
		for _, id := range c.undone {
			if id == 0 {
				undo(t, e)
			} else {
				undo(t, e, id)
			}
		}
		if got := length(); got != was {
			t.Errorf("%s, %v taken back: %s is %s, was %s", c.names, c.undone, sysName, got, was)
		}
	}
}

// TestAddressesAreNotLost tests that a change that would remove addresses and routes is refused
// before anything is written, by any name.
func TestAddressesAreNotLost(t *testing.T) {
	if ownNetwork(t) {
		return
	}
	h := host.Live()
	e := newEngine(t, h)
	maps.Copy(e.Kinds, device.NetKinds(h))
	files := networkFiles(t)
	before := network(files)
	for _, c := range []struct {
		name, value string
		verdict     plugin.Verdict
		why         string
	}{
		{"net:near/mtu", "1279", plugin.Refused, "IPv6 needs an MTU of 1280 bytes"},
		{"/sys/class/net/near/mtu", "1000", plugin.Refused, "IPv6 needs an MTU of 1280 bytes"},
		{"net:near/mtu", "60", plugin.Refused, "IPv6 needs an MTU of 1280 bytes"},
		{"net:near/mtu", "1280", plugin.OK, ""},
		{"net.ipv6.conf.near.disable_ipv6", "1", plugin.Refused, "drops addresses"},
		{"net.ipv6.conf.near.disable_ipv6", "0", plugin.OK, ""},
		{"net.ipv6.conf.default.disable_ipv6", "1", plugin.OK, ""},
		{"/sys/class/net/near/flags", "0x1002", plugin.Refused, "drops addresses"},
	} {
		s, err := setting.Parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		a := apply(t, e, journal.Apply, setting.Change{Setting: s, Want: setting.Text(c.value)})
		if step := a.Plan.Steps[0]; step.Verdict != c.verdict || !strings.Contains(step.Why, c.why) {
			t.Errorf("%s = %s: %s %s, want %s %s", c.name, c.value, step.Verdict, step.Why, c.verdict, c.why)
		}
		if _, err := e.Undo(context.Background()); err != nil && !errors.Is(err, tune.ErrNothing) {
			t.Error(err)
		}
		after := network(files)
		for q, was := range before {
			if after[q] != was {
				t.Errorf("%s = %s: %s is %q, was %q", c.name, c.value, q, after[q], was)
			}
		}
	}
}

// TestCoupledNeighbours tests settings that only the machine's first network namespace has: the
// defaults of the neighbour tables, which devices follow, and the route cache of IPv4. No other
// test changes them.
func TestCoupledNeighbours(t *testing.T) {
	root.Disposable(t)
	var files []string
	for _, pattern := range []string{"ipv?/neigh/*/unres_qlen*", "ipv?/neigh/*/base_reachable_time*", "ipv?/neigh/*/retrans_time*", "ipv?/route/gc_min_interval*"} {
		found, err := filepath.Glob("/proc/sys/net/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	values := func() map[string]string {
		out := map[string]string{}
		for _, p := range files {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			out[p] = string(b)
		}
		return out
	}
	before := values()
	for _, name := range []string{
		"net.ipv4.neigh.default.unres_qlen", "net.ipv4.neigh.default.unres_qlen_bytes", "net.ipv6.neigh.default.base_reachable_time",
		"net.ipv4.neigh.default.retrans_time_ms", "net.ipv4.route.gc_min_interval", "net.ipv4.route.gc_min_interval_ms",
	} {
		e := newEngine(t, host.Live())
		n, err := strconv.Atoi(liveRead(t, sysctl(name)))
		if err != nil {
			t.Fatal(err)
		}
		a := apply(t, e, journal.Apply, set(name, strconv.Itoa(2*n+5)))
		if liveRead(t, sysctl(name)) == strconv.Itoa(n) {
			t.Errorf("%s was not changed: %s", name, a.Plan.Steps[0].Why)
		}
		undo(t, e)
		for p, was := range values() {
			if before[p] != was {
				t.Errorf("after undo of %s: %s is %q, was %q", name, p, was, before[p])
			}
		}
	}
}
