package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestUSBPlan(t *testing.T) {
	machine := map[string]string{
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
		{[]string{"devices=1-2", "autosuspend=-2"}, []string{at + `1-2/power/autosuspend ! rejected: "-2" is no value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices=1-2", "autosuspend=3000000"}, []string{at + `1-2/power/autosuspend ! rejected: "3000000" is no value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices=1-2", "autosuspend=soon"}, []string{at + `1-2/power/autosuspend ! rejected: "soon" is no value for autosuspend: want seconds, or -1 for never`}},
		{[]string{"devices_udev_regex=PRODUCT=46d/", "autosuspend=7"}, []string{at + "1-2/power/autosuspend = 7"}},
	} {
		got := plugin.PlanPlugintest(t, USB, testkitmachine.Mounted(t, machine), plugin.Unit("usb", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
