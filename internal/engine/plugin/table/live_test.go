package table

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestOnThisKernel writes planned values and reads them back. A plain file accepts every value, but
// the kernel rounds, renames and rejects values.
func TestOnThisKernel(t *testing.T) {
	root.Disposable(t)
	h := host.Live()
	disk := idleLoop(t, h)
	for _, unit := range [][]string{
		{"disk", "devices=" + disk, "elevator=cfq"},
		{"disk", "devices=" + disk, "elevator=deadline"},
		{"disk", "devices=" + disk, "elevator=nothing|kyber"},
		{"disk", "devices=" + disk, "readahead=4095"},
		{"disk", "devices=" + disk, "readahead=1001 s"},
		{"disk", "devices=" + disk, "readahead_multiply=2.3"},
		{"disk", "devices=" + disk, "readahead=0"},
		{"vm", "dirty_bytes=8192"},
		{"vm", "dirty_bytes=17%"},
		{"vm", "dirty_background_bytes=1"},
		{"vm", "dirty_background_ratio=0"},
		{"vm", "transparent_hugepages=never"},
		{"vm", "transparent_hugepage=always"},
		{"vm", "transparent_hugepage.defrag=defer+madvise"},
		{"vm", "transparent_hugepage.defrag=defer"},
		{"cpu", "pm_qos_resume_latency_us=n/a"},
		{"cpu", "pm_qos_resume_latency_us=100"},
		{"sysctl", "net.ipv4.tcp_rmem=\"4096  87380 4194304\""},
		{"sysfs", "/sys/block/" + disk + "/queue/iostats=0"},
	} {
		name := strings.Join(unit, " ")
		items := planLive(t, h, unit)
		if len(items) == 0 {
			t.Errorf("%s: nothing planned", name)
		}
		for _, it := range items {
			if it.Verdict != "" {
				t.Errorf("%s: %s: %s", name, it.Verdict, it.Why)
				continue
			}
			writeAndRestore(t, Kinds(h), it, name)
		}
		option, _, _ := strings.Cut(strings.ReplaceAll(unit[len(unit)-1], disk, "loop"), "=")
		plugin.Proves(t, plugin.Here(), unit[0], option)
	}
}

// TestKernelRefusesToo tests that the kernel rejects the values that a plan refuses.
func TestKernelRefusesToo(t *testing.T) {
	root.Disposable(t)
	h := host.Live()
	disk := idleLoop(t, h)
	inBytes(t, h)
	for _, tt := range []struct {
		unit  []string
		value string
	}{
		{[]string{"vm", "dirty_bytes=8191"}, "8191"},
		{[]string{"vm", "dirty_ratio=101"}, "101"},
		{[]string{"vm", "dirty_bytes=0"}, "0"},
		{[]string{"vm", "dirty_background_bytes=0"}, "0"},
		{[]string{"disk", "devices=" + disk, "elevator=anticipatory"}, "anticipatory"},
		{[]string{"vm", "transparent_hugepages=sometimes"}, "sometimes"},
		{[]string{"cpu", "pm_qos_resume_latency_us=-1"}, "-1"},
	} {
		refused := 0
		for _, step := range stepsLive(t, h, tt.unit) {
			if step.Action != tune.None || step.Verdict != engineplugin.Rejected && step.Verdict != engineplugin.Unsupported {
				t.Errorf("%v is planned: %s = %s, %s", tt.unit, step.Setting, step.Want, step.Verdict)
				continue
			}
			refused++
			if err := Kinds(h).Write(context.Background(), step.Setting, setting.Text(tt.value)); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%v is refused (%s), and the kernel answers %v to %s = %s", tt.unit, step.Why, err, step.Setting, tt.value)
			}
		}
		if refused == 0 {
			t.Errorf("%v: the plan refuses nothing", tt.unit)
		}
	}
}

