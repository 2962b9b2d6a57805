package rhel6

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// shells are the programs that may be sh when a generated script runs.
var shells = []string{"dash", "bash"}

// fakeSys is the part of a machine that the helpers change: path and content.
var fakeSys = map[string]string{
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors": "performance powersave ondemand",
	"/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            "schedutil",
	"/sys/devices/system/cpu/cpu1/cpufreq/scaling_available_governors": "performance schedutil",
	"/sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never",
	"/sys/block/sda/queue/scheduler":                                   "none [mq-deadline] bfq",
	"/sys/block/sda/queue/read_ahead_kb":                               "128",
	"/sys/block/vda/queue/scheduler":                                   "[none] mq-deadline",
	"/sys/block/vda/queue/read_ahead_kb":                               "4096",
	"/sys/block/sr0/events_poll_msecs":                                 "-1",
	"/sys/class/scsi_host/host0/link_power_management_policy":          "max_performance",
	"/sys/class/scsi_host/host0/ahci_port_cmd":                         "4017",
	"/sys/class/scsi_host/host1/link_power_management_policy":          "max_performance",
	"/sys/class/scsi_host/host1/ahci_port_cmd":                         "44017", // hot plug: bit 18
	"/sys/class/rfkill/rfkill0/type":                                   "bluetooth",
	"/sys/class/rfkill/rfkill0/soft":                                   "0",
	"/sys/class/rfkill/rfkill1/type":                                   "wlan",
	"/sys/class/rfkill/rfkill1/soft":                                   "0",
	"/sys/class/net/wlan0/phy80211/index":                              "0",
	"/sys/bus/usb/devices/1-1/power/control":                           "on",
	"/sys/module/snd_ac97_codec/parameters/power_save":                 "0",
	"/sys/module/snd_hda_intel/parameters/power_save":                  "5",
	"/sys/class/drm/card0/device/power_method":                         "profile",
	"/sys/class/drm/card0/device/power_profile":                        "default",
	"/sys/class/drm/card0/device/power_dpm_state":                      "balanced",
	"/dev/sda": "",
	"/proc/mounts": "/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sda2 /boot ext4 rw 0 0\n" +
		"/dev/sda3 /srv ext4 rw,noatime,commit=600 0 0\ntmpfs /tmp tmpfs rw 0 0",
}

// stubs replace programs: each logs its arguments, and iw keeps a state.
const stub = `#!/bin/sh
echo "${0##*/} $*" >>"$SYSROOT/calls"
case "${0##*/} $3" in
"iw set") echo "Power save: $5" >"$SYSROOT/iw" ;;
"iw get") cat "$SYSROOT/iw" ;;
esac
exit 0
`

// sysroot creates the simulated machine and the environment of a script on it.
func sysroot(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	for p, text := range fakeSys {
		machine.WriteFile(t, dir, p, text+"\n")
	}
	machine.WriteFile(t, dir, "/iw", "Power save: off\n")
	for _, name := range []string{"iw", "hdparm", "mount"} {
		machine.WriteFile(t, dir, "/stubs/"+name, stub)
		if err := os.Chmod(filepath.Join(dir, "stubs", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"SYSROOT=" + dir, "PATH=" + dir + "/stubs:/usr/bin:/bin"}
}

// state reads the simulated machine; for a file with choices it returns the active word.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for p := range fakeSys {
		b, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		v := strings.TrimSuffix(string(b), "\n")
		if _, rest, ok := strings.Cut(v, "["); ok {
			v, _, _ = strings.Cut(rest, "]")
		}
		out[p] = v
	}
	b, _ := os.ReadFile(filepath.Join(dir, "iw"))
	out["iw"] = strings.TrimSpace(string(b))
	return out
}

func changes(before, after map[string]string) []string {
	var out []string
	for p, v := range after {
		if before[p] != v {
			out = append(out, p+" "+v)
		}
	}
	slices.Sort(out)
	return out
}

