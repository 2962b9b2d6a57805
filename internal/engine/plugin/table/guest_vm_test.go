package table_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

const guestProfile = `[main]
summary=Everything that writes files or runs programs

[variables]
greeting=hello world

[service]
service.one=start,enable,file:${i:PROFILE_DIR}/one.conf
service.two=stop,disable

[modules]
nbd=+r nbds_max=8
dummy=+r numdummies=3

[irqbalance]
banned_cpus=3

[systemd]
cpu_affinity=0-1

[script]
script=${i:PROFILE_DIR}/script.sh

[disk]
devices=vda
readahead=512
script_pre=${i:PROFILE_DIR}/device.sh

[bootloader]
cmdline_guest=+skew_tick=1 memmap=1G$60G
initrd_add_dir=${i:PROFILE_DIR}/overlay

[selinux]
avc_cache_threshold=8192

[mounts]
disable_barriers=force
`

// The script keeps a value with TuneD's own shell library.
const guestScript = `#!/bin/bash
. /usr/lib/tuned/functions
start() {
    save_set_sys swappiness /proc/sys/vm/swappiness 17
    echo "$TUNED_greeting" >/run/script-was-here
}
stop() {
    [ "$1" = full_rollback ] || return 1
    restore_sys swappiness /proc/sys/vm/swappiness
    rm /run/script-was-here
}
verify() { [ "$(cat /proc/sys/vm/swappiness)" = 17 ] || { echo "swappiness is off" >&2; return 1; }; }
process $@
`

const guestDeviceScript = `#!/bin/sh
echo "$*" >>/run/device-script
[ "$1" != verify ] || exit 0
`

