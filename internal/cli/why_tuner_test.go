package cli

import (
	"bytes"
	"strings"
	"testing"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// What the kernel itself does to a value is said, and that a profile's devices are not known.
func TestWhyOfCopies(t *testing.T) {
	const policy = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference"
	tuned := map[string]string{
		"proc/4711/cmdline": "/usr/bin/python3\x00-Es\x00/usr/sbin/tuned\x00", "proc/4711/comm": "tuned\n", "proc/4711/status": "Name:\ttuned\nUid:\t0\t0\t0\t0\n",
		"etc/tuned/active_profile": "mine\n", "etc/tuned/profile_mode": "manual\n",
	}
	for _, c := range []struct {
		name, setting string
		tuned         bool
		files         map[string]string
		want          string
	}{
		{"other spelling", "vm.dirty_background_ratio", false, map[string]string{"proc/sys/vm/dirty_background_ratio": "0\n", "proc/sys/vm/dirty_background_bytes": "67108864\n"},
			"vm.dirty_background_bytes = 67108864 is the limit in force"},
		{"other spelling in kB", "vm.overcommit_ratio", false, map[string]string{"proc/sys/vm/overcommit_ratio": "0\n", "proc/sys/vm/overcommit_kbytes": "1000000\n"},
			"vm.overcommit_kbytes = 1000000 is the limit in force"},
		{"recalculated", "vm.min_free_kbytes", false, map[string]string{"proc/sys/vm/min_free_kbytes": "45056\n", "etc/sysctl.d/9.conf": "vm.min_free_kbytes = 30000\n"},
			"its value is 45056, not 30000 from /etc/sysctl.d/9.conf:1: the kernel recalculates it when transparent huge pages"},
		{"devices unknown", "/" + policy, true, map[string]string{policy: "balance_power\n", "etc/tuned/mine/tuned.conf": "[cpu]\nenergy_performance_preference=balance_power\n"},
			"TuneD (profile mine) is running and may set this: cannot determine which files or devices [cpu] energy_performance_preference applies to"},
		{"another plug-in's devices unknown", "vm.swappiness", true, map[string]string{"proc/sys/vm/swappiness": "5\n", "etc/tuned/mine/tuned.conf": "[cpu]\ngovernor=performance\n"},
			"TuneD (profile mine) is running: no line of its profile sets this setting"},
	} {
		dir := t.TempDir()
		testkitmachine.Write(t, dir, c.files)
		if c.tuned {
			testkitmachine.Write(t, dir, tuned)
		}
		var out, errs bytes.Buffer
		a := &app{root: dir, screen: ui.NewScreen(&out, &errs)}
		if err := a.why(t.Context(), c.setting); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s%s\nwant %q", c.name, err, &out, &errs, c.want)
		}
	}
}
