package packaging

import (
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/testkit/vm"
)

// TestGuest follows the package on a machine with systemd and TuneD: it is installed next to
// TuneD, takes over, is upgraded while its daemon runs, meets a reboot, and gives TuneD back when
// it is removed.
func TestGuest(t *testing.T) {
	root.Nightly(t, "boots a virtual machine")
	dir := twoVersions(t)
	m := guest{vm.Boot(t, vm.Options{}), t}
	run, must, eventually := m.run, m.must, m.eventually
	for _, v := range []string{"1", "2"} {
		m.Put(dir+"/"+v+".deb", "/root/"+v+".deb")
	}
	const units = "systemctl is-active tuned fettle; systemctl is-enabled tuned fettle fettle-recover"
	must("echo virtual-guest >/etc/tuned/active_profile; echo manual >/etc/tuned/profile_mode; systemctl enable tuned; systemctl start --no-block tuned")
	eventually("cat /proc/sys/vm/swappiness", "30")

	must("dpkg -i /root/1.deb")
	eventually(units, "active\ninactive\nenabled\ndisabled\ndisabled")
	must("fettle tune --take-over --persist latency-performance")
	eventually(units, "inactive\nactive\ndisabled\nenabled\nenabled")
	eventually("cat /proc/sys/vm/swappiness; od -An -tu4 /dev/cpu_dma_latency", "10\n          3")
	if out := must("ls /etc/systemd/system"); strings.Contains("\n"+out, "\nfettle.service\n") || strings.Contains(out, "fettle-recover.service\n") {
		t.Errorf("tune --persist has written units that the package has:\n%s", out)
	}

	// The upgrade: the values stay, and so does the profile. The daemon runs the new program.
	pid := must("systemctl show --property MainPID --value fettle")
	must("(while :; do echo $(cat /proc/sys/vm/swappiness) $(od -An -tu4 /dev/cpu_dma_latency); done) >/run/values & echo $! >/run/watch; dpkg -i /root/2.deb; kill $(cat /run/watch)")
	if got := strings.TrimSpace(must("sort -u /run/values")); got != "10 3" {
		t.Errorf("vm.swappiness and the limit on latency were %q during the upgrade", got)
	}
	if now := must("systemctl show --property MainPID --value fettle"); now == pid || now == "0\n" {
		t.Errorf("the daemon still is process %s", now)
	}
	eventually("readlink /proc/$(systemctl show --property MainPID --value fettle)/exe; fettle version | cut -d' ' -f2", "/usr/bin/fettle\n2.0.0")
	eventually("od -An -tu4 /dev/cpu_dma_latency", "3")
	eventually("busctl call com.redhat.tuned /Tuned com.redhat.tuned.control active_profile", `s "latency-performance"`)

	// The unit of the metrics reads everything in its sandbox.
	const metrics = "/var/lib/prometheus/node-exporter/"
	must("mkdir -p " + metrics + "; systemctl start fettle-metrics.service")
	if got := must("grep -hE '^fettle_(status|verify|check)_success|^fettle_verify_met' " + metrics + "*.prom | sort"); got != "fettle_check_success 1\nfettle_status_success 1\nfettle_verify_met 1\nfettle_verify_success 1\n" {
		t.Errorf("the metrics:\n%s", got)
	}
	const unknown = "grep -o '^fettle_check_finding{id=\"[^\"]*\".*state=\"unknown\"' | sort"
	if inside, outside := must("cat "+metrics+"fettle-check.prom | "+unknown), must("fettle check --sample 0 --output openmetrics 2>/dev/null | "+unknown); inside != outside {
		t.Errorf("unknown in the sandbox of fettle-metrics.service:\n%s\nand without it:\n%s", inside, outside)
	}
	must("systemctl enable --now fettle-metrics.timer")

	undenied := func(when string) {
		t.Helper()
		if on, _ := run("cat /sys/module/apparmor/parameters/enabled"); strings.TrimSpace(on) != "Y" {
			t.Logf("%s: this guest's kernel has AppArmor off", when)
		} else if out, _ := run("journalctl --no-pager -k -b | grep 'apparmor=\"DENIED\"'"); out != "" {
			t.Errorf("%s: AppArmor denied\n%s", when, out)
		}
	}
	undenied("after installation and upgrade")

	m.Reboot()
	eventually(units, "inactive\nactive\ndisabled\nenabled\nenabled")
	eventually("cat /proc/sys/vm/swappiness", "10")
	eventually("systemctl --failed --no-legend", "")

	out := must("apt-get -y purge fettle")
	undenied("after the reboot and the removal")
	if !strings.Contains(out, "vm.swappiness") || !strings.Contains(out, "restored") {
		t.Errorf("the removal lists no value:\n%s", out)
	}
	eventually("systemctl is-active tuned; systemctl is-enabled tuned; systemctl list-unit-files 'fettle*' --no-legend | grep -v agent", "active\nenabled")
	eventually("cat /proc/sys/vm/swappiness", "30")
	// The virtual machine has an agent, a port and a disk of the test's.
	eventually("find /etc /var/lib /run /usr -xdev -name '*fettle*' ! -name '*fettle-agent*' ! -name '*fettle*test*' ! -path '/var/lib/dpkg/*' ! -path '/etc/initramfs-tools/*' ! -path '*/fettle-test*'", "")
}

// guest is a virtual machine on which a package comes and goes.
type guest struct {
	*vm.VM
	t *testing.T
}

// patience is how long a command may take, and how long its result may be awaited.
const patience = 8 * time.Minute

// run runs a shell command, and returns its output and exit code.
func (g guest) run(command string) (string, int) {
	g.t.Helper()
	r, err := g.Exec(vm.Request{TimeoutS: patience.Seconds(), Argv: []string{"sh", "-c", command + " 2>&1"}})
	if err != nil {
		g.t.Fatalf("%s: %v", command, err)
	}
	return string(r.Stdout) + string(r.Stderr), r.Code
}

func (g guest) must(command string) string {
	g.t.Helper()
	out, code := g.run(command)
	if code != 0 {
		g.t.Fatalf("%s: exit %d\n%s", command, code, out)
	}
	return out
}

// eventually waits until a command prints want.
func (g guest) eventually(command, want string) {
	g.t.Helper()
	got := ""
	if !root.Eventually(patience, func() bool {
		got, _ = g.run(command)
		return strings.TrimSpace(got) == want
	}) {
		log, _ := g.run("journalctl --no-pager -b -u fettle -u fettle-recover -u tuned | tail -40")
		g.t.Fatalf("%s: %q, want %q\n%s", command, got, want, log)
	}
}
