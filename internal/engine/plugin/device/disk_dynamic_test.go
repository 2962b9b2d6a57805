package device

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// TestPowers tests the levels, which are TuneD's (plugin_disk of 2.20): twelve of each.
func TestPowers(t *testing.T) {
	if len(powers) != 12 || diskLadder.Top != 11 {
		t.Fatalf("%d levels, the highest is %d", len(powers), diskLadder.Top)
	}
	for i, p := range powers {
		if i > 0 && p.apm >= powers[i-1].apm {
			t.Errorf("level %d saves less than the one before", i)
		}
	}
}

// TestDecision tests that a sleeping disk gets no new timer on the way up. On the way down it is
// active, so it gets one.
func TestDecision(t *testing.T) {
	rest, work := [2]float64{0, 0}, [2]float64{100, 0}
	d := beginDisk()
	asked := 0
	step := func(load [2]float64, spinning bool, level, spindown int) {
		t.Helper()
		d = d.next(load, func() bool { asked++; return spinning })
		if d.Level != level || d.spindown != spindown {
			t.Fatalf("level %d, timer of level %d; want %d, %d", d.Level, d.spindown, level, spindown)
		}
	}
	for range 5 {
		step(rest, true, 0, -1)
	}
	if d.wishes("sda") != nil || asked != 0 {
		t.Errorf("told %v before the first level, asked %d times", d.wishes("sda"), asked)
	}
	step(rest, true, 1, 1)
	step(rest, false, 2, 1)
	step(rest, false, 3, 1)
	want := []plugin.Wish{
		{Setting: DiskSetting("sda", spindown), Want: setting.Text("250")},
		{Setting: DiskSetting("sda", apm), Want: setting.Text("165")},
	}
	if diff := cmp.Diff(want, d.wishes("sda")); diff != "" {
		t.Error(diff)
	}
	step(rest, true, 4, 4)
	step(work, false, 3, 3)
	step(work, false, 2, 2)
	step(work, true, 1, 1)
	step(work, true, 0, 0)
	asked = 0
	step(work, true, 0, 0)
	if asked != 0 {
		t.Errorf("asked %d times where nothing changes", asked)
	}
}

func TestDiskDynamic(t *testing.T) {
	h := machine.Mounted(t, testkitplugin.Join(diskMachine(), map[string]string{
		sdaDir + "/block/sda/stat": "100 5 9 9 200 6 9 9 0 0 0 0 0 0 0 0 0\n",
	}))
	h.Exec = &ataDisk{apm: "254"}
	kinds := map[string]setting.Kind{DiskKindName: NewHdparm(h)}
	loops := func(lines ...string) ([]plugin.Loop, []string) {
		return testkitplugin.Loops(t, Disk, h, kinds, testkitplugin.Unit("disk", lines...))
	}
	ls, items := loops()
	if len(ls) != 1 || ls[0].Device != "sda" || len(items) != 0 {
		t.Fatalf("%d loops, %v", len(ls), items)
	}
	if w, err := ls[0].Next(t.Context(), 0); err != nil || len(w) != 0 {
		t.Errorf("at once: %v, %v", w, err)
	}
	if n, err := requests(h, "sda"); err != nil || n != [2]uint64{100, 200} {
		t.Errorf("requests %v, %v", n, err)
	}
	if _, err := requests(h, "sdz"); err == nil {
		t.Error("a disk that is not there has requests")
	}
	for range 6 {
		if _, err := ls[0].Next(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if w, _ := ls[0].Next(t.Context(), 10*time.Second); len(w) != 2 || w[1].Want.Text != "195" {
		t.Errorf("after seven intervals at rest: %v", w)
	}
	if ls, items = loops("dynamic=no"); len(ls) != 0 || len(items) != 0 {
		t.Errorf("dynamic=no: %d loops, %v", len(ls), items)
	}
	if ls, items = loops("devices=vda", "dynamic=1"); len(ls) != 0 || len(items) != 1 || items[0] != "hdparm:vda/apm ! unsupported: vda is not an ATA disk, so it has no dynamic tuning" {
		t.Errorf("no ATA disk: %d loops, %v", len(ls), items)
	}
	if ls, items = loops("devices=sda", "dynamic=maybe"); len(ls) != 0 || len(items) != 0 {
		t.Errorf("nonsense: %d loops, %v", len(ls), items)
	}
}

func FuzzParseReadahead(f *testing.F) {
	for _, s := range []string{"4096", "8192 s", "8191 s", "0", "-1", "4M", "1 s s", " 7\ts ", "99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kib, ok := parseReadahead(text)
		if !ok {
			return
		}
		if kib < 0 || kib > math.MaxInt32 {
			t.Errorf("%q is %d KiB", text, kib)
		}
		if again, ok := parseReadahead(fmt.Sprintf("%d s", 2*kib)); 2*kib <= math.MaxInt32 && (!ok || again != kib) {
			t.Errorf("%q is %d KiB, and twice as many sectors are %d", text, kib, again)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"sda/apm", "disk/by-id/x/spindown", "../etc/apm", "/apm", "sda/", "a/../b/apm"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		device, what, err := parseName(name)
		if err != nil {
			return
		}
		if DiskSetting(device, what).Name != name {
			t.Errorf("%q is read as %q and %q", name, device, what)
		}
	})
}
