package cpu

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func systemdTree(more map[string]string) map[string]string {
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
			h := machine.Mounted(t, systemdTree(more))
			kinds := plugin.Kinds(h, SystemdKinds(h))
			before := plugin.Snapshot(t, h)
			images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Systemd, h, kinds, "cpu_affinity=0,2-3,5"))
			b, err := h.Files.ReadFile(confFile)
			if err != nil || !strings.HasSuffix(string(b), "[Manager]\nCPUAffinity=\nCPUAffinity=0 2 3 5\n") {
				t.Errorf("%s: %q, %v", confFile, b, err)
			}
			plugin.Undo(t, kinds, images)
			if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSystemdPlan(t *testing.T) {
	h := machine.Mounted(t, systemdTree(map[string]string{confDir + "/": ""}))
	kinds := plugin.Kinds(h, SystemdKinds(h))
	for value, want := range map[string][]string{
		`"0-3,^2"`: {"manager:CPUAffinity = 0-1,3"},
		"0x0f":     {"manager:CPUAffinity = 0-3"},
		"":         nil,
		"9-10":     {"manager:CPUAffinity unsupported: the machine has only CPUs 0-7"},
	} {
		if d := cmp.Diff(want, plugin.Lines(plugin.PlanUndotest(t, &Systemd, h, kinds, "cpu_affinity="+value))); d != "" {
			t.Errorf("%q: %s", value, d)
		}
	}
	if _, err := plugin.TryPlan(&Systemd, h, kinds, "cpu_affinity=all of them"); err == nil {
		t.Error("words were taken as CPUs")
	}
	h = machine.Mounted(t, map[string]string{"/etc/": ""})
	got := plugin.Lines(plugin.PlanUndotest(t, &Systemd, h, plugin.Kinds(h, SystemdKinds(h)), "cpu_affinity=1"))
	if len(got) != 1 || !strings.Contains(got[0], "unsupported") {
		t.Error(got)
	}
}

func TestEditedFileIsLeft(t *testing.T) {
	h := machine.Mounted(t, systemdTree(map[string]string{confFile: "[Manager]\nCPUAffinity=\nCPUAffinity=1\nLogLevel=debug\n"}))
	k := SystemdKinds(h)["manager"]
	if _, err := k.Read(context.Background(), systemdAffinity); err == nil {
		t.Error("read as ours")
	}
	for _, v := range []setting.Value{setting.Absent, setting.Text("1")} {
		if err := k.Write(context.Background(), systemdAffinity, v); err == nil {
			t.Error("overwritten")
		}
	}
}

func TestEffect(t *testing.T) {
	h := machine.Mounted(t, systemdTree(nil))
	k := SystemdKinds(h)["manager"].(manager)
	for list, want := range map[string]engineplugin.Verdict{"0-7": engineplugin.OK, "0-5": engineplugin.OK, "0-3": engineplugin.NeedsReboot} {
		if v, why := k.Effect(context.Background(), systemdAffinity, setting.Text(list)); v != want {
			t.Errorf("%s: %s (%s)", list, v, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# From the active profile; fettle undo removes this file.\n[Manager]\nCPUAffinity=\nCPUAffinity=0 1\n")
	f.Add("\nCPUAffinity=\nCPUAffinity=")
	f.Fuzz(func(t *testing.T, text string) {
		if cpus, err := parse(text); err == nil && render(cpus) != text {
			t.Errorf("%q", text)
		}
	})
}
