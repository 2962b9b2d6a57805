package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	sosGroups = `    PID    PPID USER     GROUP        LWP NLWP START COMMAND         CGROUP
      1       0 root     root           1    1 04:58 systemd         0::/init.scope
     51       1 postgres postgres      51    1 04:58 postgres        12:cpu,cpuacct:/a,0::/system.slice/postgresql.service
     60       1 root     root          60    1 04:58 tmux: server    -
     70       1 root     root          70    1 04:58 ps              0::/
`
	sosTimes = `F S   UID     PID    PPID    PGID     SID CLS PRI ADDR    SZ WCHAN                                 STARTED TT           TIME CMD
4 S     0       1       0       0       0  TS  19    -   648 do_wait              Sun Nov 22 04:58:59 2026 ?        00:00:00 /sbin/init
4 S   103      51       1      51      51  TS  19    - 54331 poll_schedule_timeou Sun Nov  1 04:58:59 2026 ?        00:00:00 /usr/bin/postgres -D /data
1 S     0      60       1      51      51  TS  19    - 54364 do_epoll_wait        Sun Nov 22 04:58:59 2026 ?        00:00:00 tmux
4 Z     0      65       1      65       0  TS  19    -     0 -                    Sun Nov 22 04:59:09 2026 ?        00:00:00 [timeout] <defunct>
4 R     0      70       1      70       0  TS  19    -     9 -                    Sun Nov 22 04:59:09 2026 ?        00:00:00 ps axo x
`
	groupsName = "sos_commands/process/ps_axo_pid_ppid_user_group_lwp_nlwp_start_time_comm_cgroup"
	timesName  = "sos_commands/process/ps_axo_flags_state_uid_pid_ppid_pgid_sid_cls_pri_addr_sz_wchan_20_lstart_tty_time_cmd"
)

func sosTree(t testing.TB, files map[string]string) *Host {
	t.Helper()
	return sosIn(t, t.TempDir(), files)
}

