package device

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestACPIPlan(t *testing.T) {
	laptop := map[string]string{
		"/sys/firmware/acpi/platform_profile":         "balanced\n",
		"/sys/firmware/acpi/platform_profile_choices": "quiet balanced performance\n",
	}
	guest := map[string]string{"/proc/cpuinfo": "flags\t: fpu hypervisor\n"}
	const s = "sysfs:" + acpiPlace
	for _, tt := range []struct {
		tree        map[string]string
		value, want string
	}{
		{laptop, "performance", s + " = performance"},
		{laptop, "low-power|quiet", s + " = quiet"},
		{laptop, "low-power | cool", s + " ! unsupported: the firmware offers only quiet, balanced, performance"},
		{laptop, "|quiet", s + ` ! rejected: "|quiet" is not a value for platform_profile: want a profile such as balanced, or alternatives a|b`},
		{nil, "performance", s + " ! unsupported: the firmware of this machine offers no platform profiles"},
		{guest, "performance", s + " ! unsupported: this machine is a guest; only physical machines have platform profiles"},
	} {
		got := plugin.PlanPlugintest(t, ACPI, machine.Mounted(t, tt.tree), plugin.Unit("acpi", "platform_profile="+tt.value))
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.value, diff)
		}
	}
}

func TestAudioPlan(t *testing.T) {
	const hda, ac97 = "/sys/module/snd_hda_intel/parameters/", "/sys/module/snd_ac97_codec/parameters/"
	tree := map[string]string{
		"/sys/devices/pci0/00:1f.3/driver":             "-> ../../../bus/pci/drivers/snd_hda_intel",
		"/sys/devices/pci0/00:1f.3/sound/card0/device": "-> ../..",
		"/sys/devices/pci0/00:1f.4/driver":             "-> ../../../bus/pci/drivers/snd_hda_intel",
		"/sys/devices/pci0/00:1f.4/sound/card1/device": "-> ../..",
		"/sys/devices/usb1/1-1/driver":                 "-> ../../../bus/usb/drivers/snd-usb-audio",
		"/sys/devices/usb1/1-1/sound/card2/device":     "-> ../..",
		"/sys/devices/pci0/00:1f.5/driver":             "-> ../../../bus/pci/drivers/snd_ac97_codec",
		"/sys/devices/pci0/00:1f.5/sound/card3/device": "-> ../..",
		"/sys/class/sound/card0":                       "-> ../../devices/pci0/00:1f.3/sound/card0",
		"/sys/class/sound/card1":                       "-> ../../devices/pci0/00:1f.4/sound/card1",
		"/sys/class/sound/card2":                       "-> ../../devices/usb1/1-1/sound/card2",
		"/sys/class/sound/card3":                       "-> ../../devices/pci0/00:1f.5/sound/card3",
		"/sys/class/sound/controlC0/":                  "",
		hda + "power_save":                             "1\n",
		hda + "power_save_controller":                  "Y\n",
		ac97 + "power_save":                            "0\n",
	}
	for _, tt := range []struct {
		tree  map[string]string
		lines []string
		want  []string
	}{
		{tree, []string{"timeout=10"}, []string{
			"sysfs:" + hda + "power_save_controller = 1 # reset_controller=true is the default",
			"sysfs:" + ac97 + "power_save = 10", "sysfs:" + hda + "power_save = 10"}},
		{tree, []string{"devices=*hda*"}, []string{
			"sysfs:" + hda + "power_save = 0 # timeout=0 is the default",
			"sysfs:" + hda + "power_save_controller = 1 # reset_controller=true is the default"}},
		{tree, []string{"devices=*hda*", "reset_controller=0"}, []string{
			"sysfs:" + hda + "power_save = 0 # timeout=0 is the default", "sysfs:" + hda + "power_save_controller = 0"}},
		{tree, []string{"devices=*hda*", "timeout=0", "reset_controller=0"}, []string{
			"sysfs:" + hda + "power_save = 0", "sysfs:" + hda + "power_save_controller = 0"}},
		{tree, []string{"devices=*ac97*", "reset_controller=1"}, []string{
			"sysfs:" + ac97 + "power_save = 0 # timeout=0 is the default",
			"sysfs:" + ac97 + "power_save_controller ! unsupported: the module snd_ac97_codec has no controller to put to sleep"}},
		{tree, []string{"devices=*hda*", "timeout=-1", "reset_controller=maybe"}, []string{
			"sysfs:" + hda + `power_save ! rejected: "-1" is not a value for timeout: want seconds, 0 or more`,
			"sysfs:" + hda + `power_save_controller ! rejected: "maybe" is not a value for reset_controller: want true or false`}},
		{nil, []string{"timeout=10"}, []string{"p.conf:1: [audio] does nothing: this machine has no unassigned audio device"}},
	} {
		got := plugin.PlanPlugintest(t, Audio, machine.Mounted(t, tt.tree), plugin.Unit("audio", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func TestSCSIHostPlan(t *testing.T) {
	host := func(n, cmd, policy string) map[string]string {
		files := map[string]string{
			"/sys/bus/scsi/devices/" + n + "/uevent":   "DEVTYPE=scsi_host\n",
			"/sys/class/scsi_host/" + n + "/unique_id": "0\n",
		}
		if cmd != "" {
			files["/sys/class/scsi_host/"+n+"/ahci_port_cmd"] = cmd
		}
		if policy != "" {
			files["/sys/class/scsi_host/"+n+"/link_power_management_policy"] = policy
		}
		return files
	}
	tree := plugin.Join(
		host("host0", "c017\n", "max_performance\n"), host("host1", "40006\n", "max_performance\n"),
		host("host2", "200006\n", "max_performance\n"), host("host10", "", ""), host("host3", "", "max_performance\n"),
		map[string]string{"/sys/bus/scsi/devices/0:0:0:0/uevent": "DEVTYPE=scsi_device\n", "/sys/bus/scsi/devices/target0:0:0/uevent": "DEVTYPE=scsi_target\n"})
	at := func(n string) string { return "sysfs:/sys/class/scsi_host/" + n + "/link_power_management_policy" }
	for _, tt := range []struct {
		lines []string
		want  []string
	}{
		{[]string{"alpm=med_power_with_dipm"}, []string{
			at("host0") + " = med_power_with_dipm",
			at("host1") + " ! unsupported: host1 is hot-pluggable; with link power management it would not notice a removed disk",
			at("host2") + " ! unsupported: host2 is hot-pluggable; with link power management it would not notice a removed disk",
			at("host3") + " = med_power_with_dipm",
			at("host10") + " ! unsupported: host10 is not a SATA port with link power management (AHCI)"}},
		{[]string{"devices=host0", "alpm=min_power_with_partial"}, []string{at("host0") + " = min_power_with_partial"}},
		{[]string{"devices=host0", "alpm=low"}, []string{
			at("host0") + ` ! rejected: "low" is not a value for alpm: want max_performance, medium_power, med_power_with_dipm, min_power_with_partial or min_power`}},
	} {
		got := plugin.PlanPlugintest(t, SCSIHost, machine.Mounted(t, tree), plugin.Unit("scsi_host", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func domain(name, low, high, min, max string) map[string]string {
	d := uncoreDir + "/" + name + "/"
	return map[string]string{d + "initial_min_freq_khz": low, d + "initial_max_freq_khz": high, d + "min_freq_khz": min, d + "max_freq_khz": max}
}

func TestUncoreDevices(t *testing.T) {
	msr := plugin.Join(domain("package_00_die_00", "8", "9", "8", "9"), domain("package_01_die_00", "8", "9", "8", "9"))
	tpmi := plugin.Join(msr, domain("uncore02", "8", "9", "8", "9"), domain("uncore10", "8", "9", "8", "9"))
	for _, tt := range []struct {
		tree map[string]string
		want []string
	}{{msr, []string{"package_00_die_00", "package_01_die_00"}}, {tpmi, []string{"uncore02", "uncore10"}}} {
		got, err := uncoreDevices(context.Background(), machine.Mounted(t, tt.tree))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestUncorePlan(t *testing.T) {
	const d = "sysfs:" + uncoreDir + "/uncore00/"
	free := domain("uncore00", "800000\n", "2500000\n", "800000\n", "2500000\n")
	limited := domain("uncore00", "800000\n", "2500000\n", "1200000\n", "1400000\n")
	for _, tt := range []struct {
		tree  map[string]string
		lines []string
		want  []string
	}{
		{free, []string{"max_freq_khz=2000000"}, []string{d + "max_freq_khz = 2000000"}},
		{free, []string{"min_freq_khz=>1000000"}, []string{d + "min_freq_khz = >1000000"}},
		{free, []string{"max_freq_khz=90%"}, []string{d + "max_freq_khz = 2300000 # 90% of 800000 to 2500000 kHz, rounded to steps of 100 MHz"}},
		{free, []string{"min_freq_khz=100%"}, []string{d + "min_freq_khz = 2500000 # 100% of 800000 to 2500000 kHz"}},
		{free, []string{"max_freq_khz=4000000"}, []string{d + "max_freq_khz = 2500000 # uncore00 can be set to 2500000 kHz at most"}},
		{free, []string{"min_freq_khz=100000"}, []string{d + "min_freq_khz = 800000 # uncore00 can be set to 800000 kHz at least"}},
		{limited, []string{"max_freq_khz=1000000"}, []string{d + "max_freq_khz ! rejected: 1000000 kHz is below the lower limit of uncore00, 1200000 kHz"}},
		{limited, []string{"min_freq_khz=1500000"}, []string{d + "min_freq_khz ! rejected: 1500000 kHz is above the upper limit of uncore00, 1400000 kHz"}},
		{limited, []string{"min_freq_khz=1500000", "max_freq_khz=1600000"}, []string{d + "max_freq_khz = 1600000", d + "min_freq_khz = 1500000"}},
		{limited, []string{"max_freq_khz=1000000", "min_freq_khz=0%"}, []string{
			d + "min_freq_khz = 800000 # 0% of 800000 to 2500000 kHz", d + "max_freq_khz = 1000000"}},
		{free, []string{"max_freq_khz=1000000", "min_freq_khz=1500000"}, []string{
			d + "max_freq_khz ! rejected: 1000000 kHz is below the lower limit of the same unit, 1500000 kHz", d + "min_freq_khz = 1500000"}},
		{free, []string{"max_freq_khz=101%"}, []string{d + `max_freq_khz ! rejected: "101%" is not a value for max_freq_khz: want kHz, or a percentage from 0% to 100%`}},
		{free, []string{"max_freq_khz=2GHz"}, []string{d + `max_freq_khz ! rejected: "2GHz" is not a value for max_freq_khz: want kHz, or a percentage from 0% to 100%`}},
		{map[string]string{uncoreDir + "/uncore00/max_freq_khz": "1"}, []string{"max_freq_khz=1"}, []string{
			d + "max_freq_khz ! unsupported: uncore00 does not report its frequency limits"}},
		{nil, []string{"max_freq_khz=1"}, []string{"p.conf:1: [uncore] does nothing: this machine has no unassigned uncore device"}},
	} {
		got := plugin.PlanPlugintest(t, Uncore, machine.Mounted(t, tt.tree), plugin.Unit("uncore", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func TestUSBPlan(t *testing.T) {
	tree := map[string]string{
		"/sys/devices/usb1/uevent":                "DEVTYPE=usb_device\nDRIVER=usb\n",
		"/sys/devices/usb1/power/autosuspend":     "0\n",
		"/sys/devices/usb1/1-2/uevent":            "DRIVER=usb\nDEVTYPE=usb_device\nPRODUCT=46d/c52b/2411\n",
		"/sys/devices/usb1/1-2/power/autosuspend": "2\n",
		"/sys/devices/usb1/1-2/1-2:1.0/uevent":    "DEVTYPE=usb_interface\n",
		"/sys/devices/usb1/1-10/uevent":           "DEVTYPE=usb_device\n",
		"/sys/bus/usb/devices/usb1":               "-> ../../../devices/usb1",
		"/sys/bus/usb/devices/1-2":                "-> ../../../devices/usb1/1-2",
		"/sys/bus/usb/devices/1-2:1.0":            "-> ../../../devices/usb1/1-2/1-2:1.0",
		"/sys/bus/usb/devices/1-10":               "-> ../../../devices/usb1/1-10",
	}
	const at = "sysfs:" + usbDir + "/"
	for _, tt := range []struct {
		lines []string
		want  []string
	}{
		{[]string{"autosuspend=5"}, []string{
			at + "1-2/power/autosuspend = 5", at + "1-10/power/autosuspend ! unsupported: 1-10 has no power management", at + "usb1/power/autosuspend = 5"}},
		{[]string{"devices=1-2", "autosuspend=0"}, []string{at + "1-2/power/autosuspend = 0"}},
		{[]string{"devices=1-2", "autosuspend=1"}, []string{at + "1-2/power/autosuspend = 1"}},
		{[]string{"devices=1-2", "autosuspend=True"}, []string{at + "1-2/power/autosuspend = 1"}},
		{[]string{"devices=1-2", "autosuspend=off"}, []string{at + "1-2/power/autosuspend = 0"}},
		{[]string{"devices=1-2", "autosuspend=-1"}, []string{at + "1-2/power/autosuspend = -1"}},
		{[]string{"devices=1-2", "autosuspend=-2"}, []string{at + `1-2/power/autosuspend ! rejected: "-2" is not a value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices=1-2", "autosuspend=3000000"}, []string{at + `1-2/power/autosuspend ! rejected: "3000000" is not a value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices=1-2", "autosuspend=soon"}, []string{at + `1-2/power/autosuspend ! rejected: "soon" is not a value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices_udev_regex=PRODUCT=46d/", "autosuspend=7"}, []string{at + "1-2/power/autosuspend = 7"}},
	} {
		got := plugin.PlanPlugintest(t, USB, machine.Mounted(t, tree), plugin.Unit("usb", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func TestVideoPlan(t *testing.T) {
	radeon := func(method string) map[string]string {
		return map[string]string{
			videoDir + "/card0-LVDS-1/device/power_method":    method + "\n",
			videoDir + "/card0-LVDS-1/device/power_profile":   "default\n",
			videoDir + "/card0-LVDS-1/device/power_dpm_state": "balanced\n",
		}
	}
	amdgpu := map[string]string{
		videoDir + "/card1-eDP-1/amdgpu/panel_power_savings": "0\n",
		videoDir + "/card1-DP-1/status":                      "disconnected\n",
		videoDir + "/card1/device/power_dpm_state":           "performance\n",
		videoDir + "/renderD128/uevent":                      "",
	}
	const at, edp = "sysfs:" + videoDir + "/card0-LVDS-1/device/", "sysfs:" + videoDir + "/card1-eDP-1/"
	for _, tt := range []struct {
		tree  map[string]string
		lines []string
		want  []string
	}{
		{radeon("dpm"), []string{"radeon_powersave=dpm-battery, auto"}, []string{at + "power_dpm_state = battery"}},
		{radeon("dpm"), []string{"radeon_powersave=auto;dpm-performance"}, []string{at + "power_dpm_state = performance"}},
		{radeon("dpm"), []string{"radeon_powersave=auto"}, []string{
			at + "power_method ! unsupported: the card uses dynamic power management; want dpm-battery, dpm-balanced or dpm-performance"}},
		{radeon("profile"), []string{"radeon_powersave=dpm-balanced, auto"}, []string{at + "power_method = profile", at + "power_profile = auto"}},
		{radeon("profile"), []string{"radeon_powersave=dynpm"}, []string{at + "power_method = dynpm"}},
		{radeon("profile"), []string{"radeon_powersave=dpm-battery"}, []string{
			at + "power_method ! unsupported: the card runs without dynamic power management (radeon.dpm=0); dpm- states do not work"}},
		{radeon("profile"), []string{"radeon_powersave=auto, turbo"}, []string{
			at + `power_method ! rejected: "auto, turbo" is not a value for radeon_powersave: want default, auto, low, mid, high, dynpm, dpm-battery, dpm-balanced or dpm-performance`}},
		{amdgpu, []string{"panel_power_savings=3"}, []string{edp + "amdgpu/panel_power_savings = 3"}},
		{amdgpu, []string{"panel_power_savings=5"}, []string{edp + `amdgpu/panel_power_savings ! rejected: "5" is not a value for panel_power_savings: want 0 to 4`}},
		{amdgpu, []string{"radeon_powersave=auto"}, []string{edp + "device/power_method ! unsupported: card1-eDP-1 is not on a card of the radeon driver"}},
		{radeon("dpm"), []string{"panel_power_savings=1"}, []string{
			"sysfs:" + videoDir + "/card0-LVDS-1/amdgpu/panel_power_savings ! unsupported: card0-LVDS-1 is not a laptop panel on amdgpu"}},
		{nil, []string{"panel_power_savings=1"}, []string{"p.conf:1: [video] does nothing: this machine has no unassigned video device"}},
	} {
		got := plugin.PlanPlugintest(t, Video, machine.Mounted(t, tt.tree), plugin.Unit("video", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
