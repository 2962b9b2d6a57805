package packaging

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/testkit/vm"
)

// TestGuestSELinux installs, tunes, reboots, undoes and removes with Debian's policy enforcing. Nothing
// of fettle is denied, and its files have the labels that the policy gives them.
func TestGuestSELinux(t *testing.T) {
	root.Nightly(t, "boots a virtual machine")
	dir, policy := twoVersions(t), filepath.Join(t.TempDir(), "policy.tar")
	if out, err := exec.Command("tar", "-C", root.SELinux(t), "--exclude=./var/lib/dpkg", "--exclude=./var/cache", "-cf", policy, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := guest{vm.Boot(t, vm.Options{}), t}
	m.Put(policy, "/root/policy.tar")
	m.Put(dir+"/1.deb", "/root/1.deb")
	// The agent would not start from a directory of this machine, whose files have no labels.
	m.must("install -D /run/test/agent /usr/local/sbin/agent")
	m.Write("/etc/systemd/system/fettle-agent.service.d/here.conf", "[Service]\nExecStart=\nExecStart=/usr/local/sbin/agent\n")
	// The kernel has no audit system before SELinux: at its end setfiles complains, and exits with 255.
	m.must("tar -C / -xf /root/policy.tar && rm /root/policy.tar && ldconfig && { setfiles -F /etc/selinux/default/contexts/files/file_contexts / || [ $? = 255 ]; } && sync")
	m.Append("security=selinux selinux=1 enforcing=0 audit=1 audit_backlog_limit=8192")
	m.Reboot()
	m.must("setenforce 1")
	if out, _ := m.run("runcon system_u:system_r:httpd_t:s0 cat /etc/shadow; journalctl --no-pager -b | grep 'avc: *denied'"); !strings.Contains(out, "avc:") {
		log, _ := m.run("cat /proc/cmdline; dmesg | grep -i 'audit\\|avc' | tail -20; journalctl --no-pager -b | grep -i 'audit\\|avc' | tail")
		t.Fatalf("this machine does not record what SELinux denies:\n%s\n%s", out, log)
	}
	if got := strings.TrimSpace(m.must("getenforce")); got != "Enforcing" {
		t.Fatalf("SELinux: %s", got)
	}
	unlabeled := func(when string) {
		t.Helper()
		if out, _ := m.run("restorecon -nvR /usr/bin/fettle /usr/lib/systemd/system /etc/systemd/system /etc/sysctl.d /etc/modprobe.d /etc/udev /var/lib/fettle /etc/fettle 2>/dev/null"); out != "" {
			t.Errorf("%s: other labels than the policy's:\n%s", when, out)
		}
	}
	undenied := func(when string) {
		t.Helper()
		if out, _ := m.run("journalctl --no-pager -b | grep -E 'avc: *denied.*(comm=\"fettle|(path|name)=\"[^\"]*fettle|scontext=[^ ]*:initrc_t:)'"); out != "" {
			t.Errorf("%s: denied\n%s", when, out)
		}
	}

	m.must("dpkg -i /root/1.deb")
	m.must("fettle tune --persist latency-performance")
	m.eventually("fettle verify >/dev/null && echo met", "met")
	unlabeled("after installation")
	undenied("after installation")
	m.Reboot()
	m.must("setenforce 1")
	m.eventually("cat /proc/sys/vm/swappiness", "10")
	m.eventually("systemctl is-active fettle", "active")
	if got := strings.TrimSpace(m.must("cat /proc/$(systemctl show --property MainPID --value fettle)/attr/current | tr -d '\\0'")); got != "system_u:system_r:initrc_t:s0" {
		t.Errorf("the daemon runs as %s", got)
	}
	m.eventually("fettle verify >/dev/null && echo met", "met")
	undenied("after the reboot")
	m.must("fettle undo")
	m.eventually("cat /proc/sys/vm/swappiness", "60")
	unlabeled("after undo")
	m.must("apt-get -y purge fettle")
	undenied("after the removal")
}