func run(t *testing.T, env []string, argv ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestEachHelper runs a helper in start and its counterpart in stop. The first makes its change,
// verify detects the change and a drift, and the second restores the machine.
func TestEachHelper(t *testing.T) {
	const (
		gov   = "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor"
		queue = "/sys/block/%s/queue/%s"
	)
	cases := []struct {
		start, stop string
		changes     []string
		calls       string // programs called by start, one in a line
	}{
		{"set_cpu_governor performance", "restore_cpu_governor", []string{fmt.Sprintf(gov, 0) + " performance", fmt.Sprintf(gov, 1) + " performance"}, ""},
		{"set_cpu_governor ondemand", "restore_cpu_governor", []string{fmt.Sprintf(gov, 0) + " ondemand"}, ""},
		{"set_transparent_hugepages never", "restore_transparent_hugepages", []string{"/sys/kernel/mm/transparent_hugepage/enabled never"}, ""},
		{"enable_transparent_hugepages", "restore_transparent_hugepages", []string{"/sys/kernel/mm/transparent_hugepage/enabled always"}, ""},
		{"disable_transparent_hugepages", "restore_transparent_hugepages", []string{"/sys/kernel/mm/transparent_hugepage/enabled never"}, ""},
		{`set_elevator "/sys/block/{sd,vd}*/queue/scheduler" cfq`, `restore_elevator "/sys/block/{sd,vd}*/queue/scheduler"`,
			[]string{fmt.Sprintf(queue, "sda", "scheduler") + " bfq", fmt.Sprintf(queue, "vda", "scheduler") + " bfq"}, ""},
		{`set_elevator deadline "/sys/block/vd*/queue/scheduler"`, `restore_elevator deadline "/sys/block/vd*/queue/scheduler"`,
			[]string{fmt.Sprintf(queue, "vda", "scheduler") + " mq-deadline"}, ""},
		{`set_elevator "/sys/block/sda/queue/scheduler" noop`, `restore_elevator "/sys/block/sda/queue/scheduler"`,
			[]string{fmt.Sprintf(queue, "sda", "scheduler") + " none"}, ""},
		{"multiply_disk_readahead 4", "multiply_disk_readahead 0.25",
			[]string{fmt.Sprintf(queue, "sda", "read_ahead_kb") + " 512", fmt.Sprintf(queue, "vda", "read_ahead_kb") + " 16384"}, ""},
		{"multiply_disk_readahead 0.5", "restore_disk_readahead",
			[]string{fmt.Sprintf(queue, "sda", "read_ahead_kb") + " 64", fmt.Sprintf(queue, "vda", "read_ahead_kb") + " 2048"}, ""},
		{"set_disk_readahead 256", "restore_disk_readahead",
			[]string{fmt.Sprintf(queue, "sda", "read_ahead_kb") + " 256", fmt.Sprintf(queue, "vda", "read_ahead_kb") + " 256"}, ""},
		{"set_disk_alpm min_power", "set_disk_alpm max_performance", []string{"/sys/class/scsi_host/host0/link_power_management_policy med_power_with_dipm"}, ""},
		{"set_sata_alpm medium_power", "restore_disk_alpm", []string{"/sys/class/scsi_host/host0/link_power_management_policy medium_power"}, ""},
		{"set_disk_apm 128", "set_disk_apm 255", nil, "hdparm -q -B 128 ROOT/dev/sda"},
		{"set_disk_spindown 6", "set_disk_spindown 0", nil, "hdparm -q -S 6 ROOT/dev/sda"},
		{"disable_disk_barriers", "enable_disk_barriers", nil, ""},
		{"remount_partitions noatime,nobarrier,commit=600 /srv", "remount_partitions barrier=1 /srv", nil, "mount -o remount,noatime,commit=600 /srv"},
		{"remount_partitions nobarrier /srv", ":", nil, ""},
		{"remount_all_no_rootboot_partitions noatime", ":", nil, "mount -o remount,noatime /srv"},
		{"disable_bluetooth", "enable_bluetooth", []string{"/sys/class/rfkill/rfkill0/soft 1"}, ""},
		{"disable_wifi", "enable_wifi", []string{"/sys/class/rfkill/rfkill1/soft 1"}, ""},
		{"enable_wifi_powersave", "disable_wifi_powersave", []string{"iw Power save: on"}, "iw dev wlan0 get power_save\niw dev wlan0 set power_save on"},
		{"disable_cd_polling", "enable_cd_polling", []string{"/sys/block/sr0/events_poll_msecs 0"}, ""},
		{"enable_usb_autosuspend", "disable_usb_autosuspend", []string{"/sys/bus/usb/devices/1-1/power/control auto"}, ""},
		{"enable_snd_ac97_powersave", "restore_snd_ac97_powersave", []string{"/sys/module/snd_ac97_codec/parameters/power_save 1"}, ""},
		{"set_hda_intel_powersave 10", "restore_hda_intel_powersave", []string{"/sys/module/snd_hda_intel/parameters/power_save 10"}, ""},
		{"enable_snd_powersave", "disable_snd_powersave", []string{"/sys/module/snd_hda_intel/parameters/power_save 10"}, ""},
		{"set_radeon_powersave low", "set_radeon_powersave default", []string{"/sys/class/drm/card0/device/power_profile low"}, ""},
		{"set_radeon_powersave dpm-battery", "set_radeon_powersave dpm-balanced",
			[]string{"/sys/class/drm/card0/device/power_dpm_state battery", "/sys/class/drm/card0/device/power_method dpm"}, ""},
		{"save_set_sys ahead $SYSROOT/sys/block/sda/queue/read_ahead_kb 1", "restore_sys ahead $SYSROOT/sys/block/sda/queue/read_ahead_kb",
			[]string{fmt.Sprintf(queue, "sda", "read_ahead_kb") + " 1"}, ""},
	}
	under := shells
	if testing.Short() {
		under = shells[:1]
	}
	for i, c := range cases {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(c.start, func(t *testing.T) {
			for _, sh := range under {
				dir, env := sysroot(t)
				machine.WriteFile(t, dir, "/profile/functions.sh", functionsText)
				script := dir + "/profile/script.sh"
				machine.WriteFile(t, dir, "/profile/script.sh", ownScript{start: []string{c.start}, stop: []string{c.stop}, verify: []string{c.start}}.render("p"))
				before := state(t, dir)
				if out, code := run(t, env, sh, script, "start"); code != 0 {
					t.Fatalf("%s: start: exit %d: %s", sh, code, out)
				}
				after := state(t, dir)
				if got := changes(before, after); !slices.Equal(got, c.changes) {
					t.Errorf("%s: start changed %q, want %q", sh, got, c.changes)
				}
				calls, _ := os.ReadFile(dir + "/calls")
				if got := strings.TrimSpace(strings.ReplaceAll(string(calls), dir, "ROOT")); got != c.calls {
					t.Errorf("%s: start called %q, want %q", sh, got, c.calls)
				}
				if out, code := run(t, env, sh, script, "verify"); code != 0 {
					t.Errorf("%s: verify right after start: exit %d: %s", sh, code, out)
				}
				if got := changes(after, state(t, dir)); got != nil {
					t.Errorf("%s: verify changed %q", sh, got)
				}
				if len(c.changes) > 0 && !strings.HasPrefix(c.changes[0], "iw ") && !strings.HasPrefix(c.start, "multiply") && !strings.HasPrefix(c.start, "save_") {
					p, v, _ := strings.Cut(c.changes[0], " ")
					machine.WriteFile(t, dir, p, "drift\n")
					if out, code := run(t, env, sh, script, "verify"); code == 0 || !strings.Contains(out, "drift") {
						t.Errorf("%s: verify of a drift: exit %d: %s", sh, code, out)
					}
					machine.WriteFile(t, dir, p, v+"\n")
				}
				if out, code := run(t, env, sh, script, "stop", "full_rollback"); code != 0 {
					t.Fatalf("%s: stop: exit %d: %s", sh, code, out)
				}
				if got := changes(before, state(t, dir)); got != nil {
					t.Errorf("%s: stop left %q", sh, got)
				}
				if left, err := os.ReadDir(dir + "/run/fettle-rhel6/p"); err == nil && len(left) > 0 {
					t.Errorf("%s: stop left kept values: %v", sh, left)
				}
			}
		})
	}
}

// TestEveryHelperIsSupplied tests that each helper that can be translated has an implementation for
// scripts that must keep it.
func TestEveryHelperIsSupplied(t *testing.T) {
	for _, h := range helpers() {
		for _, name := range append([]string{h.name}, h.undo...) {
			if !slices.Contains(supplied(), name) {
				t.Errorf("%s is not in functions.sh", name)
			}
		}
	}
	for _, name := range []string{ // the RHEL 6 slides, and RHEL 6's library
		"set_transparent_hugepages", "restore_transparent_hugepages", "set_cpu_governor", "restore_cpu_governor",
		"enable_wifi", "disable_wifi", "enable_cd_polling", "disable_cd_polling", "save_value", "restore_value", "save_sys",
		"set_sys", "save_set_sys", "restore_sys", "parse_sys", "get_stored_sys", "process",
	} {
		if !slices.Contains(supplied(), name) {
			t.Errorf("%s is not in functions.sh", name)
		}
	}
}

// TestMissingIsNoFault tests that a missing radio device is reported when the profile starts, and
// is not an error.
func TestMissingIsNoFault(t *testing.T) {
	dir, env := sysroot(t)
	if err := os.RemoveAll(dir + "/sys/class/rfkill"); err != nil {
		t.Fatal(err)
	}
	machine.WriteFile(t, dir, "/profile/functions.sh", functionsText)
	machine.WriteFile(t, dir, "/profile/script.sh", ownScript{start: []string{"disable_bluetooth"}, verify: []string{"disable_bluetooth"}}.render("p"))
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"start"}, 0}, {[]string{"verify"}, 0}, {[]string{"verify", "ignore_missing"}, 0}, {[]string{"stop"}, 0}, {[]string{"status"}, 2}, {nil, 2},
	} {
		out, code := run(t, env, append([]string{"sh", dir + "/profile/script.sh"}, c.args...)...)
		if code != c.want {
			t.Errorf("%q: exit %d, want %d: %s", c.args, code, c.want, out)
		}
		if said := strings.Contains(out, "a radio of type bluetooth is not on this machine"); said != (len(c.args) > 0 && c.args[0] == "start") {
			t.Errorf("%q: %s", c.args, out)
		}
	}
}

