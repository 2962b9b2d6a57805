package systemd

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/undotest"
	"fettle.dev/fettle/internal/setting"
)

func tree(more map[string]string) map[string]string {
	files := map[string]string{
		"/etc/systemd/system.conf": "[Manager]\n", "/sys/devices/system/cpu/possible": "0-7\n", "/sys/devices/system/cpu/online": "0-5\n",
		"/proc/1/status": "Name:\tsystemd\nCpus_allowed:\t3f\nCpus_allowed_list:\t0-5\n",
	}
	for p, c := range more {
		files[p] = c
	}
	return files
}

func TestAffinity(t *testing.T) {
	for name, more := range map[string]map[string]string{
		"no directory": nil, "a directory": {confDir + "/": ""}, "others": {confDir + "/00-tuned.conf": "[Manager]\nCPUAffinity=1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Mounted(t, tree(more))
			kinds := undotest.Kinds(h, Kinds(h))
			before := undotest.Snapshot(t, h)
			images := undotest.Apply(t, kinds, undotest.Plan(t, &Plugin, h, kinds, "cpu_affinity=0,2-3,5"))
			b, err := h.Files.ReadFile(confFile)
			if err != nil || !strings.HasSuffix(string(b), "[Manager]\nCPUAffinity=\nCPUAffinity=0 2 3 5\n") {
				t.Errorf("%s: %q, %v", confFile, b, err)
			}
			undotest.Undo(t, kinds, images)
			if d := cmp.Diff(before, undotest.Snapshot(t, h)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	h := hosttest.Mounted(t, tree(map[string]string{confDir + "/": ""}))
	kinds := undotest.Kinds(h, Kinds(h))
	for value, want := range map[string][]string{
		`"0-3,^2"`: {"manager:CPUAffinity = 0-1,3"},
		"0x0f":     {"manager:CPUAffinity = 0-3"},
		"":         nil,
		"9-10":     {"manager:CPUAffinity unsupported: the machine has CPUs 0-7 and none of these"},
	} {
		if d := cmp.Diff(want, undotest.Lines(undotest.Plan(t, &Plugin, h, kinds, "cpu_affinity="+value))); d != "" {
			t.Errorf("%q: %s", value, d)
		}
	}
	if _, err := undotest.TryPlan(&Plugin, h, kinds, "cpu_affinity=all of them"); err == nil {
		t.Error("words were taken as CPUs")
	}
	h = hosttest.Mounted(t, map[string]string{"/etc/": ""})
	got := undotest.Lines(undotest.Plan(t, &Plugin, h, undotest.Kinds(h, Kinds(h)), "cpu_affinity=1"))
	if len(got) != 1 || !strings.Contains(got[0], "unsupported") {
		t.Error(got)
	}
}

func TestEditedFileIsLeft(t *testing.T) {
	h := hosttest.Mounted(t, tree(map[string]string{confFile: "[Manager]\nCPUAffinity=\nCPUAffinity=1\nLogLevel=debug\n"}))
	k := Kinds(h)["manager"]
	if _, err := k.Read(context.Background(), affinity); err == nil {
		t.Error("read as ours")
	}
	for _, v := range []setting.Value{setting.Absent, setting.Text("1")} {
		if err := k.Write(context.Background(), affinity, v); err == nil {
			t.Error("overwritten")
		}
	}
}

func TestEffect(t *testing.T) {
	h := hosttest.Mounted(t, tree(nil))
	k := Kinds(h)["manager"].(manager)
	for list, want := range map[string]plugin.Verdict{"0-7": plugin.OK, "0-5": plugin.OK, "0-3": plugin.NeedsReboot} {
		if v, why := k.Effect(context.Background(), affinity, setting.Text(list)); v != want {
			t.Errorf("%s: %s (%s)", list, v, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# From the profile in force; fettle undo removes this file.\n[Manager]\nCPUAffinity=\nCPUAffinity=0 1\n")
	f.Add("\nCPUAffinity=\nCPUAffinity=")
	f.Fuzz(func(t *testing.T, text string) {
		if cpus, err := parse(text); err == nil && render(cpus) != text {
			t.Errorf("%q", text)
		}
	})
}
