package cpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
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
	place := KindName + ":" + DMALatency
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
			[]string{place + " ! overridden: load_threshold is for the whole machine, and only the first unit of type cpu decides on it"}},
		{"nonsense", []string{"load_threshold=high", "latency_low=-1", "latency_high=C6"}, nil, nil, []string{
			place + ` ! rejected: "high" is no value for load_threshold: want a load, such as 0.2`,
			place + ` ! rejected: "-1" is no value for latency_low: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`,
			place + ` ! rejected: "C6" is no value for latency_high: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`,
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