// TestImportedScriptRuns imports a profile, installs it and runs its script.
func TestImportedScriptRuns(t *testing.T) {
	root := rhel6Machine(t, "6.12.4", today...)
	r := importAt(t, root, place(t, root, "helpers-only"))
	for _, sh := range shells {
		for _, battery := range []bool{false, true} {
			dir, env := sysroot(t)
			for _, f := range r.Files {
				machine.WriteFile(t, dir, "/profile/"+f.Path, f.Data)
				if err := os.Chmod(dir+"/profile/"+f.Path, f.Mode); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"/sys/class/rfkill/rfkill0/soft 1"}
			if battery {
				env = append(env, "ON_BATTERY=1")
				want = []string{
					"/sys/block/sda/queue/read_ahead_kb 64", "/sys/block/vda/queue/read_ahead_kb 2048",
					"/sys/block/vda/queue/scheduler mq-deadline", "/sys/class/rfkill/rfkill0/soft 1",
					"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor ondemand",
					"/sys/kernel/mm/transparent_hugepage/enabled never",
				}
			}
			before := state(t, dir)
			if out, code := run(t, env, sh, dir+"/profile/script.sh", "start"); code != 0 {
				t.Fatalf("%s: start: exit %d: %s", sh, code, out)
			}
			if got := changes(before, state(t, dir)); !slices.Equal(got, want) {
				t.Errorf("%s: start changed\n%q, want\n%q", sh, got, want)
			}
			if out, code := run(t, env, sh, dir+"/profile/script.sh", "verify"); code != 0 {
				t.Errorf("%s: verify: exit %d: %s", sh, code, out)
			}
			if out, code := run(t, env, sh, dir+"/profile/script.sh", "stop"); code != 0 {
				t.Fatalf("%s: stop: exit %d: %s", sh, code, out)
			}
			if got := changes(before, state(t, dir)); got != nil {
				t.Errorf("%s: stop left %q", sh, got)
			}
		}
	}
}

