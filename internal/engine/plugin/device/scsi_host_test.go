package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

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
	machine := plugin.Join(
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
			at("host1") + " ! unsupported: host1 takes disks while running, and with its link asleep it would not notice that one is pulled",
			at("host2") + " ! unsupported: host2 takes disks while running, and with its link asleep it would not notice that one is pulled",
			at("host3") + " = med_power_with_dipm",
			at("host10") + " ! unsupported: host10 is no SATA port with link power management (AHCI)"}},
		{[]string{"devices=host0", "alpm=min_power_with_partial"}, []string{at("host0") + " = min_power_with_partial"}},
		{[]string{"devices=host0", "alpm=low"}, []string{
			at("host0") + ` ! rejected: "low" is no value for alpm: want max_performance, medium_power, med_power_with_dipm, min_power_with_partial or min_power`}},
	} {
		got := plugin.PlanPlugintest(t, SCSIHost, testkitmachine.Mounted(t, machine), plugin.Unit("scsi_host", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
