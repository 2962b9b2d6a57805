package eeepc_she

import (
	"testing"

	"fettle.dev/fettle/internal/plugin/plugintest"
)

func TestControlFile(t *testing.T) {
	for _, driver := range []string{"eeepc", "eeepc-wmi"} {
		want := "/sys/devices/platform/" + driver + "/cpufv"
		if got, ok := ControlFile(plugintest.Tree(t, map[string]string{want: "0x301\n"})); !ok || got != want {
			t.Errorf("%s: got %q, %v", driver, got, ok)
		}
	}
	if got, ok := ControlFile(plugintest.Tree(t, nil)); ok {
		t.Errorf("another machine has %q", got)
	}
}

// Static tuning has nothing to plan.
func TestOnlyDynamic(t *testing.T) {
	h := plugintest.Tree(t, map[string]string{"/sys/devices/platform/eeepc/cpufv": "0x301\n"})
	u := plugintest.Unit("eeepc_she", "load_threshold_normal=0.7", "load_threshold_powersave=0.3", "she_powersave=2", "she_normal=0")
	if got := plugintest.Plan(t, Plugin, h, u); len(got) != 0 {
		t.Errorf("planned %q", got)
	}
}