// TestShellcheck checks the library and a generated script with shellcheck.
func TestShellcheck(t *testing.T) {
	bin, err := exec.LookPath("shellcheck")
	if err != nil {
		root.Missing(t, "shellcheck is not installed: apt install shellcheck")
	}
	dir := t.TempDir()
	machine.WriteFile(t, dir, "/functions.sh", functionsText)
	machine.WriteFile(t, dir, "/script.sh", ownScript{start: []string{"disable_bluetooth", "enable_wifi_powersave"}, stop: []string{"enable_bluetooth"}, verify: []string{"disable_bluetooth"}}.render("p"))
	cmd := exec.Command(bin, "-x", "-s", "sh", "functions.sh", "script.sh")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNothingIsExecutedByImport imports a profile full of commands on a copied machine, which
// refuses to run programs; the import succeeds.
func TestNothingIsExecutedByImport(t *testing.T) {
	root := rhel6Machine(t, "6.12.4", today...)
	dir := place(t, root, "latency-like")
	h, err := host.Copy(root)
	if err != nil {
		t.Fatal(err)
	}
	h.Exec = failingExec{t}
	if _, err := Import(context.Background(), h, dir); err != nil {
		t.Fatal(err)
	}
}

type failingExec struct{ t *testing.T }

func (f failingExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	f.t.Errorf("import ran %v", c)
	return host.Result{}, host.ErrNotRecorded
}

func (f failingExec) LookPath(name string) (string, error) { return name, nil }
