package table

import (
	"errors"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// TestNothingRecorded tests that a copy that does not record a plug-in's files does not count as a
// machine without them.
func TestNothingRecorded(t *testing.T) {
	h := machine.Copy(t, map[string]string{"/proc/version": "Linux\n"})
	for _, c := range []struct{ name, line string }{
		{"irqbalance", "banned_cpus=1"},
		{"selinux", "avc_cache_threshold=8192"},
		{"systemd", "cpu_affinity=1"},
		{"bootloader", "cmdline=+isolcpus=1"},
		{"acpi", "platform_profile=performance"},
		{"script", "script=/etc/tuned/x/a.sh"},
		{"modules", "loop=max_loop=8"},
		{"modules", "loop="},
	} {
		pl, ok := plugin.Find(All, c.name)
		if !ok {
			t.Fatalf("no plug-in %s", c.name)
		}
		items, err := testkitplugin.TryPlan(pl, h, Kinds(h), c.line)
		if err != nil || len(items) == 0 {
			t.Errorf("[%s] %s: %v %v", c.name, c.line, items, err)
			continue
		}
		if it := items[0]; it.Verdict != plugin.Unknown {
			t.Errorf("[%s] %s: %s (%s), want unknown", c.name, c.line, it.Verdict, it.Why)
		}
	}
}

// ownPlaces are settings whose presence depends on fettle's own files or on a driver.
var ownPlaces = []string{
	"manager:CPUAffinity", "modprobe:loop", "module:loop", "bootloader:grub:/boot/grub/grub.cfg", "bootloader:bootc", "bootloader:grubenv",
	"bootvars:/boot/loader/entries/a.conf", "initrd:/boot/overlay.img", "pmqos:cpu_dma_latency", "eeepc:cpufv", "file:/etc/fettle/x", "dir:/etc/modprobe.d",
	"unit:cron.service/enabled", "sysctl:vm.swappiness", "sysfs:/sys/kernel/mm/ksm/run", "cpus_irqbalance:/etc/default/irqbalance",
}

// TestOwnFilesNotRecorded tests that a file that a copy does not record is not absent. A whole root
// file system is complete: fettle's own files are absent if they are missing.
func TestOwnFilesNotRecorded(t *testing.T) {
	few := machine.Copy(t, map[string]string{"/proc/version": "Linux\n"})
	grub := machine.Copy(t, map[string]string{"/etc/default/grub": "GRUB_TIMEOUT=5\n", "/boot/grub/grub.cfg": "x\n"})
	for _, place := range ownPlaces {
		s, err := setting.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Kinds(few).For(s); errors.Is(err, setting.ErrUnknownKind) {
			continue
		}
		for _, h := range []*host.Host{few, grub} {
			if v, err := Kinds(h).Read(t.Context(), s); err == nil {
				t.Errorf("%s reads %s", s, v)
			}
		}
	}
	whole := machine.Copy(t, map[string]string{
		"/bin/sh": "#!/bin/true\n", "/etc/passwd": "x\n", "/etc/default/grub": "GRUB_TIMEOUT=5\n", "/boot/": "", "/proc/": "", "/sys/": "", "/dev/": "",
	})
	for place, absent := range map[string]bool{
		"manager:CPUAffinity": true, "modprobe:loop": true, "file:/etc/fettle/x": true, "bootloader:grub:/boot/grub/grub.cfg": true,
		"initrd:/boot/overlay.img": false, "module:loop": false, "pmqos:cpu_dma_latency": false, "eeepc:cpufv": false, "sysctl:vm.swappiness": false,
	} {
		s, _ := setting.Parse(place)
		if v, err := Kinds(whole).Read(t.Context(), s); (err == nil && v.Absent) != absent {
			t.Errorf("whole root: %s: %s, %v", s, v, err)
		}
	}
}
