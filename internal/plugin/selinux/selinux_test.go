package selinux

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/plugin/undotest"
)

func TestThreshold(t *testing.T) {
	h := hosttest.Mounted(t, map[string]string{threshold: "512"})
	kinds := undotest.Kinds(h)
	before := undotest.Snapshot(t, h)
	items := undotest.Plan(t, &Plugin, h, kinds, "avc_cache_threshold= 8192 ")
	if d := cmp.Diff([]string{"sysfs:" + threshold + " = 8192"}, undotest.Lines(items)); d != "" {
		t.Error(d)
	}
	images := undotest.Apply(t, kinds, items)
	if b, _ := h.Files.ReadFile(threshold); string(b) != "8192" {
		t.Errorf("reads %q", b)
	}
	undotest.Undo(t, kinds, images)
	if d := cmp.Diff(before, undotest.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"-1", "many", "1e3"} {
		if _, err := undotest.TryPlan(&Plugin, h, kinds, "avc_cache_threshold="+bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if items := undotest.Plan(t, &Plugin, h, kinds, "avc_cache_threshold=none"); len(items) > 0 {
		t.Error(items)
	}
}

func TestWithoutSELinux(t *testing.T) {
	h := hosttest.Mounted(t, map[string]string{"/sys/fs/": ""})
	got := undotest.Lines(undotest.Plan(t, &Plugin, h, undotest.Kinds(h), "avc_cache_threshold=8192"))
	if d := cmp.Diff([]string{"sysfs:" + threshold + " unsupported: SELinux is not enabled here"}, got); d != "" {
		t.Error(d)
	}
}
