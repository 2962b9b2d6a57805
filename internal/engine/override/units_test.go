package override

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// TestUnitsOnACopy: a copy that does not record which units are enabled makes a claim
// conditional, never void; the link that enables a unit is enough without its file.
func TestUnitsOnACopy(t *testing.T) {
	const wants = "/etc/systemd/system/multi-user.target.wants/saptune.service"
	note := map[string]string{"/etc/sysconfig/saptune": "NOTE_APPLY_ORDER=x\n", "/etc/saptune/extra/x.conf": "[sysctl]\nvm.swappiness = 10\n"}
	for _, c := range []struct{ name, more, content, want string }{
		{"nothing recorded", "/proc/version", "Linux\n", "10 [admin] if saptune.service is enabled, which is not recorded in this copy"},
		{"linked", wants, "-> /usr/lib/systemd/system/saptune.service", "10 [admin]"},
		{"not linked", "/etc/systemd/system/multi-user.target.wants/x.service", "-> /x", "10 [admin] VOID saptune.service, which applies this note, is not enabled"},
	} {
		files := map[string]string{c.more: c.content}
		for k, v := range note {
			files[k] = v
		}
		claims, _ := read(t, machine.Copy(t, files))
		got := claimsFor(t, claims, "sysctl:vm.swappiness")
		if want := "/etc/saptune/extra/x.conf:2 " + c.want; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
	ktune := map[string]string{"/etc/sysconfig/ktune": "SYSCTL=/etc/sysctl.ktune\n", "/etc/sysctl.ktune": "vm.swappiness = 10\n", "/etc/rc.d/rc3.d/S27ktune": "-> ../init.d/ktune"}
	claims, _ := read(t, machine.Copy(t, ktune))
	if got := claimsFor(t, claims, "sysctl:vm.swappiness"); len(got) != 1 || got[0] != "/etc/sysctl.ktune:1 10 [admin]" {
		t.Errorf("ktune by its link in rc.d: %q", got)
	}
}
