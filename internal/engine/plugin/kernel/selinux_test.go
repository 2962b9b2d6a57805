package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestThreshold(t *testing.T) {
	h := machine.Mounted(t, map[string]string{threshold: "512"})
	kinds := plugin.Kinds(h)
	before := plugin.Snapshot(t, h)
	items := plugin.PlanUndotest(t, &SELinux, h, kinds, "avc_cache_threshold= 8192 ")
	if d := cmp.Diff([]string{"sysfs:" + threshold + " = 8192"}, plugin.Lines(items)); d != "" {
		t.Error(d)
	}
	images := plugin.Apply(t, kinds, items)
	if b, _ := h.Files.ReadFile(threshold); string(b) != "8192" {
		t.Errorf("reads %q", b)
	}
	plugin.Undo(t, kinds, images)
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"-1", "many", "1e3"} {
		if _, err := plugin.TryPlan(&SELinux, h, kinds, "avc_cache_threshold="+bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if items := plugin.PlanUndotest(t, &SELinux, h, kinds, "avc_cache_threshold=none"); len(items) > 0 {
		t.Error(items)
	}
}

func TestWithoutSELinux(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/sys/fs/": ""})
	got := plugin.Lines(plugin.PlanUndotest(t, &SELinux, h, plugin.Kinds(h), "avc_cache_threshold=8192"))
	if d := cmp.Diff([]string{"sysfs:" + threshold + " unsupported: SELinux is not enabled here"}, got); d != "" {
		t.Error(d)
	}
}
