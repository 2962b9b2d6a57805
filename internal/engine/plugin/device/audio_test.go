package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestAudioPlan(t *testing.T) {
	const hda, ac97 = "/sys/module/snd_hda_intel/parameters/", "/sys/module/snd_ac97_codec/parameters/"
	machine := map[string]string{
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
		{machine, []string{"timeout=10"}, []string{
			"sysfs:" + hda + "power_save_controller = 1 # reset_controller=true is the default",
			"sysfs:" + ac97 + "power_save = 10", "sysfs:" + hda + "power_save = 10"}},
		{machine, []string{"devices=*hda*"}, []string{
			"sysfs:" + hda + "power_save = 0 # timeout=0 is the default",
			"sysfs:" + hda + "power_save_controller = 1 # reset_controller=true is the default"}},
		{machine, []string{"devices=*hda*", "reset_controller=0"}, []string{
			"sysfs:" + hda + "power_save = 0 # timeout=0 is the default", "sysfs:" + hda + "power_save_controller = 0"}},
		{machine, []string{"devices=*hda*", "timeout=0", "reset_controller=0"}, []string{
			"sysfs:" + hda + "power_save = 0", "sysfs:" + hda + "power_save_controller = 0"}},
		{machine, []string{"devices=*ac97*", "reset_controller=1"}, []string{
			"sysfs:" + ac97 + "power_save = 0 # timeout=0 is the default",
			"sysfs:" + ac97 + "power_save_controller ! unsupported: the module snd_ac97_codec has no controller to put to sleep"}},
		{machine, []string{"devices=*hda*", "timeout=-1", "reset_controller=maybe"}, []string{
			"sysfs:" + hda + `power_save ! rejected: "-1" is no value for timeout: want seconds, 0 or more`,
			"sysfs:" + hda + `power_save_controller ! rejected: "maybe" is no value for reset_controller: want true or false`}},
		{nil, []string{"timeout=10"}, []string{"p.conf:1: [audio] does nothing: no audio device is left for it on this machine"}},
	} {
		got := plugin.PlanPlugintest(t, Audio, testkitmachine.Mounted(t, tt.tree), plugin.Unit("audio", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
