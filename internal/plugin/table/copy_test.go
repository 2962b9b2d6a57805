package table

import (
	"testing"

	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/undotest"
)

// TestNothingRecorded: a copy that does not record what a plug-in looks for does not
// say that the machine lacks it.
func TestNothingRecorded(t *testing.T) {
	h := hosttest.Copy(t, map[string]string{"/proc/version": "Linux\n"})
	for _, c := range []struct{ name, line string }{
		{"irqbalance", "banned_cpus=1"},
		{"selinux", "avc_cache_threshold=8192"},
		{"systemd", "cpu_affinity=1"},
		{"bootloader", "cmdline=+isolcpus=1"},
		{"acpi", "platform_profile=performance"},
		{"script", "script=/etc/tuned/x/a.sh"},
	} {
		pl, ok := plugin.Find(All, c.name)
		if !ok {
			t.Fatalf("no plug-in %s", c.name)
		}
		items, err := undotest.TryPlan(pl, h, Kinds(h), c.line)
		if err != nil || len(items) == 0 {
			t.Errorf("[%s] %s: %v %v", c.name, c.line, items, err)
			continue
		}
		if it := items[0]; it.Verdict != plugin.Unknown {
			t.Errorf("[%s] %s: %s (%s), want unknown", c.name, c.line, it.Verdict, it.Why)
		}
	}
}
