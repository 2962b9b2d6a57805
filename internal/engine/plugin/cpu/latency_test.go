package cpu

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestLimitFor(t *testing.T) {
	low, high := setting.Text("100"), setting.Text("1000")
	for _, tt := range []struct {
		load, threshold float64
		want            setting.Value
	}{
		{0, 0.2, high}, {0.19, 0.2, high}, {0.2, 0.2, low}, {0.21, 0.2, low}, {64, 0.2, low},
		{0, 0, low}, {99.99, 100, high},
	} {
		if got := limitFor(tt.load, tt.threshold, low, high); got != tt.want {
			t.Errorf("load %v, threshold %v: %s, want %s", tt.load, tt.threshold, got, tt.want)
		}
	}
}

func TestDynamic(t *testing.T) {
	idle := "/sys/devices/system/cpu/cpu0/cpuidle/"
	tree := map[string]string{
		dmaLatencyFile: "", "/proc/loadavg": "0.10 0 0 1/1 1\n", "/sys/devices/system/cpu/cpu0/x": "",
		idle + "state0/name": "POLL\n", idle + "state0/latency": "0\n", idle + "state1/name": "C6\n", idle + "state1/latency": "170\n",
	}
	place := KindName + ":" + dmaLatency
	later := func(r *plugin.Request) { r.Later = true }
	for _, tt := range []struct {
		name   string
		lines  []string
		change []func(*plugin.Request)
		values []setting.Value // nil: no loop
		items  []string
	}{
		{"defaults", nil, nil, []setting.Value{setting.Text("100"), setting.Text("1000")}, nil},
		{"idle states", []string{"latency_low=cstate.id:9|cstate.name:POLL", "latency_high=cstate.name:C6"}, nil, []setting.Value{setting.Text("0"), setting.Text("170")}, nil},
		{"no limit at rest", []string{"latency_high=None"}, nil, []setting.Value{setting.Text("100"), setting.Text("2000000000")}, nil},
		{"a limit of its own", []string{"force_latency=3", "load_threshold=0.5"}, nil, nil, nil},
		{"a limit per CPU", []string{"pm_qos_resume_latency_us=30"}, nil, nil, nil},
		{"not the first unit", []string{"load_threshold=0.5"}, []func(*plugin.Request){later}, nil,
			[]string{place + " ! overridden: load_threshold applies to the whole machine; only the first section of type cpu sets it"}},
		{"nonsense", []string{"load_threshold=high", "latency_low=-1", "latency_high=C6"}, nil, nil, []string{
			place + ` ! rejected: "high" is not a value for load_threshold: want a load, such as 0.2`,
			place + ` ! rejected: "-1" is not a value for latency_low: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`,
			place + ` ! rejected: "C6" is not a value for latency_high: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`,
		}},
	} {
		h := machine.Mounted(t, tree)
		loops, items := testkitplugin.Loops(t, CPU, h, map[string]setting.Kind{KindName: NewPMQoS(h)}, testkitplugin.Unit("cpu", tt.lines...), tt.change...)
		if diff := cmp.Diff(tt.items, items); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		var values []setting.Value
		for _, l := range loops {
			values = append(values, l.Places[0].Values...)
		}
		if diff := cmp.Diff(tt.values, values); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
	delete(tree, dmaLatencyFile)
	loops, items := testkitplugin.Loops(t, CPU, machine.Mounted(t, tree), nil, testkitplugin.Unit("cpu", "load_threshold=0.2"))
	if len(loops) != 0 || len(items) != 1 {
		t.Errorf("a machine without limits: %d loops, %v", len(loops), items)
	}
}

var place = setting.Setting{Kind: KindName, Name: dmaLatency}

func effective(t *testing.T, k setting.Kind) string {
	t.Helper()
	v, err := k.Read(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	return v.Text
}

// TestHoldOnThisMachine tests that the kernel combines the limits of all requests, which a plain
// file cannot show.
func TestHoldOnThisMachine(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	h := host.Live()
	if _, err := h.Files.Stat(dmaLatencyFile); errors.Is(err, fs.ErrNotExist) {
		root.Missing(t, "this machine has no %s", dmaLatencyFile)
	}
	ours, other := NewPMQoS(h), NewPMQoS(h)
	before := effective(t, ours)
	if n, err := strconv.Atoi(before); err != nil || n < 100 {
		root.Missing(t, "another process holds a latency of %s µs on this machine (see who has /dev/cpu_dma_latency open)", before)
	}
	write := func(k setting.Kind, v setting.Value, want string) {
		t.Helper()
		if err := k.Write(ctx, place, v); err != nil {
			t.Fatal(err)
		}
		if got := effective(t, ours); got != want {
			t.Fatalf("after writing %s the limit is %s µs, want %s", v, got, want)
		}
	}
	write(ours, setting.Text("70"), "70")
	write(ours, setting.Text("30"), "30") // through the same descriptor
	write(other, setting.Text("10"), "10")
	write(ours, setting.Text("50"), "10") // the least of both
	write(other, setting.Absent, "50")
	write(ours, setting.Absent, before)
	// Another process has the limit when ours is first set, as the script of an upgrade while the
	// daemon restarts. Later the same value is ours.
	write(other, setting.Text("30"), "30")
	write(ours, setting.Text("30"), "30")
	write(other, setting.Absent, "30")
	write(ours, setting.Text("70"), "70")
	write(ours, setting.Text("30"), "30")
	write(ours, setting.Text(strconv.Itoa(noLimit)), before)
	testkitplugin.Proves(t, testkitplugin.Here(), "cpu", "force_latency")
}

func TestPMQoSRefuses(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/dev/cpu_dma_latency": "\x00\x94\x35\x77"})
	k := NewPMQoS(h)
	if got := effective(t, k); got != strconv.Itoa(noLimit) {
		t.Errorf("no limit reads %s, want %d", got, noLimit)
	}
	for _, bad := range []string{"-1", "x", "", "4294967296"} {
		if err := k.Write(context.Background(), place, setting.Text(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := k.Resolve(setting.Setting{Kind: KindName, Name: "network_latency"}); err == nil {
		t.Error("another name was taken")
	}
	if v, err := NewPMQoS(machine.Mounted(t, nil)).Read(context.Background(), place); err != nil || !v.Absent {
		t.Errorf("a machine without the device reads %v (%v)", v, err)
	}
}