// TestGuest applies, reboots, verifies and undoes with the real systemd, GRUB
// generator, modprobe and irqbalance.
func TestGuest(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{Append: "skew_tick=1"})
	vm.Put(root.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	const dir = "/etc/tuned/guest/"
	vm.Write(dir+"tuned.conf", guestProfile)
	vm.Write(dir+"script.sh", guestScript)
	vm.Write(dir+"device.sh", guestDeviceScript)
	vm.Write(dir+"one.conf", "[Service]\nNice=7\n")
	vm.Write(dir+"overlay/etc/added", "by the overlay\n")
	for _, u := range []string{"one", "two"} {
		vm.Write("/etc/systemd/system/"+u+".service", "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	}
	vm.Must("chmod 755 " + dir + "*.sh; systemctl disable --quiet --now tuned.service; systemctl daemon-reload; systemctl enable --quiet --now two.service; " +
		"modprobe nbd nbds_max=4; systemctl start irqbalance.service")

	slow := func(command string) (string, int) {
		t.Helper()
		start := time.Now()
		r, err := vm.Exec(testkitvm.Request{Argv: []string{"sh", "-c", command}, TimeoutS: 600})
		if err != nil || r.Error != "" {
			t.Fatalf("%s: %v %s\n%s%s", command, err, r.Error, r.Stdout, r.Stderr)
		}
		t.Logf("%.40s: %.1f s", command, time.Since(start).Seconds())
		return string(r.Stdout) + string(r.Stderr), r.Code
	}
	files := func() string {
		t.Helper()
		out, _ := slow("find /etc /boot /run/fettle-scripts /run/tuned -xdev -printf '%p %M %u %l\\n' 2>/dev/null | sort; " +
			"find /etc /boot -xdev -type f ! -name 'vmlinuz*' ! -name 'initrd*' -print0 | sort -z | xargs -0 sha256sum")
		return out
	}
	slow("update-grub 2>/dev/null; sync")
	filesBefore, runningBefore := files(), running(vm)

	tune, code := slow("fettle tune guest")
	t.Logf("tune: exit %d\n%s", code, tune)
	for command, want := range map[string]string{
		"systemctl is-active one":                                         "active\n",
		"systemctl is-active two || true":                                 "inactive\n",
		"systemctl is-enabled one":                                        "enabled\n",
		"systemctl is-enabled two || true":                                "disabled\n",
		"systemctl show -p Nice one":                                      "Nice=7\n",
		"ps -o ni= -p $(systemctl show -p MainPID --value one)":           "  7\n",
		"cat /sys/module/nbd/parameters/nbds_max":                         "8\n",
		"ls -d /sys/class/net/dummy* | wc -l":                             "3\n",
		"tr '\\0' '\\n' </proc/$(pidof irqbalance)/environ | grep BANNED": "IRQBALANCE_BANNED_CPULIST=3\n",
		"cat /proc/sys/vm/swappiness /run/script-was-here":                "17\nhello world\n",
		"cat /sys/block/vda/queue/read_ahead_kb":                          "512\n",
		"cat /run/device-script":                                          "apply vda\nverify vda\n", // tune gives its verdict
		"grep -c 'skew_tick=1 memmap=1G.$60G' /boot/grub/grub.cfg":        "2\n",
		"grep -c '/boot/overlay ' /boot/grub/grub.cfg":                    "3\n",
		"cd /tmp && cpio -i --quiet --to-stdout etc/added </boot/overlay": "by the overlay\n",
	} {
		if out, _ := vm.Run(command); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	verdicts := func() map[string]string {
		out, _ := vm.Run("fettle verify --output json 2>/dev/null")
		var v struct {
			Values []struct{ Setting, Verdict, Why string }
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		m := map[string]string{}
		for _, x := range v.Values {
			m[x.Setting] = x.Verdict
			if x.Verdict != "ok" {
				t.Logf("%s: %s (%s)", x.Setting, x.Verdict, x.Why)
			}
		}
		return m
	}
	want := map[string]string{
		"unit:one.service/active": "ok", "unit:one.service/enabled": "ok", "unit:one.service/dropin+restart/one.conf": "ok",
		"unit:two.service/active": "ok", "unit:two.service/enabled": "ok", "modprobe:nbd": "ok", "module:nbd": "ok",
		"modprobe:dummy": "ok", "module:dummy": "ok", "irqbalance:/etc/default/irqbalance": "ok",
		"manager:CPUAffinity": "needs-reboot", "script:/etc/tuned/guest/script.sh": "ok", "devscript:/etc/tuned/guest/device.sh vda": "ok",
		"bootloader:grub:/boot/grub/grub.cfg": "needs-reboot", "initrd:/boot/overlay": "needs-reboot",
		"sysfs:/sys/fs/selinux/avc/cache_threshold": "unsupported",
	}
	got := verdicts()
	for s, w := range want {
		if got[s] != w {
			t.Errorf("verify: %s: %q, want %q", s, got[s], w)
		}
	}
	vm.Must("echo 18 >/proc/sys/vm/swappiness")
	if v := verdicts()["script:/etc/tuned/guest/script.sh"]; v != "drifted" {
		t.Errorf("the script's verify fails, and the verdict is %q", v)
	}
	vm.Must("echo 17 >/proc/sys/vm/swappiness")

	// systemd takes the list only when it is booted, so nothing less is tried.
	vm.Must("systemctl daemon-reexec")
	if out := vm.Must("grep Cpus_allowed_list /proc/1/status"); strings.Contains(out, "0-1\n") {
		t.Errorf("daemon-reexec does set the affinity: %s", out)
	}

	undo, code := slow("fettle undo")
	if code != 0 {
		t.Errorf("undo: exit %d", code)
	}
	t.Logf("undo: exit %d\n%s", code, undo)
	if d := cmp.Diff(filesBefore, files()); d != "" {
		t.Errorf("files after undo: %s", d)
	}
	if d := cmp.Diff(runningBefore, running(vm)); d != "" {
		t.Errorf("state after undo: %s", d)
	}

	// Across a boot: the files act, and undo gives them back as well.
	filesBefore = files()
	slow("fettle tune guest")
	vm.Append(vm.Must("grep -o -m 1 'memmap=1G.$60G' /boot/grub/grub.cfg | tr -d '\\\\\\n'"))
	vm.Reboot()
	if out := vm.Must("grep Cpus_allowed_list /proc/1/status"); !strings.HasSuffix(out, "\t0-1\n") {
		t.Errorf("after the boot: %s", out)
	}
	got = verdicts()
	for _, s := range []string{"manager:CPUAffinity", "unit:one.service/active", "irqbalance:/etc/default/irqbalance", "bootloader:grub:/boot/grub/grub.cfg"} {
		if got[s] != "ok" {
			t.Errorf("verify after the boot: %s: %q", s, got[s])
		}
	}
	if out, code := slow("fettle undo"); code != 0 {
		t.Errorf("undo after a boot: exit %d\n%s", code, out)
	}
	if d := cmp.Diff(filesBefore, files()); d != "" {
		t.Errorf("files after a boot and undo: %s", d)
	}
	for option, plugin := range map[string]string{"service.one": "service", "nbd": "modules", "banned_cpus": "irqbalance", "cpu_affinity": "systemd",
		"script": "script", "readahead": "disk", "cmdline_guest": "bootloader", "initrd_add_dir": "bootloader"} {
		testkitplugin.Proves(t, testkitplugin.QEMU, plugin, option)
	}
}

// running returns the state that undo must restore.
func running(vm *testkitvm.VM) string {
	out, _ := vm.Run("systemctl is-active one two irqbalance; systemctl is-enabled one two; cat /sys/module/nbd/parameters/nbds_max; " +
		"ls -d /sys/module/dummy; cat /proc/sys/vm/swappiness /sys/block/vda/queue/read_ahead_kb; systemctl show -p Nice one; " +
		"tr '\\0' '\\n' </proc/$(pidof irqbalance)/environ | grep BANNED; grep . /run/script-was-here")
	return out
}
