package tune_test

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestUndoNamesWhatRemains: an undo names huge pages that programs still use, and values that
// this boot was started with.
func TestUndoNamesWhatRemains(t *testing.T) {
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
	for name, c := range map[string]struct {
		surplus string
		booted  plugin.Verdict // of the value that is undone
		want    map[string]string
	}{
		"nothing":         {"0", plugin.NeedsReboot, nil},
		"huge pages":      {"12", plugin.NeedsReboot, map[string]string{"sysctl:vm.nr_hugepages": "12 huge pages are in use; the kernel frees them when their programs end"}},
		"the boot has it": {"0", plugin.OK, map[string]string{"boot:/etc/boot.conf": "restored in its file; this boot was started with the other value, which stays in force until the next reboot"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := sysctls("vm.nr_hugepages", "0", "vm.swappiness", "60")
			files["/proc/meminfo"], files["/etc/boot.conf"] = "Hugepagesize: 2048 kB", "quiet"
			files[pool+"surplus_hugepages"], files[pool+"nr_hugepages"] = "0", "0"
			h, dir := fakeMachine(t, files)
			e := newEngine(t, h)
			e.Kinds["boot"] = bootFile{setting.NewFile(h, setting.Reboot), c.booted}
			file := set("", "isolcpus=1\n")
			file.Setting = setting.Setting{Kind: "boot", Name: "/etc/boot.conf"}
			apply(t, e, journal.Apply, set("vm.nr_hugepages", "16"), set("vm.swappiness", "10"), file)
			machine.WriteFile(t, dir, pool+"surplus_hugepages", c.surplus+"\n")
			got := map[string]string{}
			for _, r := range undo(t, e).Remains {
				got[r.Setting.String()] = r.Why
			}
			if len(got) != len(c.want) {
				t.Errorf("remains %v, want %v", got, c.want)
			}
			for s, why := range c.want {
				if got[s] != why {
					t.Errorf("%s: %q, want %q", s, got[s], why)
				}
			}
		})
	}
}

// bootFile is a file that is read at boot; verdict says whether this boot has the tuned content.
type bootFile struct {
	setting.Kind
	verdict plugin.Verdict
}

func (k bootFile) Lifetime() setting.Lifetime { return setting.Reboot }

func (k bootFile) Effect(context.Context, setting.Setting, setting.Value) (plugin.Verdict, string) {
	return k.verdict, ""
}
