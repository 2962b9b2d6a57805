package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

const file = "/sys/devices/platform/eeepc/cpufv"

func TestClock(t *testing.T) {
	h := machine.Mounted(t, map[string]string{file: "0x301\n"})
	k := EeePCSHEKinds(h)[eeepcKind]
	read := func(want string) {
		t.Helper()
		if v, err := k.Read(t.Context(), busClock); err != nil || v.Text != want {
			t.Errorf("read %v, %v, want %s", v, err, want)
		}
	}
	read("1") // three clocks, the second is set
	if err := k.Write(t.Context(), busClock, setting.Text("2")); err != nil {
		t.Fatal(err)
	}
	read("2")
	for _, bad := range []setting.Value{setting.Absent, setting.Text("fast"), setting.Text("-1")} {
		if err := k.Write(t.Context(), busClock, bad); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	read("2")
	if _, err := k.Resolve(setting.Setting{Kind: eeepcKind, Name: "../x"}); err == nil {
		t.Error("another place was taken")
	}
	if v, err := EeePCSHEKinds(machine.Mounted(t, nil))[eeepcKind].Read(t.Context(), busClock); err != nil || !v.Absent {
		t.Errorf("another machine reads %v, %v", v, err)
	}
}

// TestBand tests TuneD's rule: at or below one load, at or above another, no change between the
// two.
func TestBand(t *testing.T) {
	saving, normal := setting.Text("2"), setting.Text("1")
	for _, tt := range []struct {
		load float64
		want setting.Value
		ok   bool
	}{
		{0, saving, true}, {0.4, saving, true}, {0.41, setting.Value{}, false}, {0.59, setting.Value{}, false}, {0.6, normal, true}, {7, normal, true},
	} {
		if got, ok := (band{0.4, 0.6}).clock(tt.load, saving, normal); got != tt.want || ok != tt.ok {
			t.Errorf("load %v: %s %v, want %s %v", tt.load, got, ok, tt.want, tt.ok)
		}
	}
}

func TestEeePCSHEDynamic(t *testing.T) {
	place := busClock.String()
	for _, tt := range []struct {
		name  string
		tree  map[string]string
		lines []string
		loops int
		items []string
	}{
		{"an Eee PC", map[string]string{file: "0x301\n"}, nil, 1, nil},
		{"another machine", nil, nil, 0, []string{place + " ! unsupported: only Asus Eee PC netbooks have this bus clock"}},
		{"nonsense", map[string]string{file: "0x301\n"}, []string{"she_normal=3", "load_threshold_normal=x"}, 0, []string{
			place + ` ! rejected: "x" is not a value for load_threshold_normal: want a load, such as 0.2`,
			place + ` ! rejected: "3" is not a value for she_normal: want 0, 1 or 2`,
		}},
	} {
		h := machine.Mounted(t, tt.tree)
		u := plugin.Unit("eeepc_she", tt.lines...)
		loops, items := plugin.Loops(t, EeePCSHE, h, EeePCSHEKinds(h), u)
		if diff := cmp.Diff(tt.items, items); diff != "" || len(loops) != tt.loops {
			t.Errorf("%s: %d loops (-want +got)\n%s", tt.name, len(loops), diff)
		}
		if got := plugin.PlanPlugintest(t, EeePCSHE, h, u); len(got) != 0 {
			t.Errorf("%s: static tuning has nothing to plan, but plans %q", tt.name, got)
		}
	}
}

// TestClockThatCannotBeRead tests eeepc-wmi, which accepts a clock but does not report it, so undo
// could not restore it.
func TestClockThatCannotBeRead(t *testing.T) {
	const wmi = "/sys/devices/platform/eeepc-wmi/cpufv"
	h := machine.Mounted(t, map[string]string{wmi: "1\n"})
	if loops, _ := plugin.Loops(t, EeePCSHE, h, EeePCSHEKinds(h), plugin.Unit("eeepc_she")); len(loops) != 1 {
		t.Fatalf("%d loops", len(loops))
	}
	if err := os.Chmod(filepath.Join(h.Name, wmi), 0o200); err != nil {
		t.Fatal(err)
	}
	loops, items := plugin.Loops(t, EeePCSHE, h, EeePCSHEKinds(h), plugin.Unit("eeepc_she"))
	want := []string{busClock.String() + " ! unsupported: the driver does not report the clock, so undo could not restore it"}
	if diff := cmp.Diff(want, items); diff != "" || len(loops) != 0 {
		t.Errorf("%d loops (-want +got)\n%s", len(loops), diff)
	}
	if _, err := EeePCSHEKinds(h)[eeepcKind].Read(t.Context(), busClock); err == nil {
		t.Error("a clock was read")
	}
}