// inBytes sets both write-back limits in bytes until the test ends.
func inBytes(t *testing.T, h *host.Host) {
	t.Helper()
	ctx, kinds := context.Background(), Kinds(h)
	for _, limit := range []string{"vm.dirty_", "vm.dirty_background_"} {
		before := map[setting.Setting]setting.Value{}
		for _, spelling := range []string{"ratio", "bytes"} {
			s := setting.Setting{Kind: "sysctl", Name: limit + spelling}
			v, err := kinds.Read(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			before[s] = v
		}
		t.Cleanup(func() {
			for s, v := range before {
				if !setting.Zero(v) {
					if err := kinds.Write(ctx, s, v); err != nil {
						t.Error(err)
					}
				}
			}
		})
		if err := kinds.Write(ctx, setting.Setting{Kind: "sysctl", Name: limit + "bytes"}, setting.Text("104857600")); err != nil {
			t.Fatal(err)
		}
	}
}

// stepsLive returns the whole plan of a unit, with verdicts that no single plug-in can give.
func stepsLive(t *testing.T, h *host.Host, unit []string) []tune.Step {
	t.Helper()
	e := &tune.Engine{Host: h, Kinds: Kinds(h), Plugins: All, StateDir: t.TempDir(), Main: profile.DefaultMain(), Holds: true}
	p := &profile.Profile{Names: []string{"test"}, Units: []profile.Unit{*plugin.Unit(unit[0], unit[1:]...)}}
	plan, err := e.PlanProfile(context.Background(), p, &journal.State{})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Steps
}

func planLive(t *testing.T, h *host.Host, unit []string) []engineplugin.Item {
	t.Helper()
	pl, ok := engineplugin.Find(All, unit[0])
	if !ok {
		t.Fatalf("no plug-in %s", unit[0])
	}
	return plugin.Items(t, *pl, h, Kinds(h), plugin.Unit(unit[0], unit[1:]...))
}

func writeAndRestore(t *testing.T, kinds setting.Kinds, it engineplugin.Item, name string) {
	t.Helper()
	ctx := context.Background()
	s, err := kinds.Resolve(it.Change.Setting)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := kinds.For(s)
	if err != nil {
		t.Fatal(err)
	}
	places := append([]setting.Setting{s}, kind.Coupled(s)...)
	before := map[setting.Setting]setting.Value{}
	for _, p := range places {
		if v, err := kinds.Read(ctx, p); err == nil && !v.Absent {
			before[p] = v
		}
	}
	if err := kind.Write(ctx, s, it.Change.Want); err != nil {
		t.Errorf("%s: %s: %v", name, plugin.Line(it), err)
	} else if now, err := kind.Read(ctx, s); err != nil || !kind.Equal(now, it.Change.Want) {
		t.Errorf("%s: %s: the kernel kept %s (%v)", name, plugin.Line(it), now, err)
	}
	// Twice, because of two coupled places the later write can undo the first.
	for range 2 {
		for _, p := range slices.Backward(places) {
			if v, ok := before[p]; ok {
				if now, err := kinds.Read(ctx, p); err == nil && !kinds.Equal(p, now, v) {
					_ = kinds.Write(ctx, p, v)
				}
			}
		}
	}
	for p, v := range before {
		if now, err := kinds.Read(ctx, p); err != nil || !kinds.Equal(p, now, v) {
			t.Errorf("%s: %s was %s and is left at %s (%v)", name, p, v, now, err)
		}
	}
}

// idleLoop is a loop device without a backing file.
func idleLoop(t *testing.T, h *host.Host) string {
	t.Helper()
	entries, err := h.Files.ReadDir("/sys/block")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		dir := "/sys/block/" + e.Name()
		if strings.HasPrefix(e.Name(), "loop") && !engineplugin.Exists(h, dir+"/loop/backing_file") && len(engineplugin.Choices(h, dir+"/queue/scheduler")) > 1 {
			return e.Name()
		}
	}
	root.Missing(t, "this machine has no unused loop device; run: modprobe loop")
	return ""
}