func sosIn(t testing.TB, dir string, files map[string]string) *Host {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wholeSos() map[string]string {
	return map[string]string{
		groupsName: sosGroups, timesName: sosTimes,
		"sos_commands/process/ps_auxwww":          "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\npostgres      51  0.5  0.1 217324 30488 ?        Ss   04:58   0:00 /usr/bin/postgres\n",
		"sos_commands/date/date":                  "Sun Nov 22 06:00:00 UTC 2026\n",
		"sos_commands/date/date_--utc":            "Sun Nov 22 06:00:01 UTC 2026\n",
		"sos_commands/filesys/df_-al_-x_autofs":   "Filesystem     1K-blocks     Used Available Use% Mounted on\n/dev/vda        10485760  1048576   8388608  12% /\n/dev/vdb         2097152  1048576   1048576  50% /var/lib/my data\nproc 0 0 0 - /proc\n",
		"sos_commands/kernel/sysctl_-a":           "vm.swappiness = 60\nnet.ipv4.conf.eth0/100.forwarding = 1\nkernel.cut = 1",
		"sos_commands/kernel/uname_-a":            "Linux x\n",
		"proc/stat":                               "cpu 1 2 3\nbtime 1795323600\n",
		"proc/51/mountinfo":                       "x\n",
		"sys/devices/system/cpu/online":           "0-1\n",
		"sys/devices/system/cpu/cpu0/online":      "1\n",
		"sys/block/vda/queue/rotational":          "0\n",
		"sys/kernel/mm/transparent_hugepage/anon": "x\n",
		"sos_reports/manifest.json":               `{"components":{"report":{"plugins":{"processor":{"files":[{"specification":"/sys/devices/system/cpu","files_copied":["a"]}]},"kernel":{"commands":[{"exec":"uname -a","filepath":"sos_commands/kernel/uname_-a","return_code":3},{"exec":"cat secret","filepath":"etc/passwd","return_code":0}]}}}}}`,
		"etc/passwd":                              "root\n",
		"version.txt":                             "sosreport: 4.0\n",
	}
}

func TestSosAnswers(t *testing.T) {
	h := sosTree(t, wholeSos())
	if h.Incomplete != "" {
		t.Error(h.Incomplete)
	}
	for name, want := range map[string]string{
		"/proc/51/comm":           "postgres\n",
		"/proc/51/cmdline":        "/usr/bin/postgres\x00-D\x00/data\x00",
		"/proc/51/cgroup":         "12:cpu,cpuacct:/a\n0::/system.slice/postgresql.service\n",
		"/proc/51/status":         "Name:\tpostgres\nState:\tS\nPid:\t51\nPPid:\t1\nUid:\t103\t103\t103\t103\nVmRSS:\t   30488 kB\n",
		"/proc/60/comm":           "tmux: server\n",
		"/proc/uptime":            "3601.00\n",
		"/proc/sys/vm/swappiness": "60\n",
		"/proc/sys/net/ipv4/conf/eth0.100/forwarding": "1\n",
	} {
		if b, err := h.Files.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	var pids []string
	entries, _ := h.Files.ReadDir("/proc")
	for _, e := range entries {
		pids = append(pids, e.Name())
	}
	if got := strings.Join(pids, " "); len(pids) != 5 || !strings.Contains(got, "60") || strings.Contains(got, "65") {
		t.Errorf("/proc has %s", got)
	}
	if at, ok := h.ProcessStart(51); !ok || !at.Equal(time.Date(2026, 11, 1, 4, 58, 59, 0, time.UTC)) {
		t.Errorf("51 began %v, %v", at, ok)
	}
	for p, want := range map[string]uint64{"/": 8 << 30, "/var/lib/my data/x": 1 << 30, "/var/lib/other": 8 << 30} {
		if _, free, err := h.Space(p); err != nil || free != want {
			t.Errorf("%s: %d free, %v, want %d", p, free, err, want)
		}
	}
	if r, err := h.Exec.Run(context.Background(), Command{Argv: []string{"uname", "-a"}}); err != nil || string(r.Stdout) != "Linux x\n" || r.ExitCode != 3 {
		t.Errorf("uname: %+v, %v", r, err)
	}
	for _, argv := range [][]string{{"uname"}, {"cat", "secret"}} {
		if r, err := h.Exec.Run(context.Background(), Command{Argv: argv}); !Unknown(err) {
			t.Errorf("%q: %+v, %v", argv, r, err)
		}
	}
	if d, err := h.Files.ReadDir("/sys/block/vda/slaves"); err != nil || len(d) != 0 {
		t.Errorf("vda stands on %v, %v", d, err)
	}
	for name, recorded := range map[string]bool{
		"/sys/devices/system/cpu/cpu0/cpuidle":       true,  // its directory was copied completely
		"/sys/kernel/mm/transparent_hugepage/defrag": false, // it was not
		"/sys/block/dm-0/slaves":                     false,
		"/proc/51/limits":                            false,
		"/proc/65/comm":                              false,
		"/proc/sys/kernel/cut":                       false, // the line is truncated
		"/proc/sys/vm/other":                         false,
		"/etc/tuned/active_profile":                  false,
	} {
		_, err := h.Files.ReadFile(name)
		if !errors.Is(err, fs.ErrNotExist) == recorded {
			t.Errorf("%s: %v, want it known to be absent: %v", name, err, recorded)
		}
	}
}

// Truncated listings are ignored: no process counts as missing because its line is.
func TestSosCut(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(map[string]string)
	}{
		{"within a line", func(f map[string]string) { f[groupsName] = sosGroups[:len(sosGroups)-30] }},
		{"after a line", func(f map[string]string) {
			f[groupsName] = sosGroups[:strings.LastIndex(strings.TrimSpace(sosGroups), "\n")+1]
		}},
		{"one listing", func(f map[string]string) { delete(f, timesName) }},
		{"no listing", func(f map[string]string) { delete(f, timesName); delete(f, groupsName) }},
		{"an empty one", func(f map[string]string) { f[timesName] = "" }},
		{"another format", func(f map[string]string) { f[timesName] = strings.ReplaceAll(sosTimes, "2026", "") }},
	} {
		f := wholeSos()
		c.cut(f)
		h := sosTree(t, f)
		if b, err := h.Files.ReadFile("/proc/51/comm"); !Unknown(err) {
			t.Errorf("%s: %q, %v", c.name, b, err)
		}
	}
	f := wholeSos()
	delete(f, "version.txt")
	h := sosTree(t, f)
	if h.Incomplete == "" {
		t.Error("a report without its last file is taken for whole")
	}
	if _, err := h.Files.ReadFile("/sys/devices/system/cpu/cpu0/cpuidle"); !Unknown(err) {
		t.Errorf("absent in half a report: %v", err)
	}
}

// A complete archive of fettle in a report takes precedence over the report.
func TestSosRecorded(t *testing.T) {
	const name = "sos_commands/sos_extras/fettle/fettle_facts_--output_archive"
	f := wholeSos()
	f[name] = "fettle archive v2\ntime 2026-11-22T05:00:00Z\n-- file 0644 /proc/sys/vm/swappiness --\n10\n-- dir 0755 /etc --\n-- dir 0755 /etc/tuned --\n-- absent /etc/tuned/active_profile --\n-- end --\n"
	slow := maps.Clone(f)
	slow[name] = "fettle: recording what profiles and rules read\n" + f[name]
	for _, f := range []map[string]string{slow, f} {
		if b, err := sosTree(t, f).Files.ReadFile("/proc/sys/vm/swappiness"); err != nil || string(b) != "10\n" {
			t.Errorf("swappiness: %q, %v", b, err)
		}
	}
	h := sosTree(t, f)
	if _, err := h.Files.ReadFile("/etc/tuned/active_profile"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the archive knows to be absent: %v", err)
	}
	if b, err := h.Files.ReadFile("/proc/51/comm"); err != nil || string(b) != "postgres\n" {
		t.Errorf("comm: %q, %v", b, err)
	}
	if text, _, err := h.Tail("/version.txt", 100); err != nil || string(text) != "sosreport: 4.0\n" {
		t.Errorf("tail: %q, %v", text, err)
	}
	for most, want := range map[int64]string{0: "sosreport: 4.0\n", 5: ""} {
		var lines strings.Builder
		if _, err := h.Lines("/version.txt", most, func(line []byte) { lines.Write(line) }); err != nil || lines.String() != want {
			t.Errorf("lines of the last %d bytes: %q, %v", most, lines.String(), err)
		}
	}
	f[name] = f[name][:len(f[name])-12]
	if b, err := sosTree(t, f).Files.ReadFile("/proc/sys/vm/swappiness"); err != nil || string(b) != "60\n" {
		t.Errorf("of an archive that was cut off: %q, %v", b, err)
	}
}

// Every report can be read: no panic, no file outside of it, no process without a name.
func FuzzSosreport(f *testing.F) {
	f.Add(sosGroups, sosTimes, wholeSos()["sos_reports/manifest.json"], wholeSos()["sos_commands/filesys/df_-al_-x_autofs"])
	f.Add("COMMAND CGROUP\n", "S UID PID PPID STARTED TT TIME CMD\n", "{}", "Filesystem 1K-blocks\n")
	dir := f.TempDir()
	sosIn(f, dir, wholeSos())
	f.Fuzz(func(t *testing.T, groups, times, manifest, df string) {
		h := sosIn(t, dir, map[string]string{
			groupsName: groups, timesName: times, "sos_reports/manifest.json": manifest, "sos_commands/filesys/df_-al_-x_autofs": df,
		})
		entries, _ := h.Files.ReadDir("/proc")
		for _, e := range entries {
			if b, err := h.Files.ReadFile("/proc/" + e.Name() + "/comm"); err == nil && strings.TrimSpace(string(b)) == "" {
				t.Errorf("process %s has no name", e.Name())
			}
		}
		if size, free, err := h.Space("/var"); err == nil && free > size {
			t.Errorf("%d of %d bytes are free", free, size)
		}
		var read struct{ Any any }
		if json.Unmarshal([]byte(manifest), &read) != nil {
			if _, err := h.Files.ReadFile("/sys/devices/system/cpu/cpu0/cpuidle"); !Unknown(err) {
				t.Error("a manifest that cannot be read says what is absent")
			}
		}
	})
}
