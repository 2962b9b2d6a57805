package profile

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fettle.dev/fettle/internal/host"
)

func TestParseMain(t *testing.T) {
	c, err := ParseMain(MainConfigFile, []byte(lines(
		"# comment", "daemon = 0", "dynamic_tuning=yes", "sleep_interval=2 # s", "update_interval = 20", "recommend_command=off",
		"reapply_sysctl=False", "reapply_sysctl_exclude = net.ipv4.ip_forward, net.*;vm.x", "default_instance_priority=-3",
		"udev_buffer_size=2MB", "log_file_count=3", "log_file_max_size=512kb", "uname_string=x86_64", "cpuinfo_string=",
		"enable_dbus=0", "enable_unix_socket=1", "unix_socket_path=/run/s", "unix_socket_signal_paths=/a,/b", "unix_socket_ownership=root -1",
		"unix_socket_permissions=0o660", "connections_backlog=5", "rollback=not_on_exit", "profile_dirs=/opt/p,/opt/q", "startup_udev_settle_wait=7",
		"numa_balance=all", "numa_balance_exclude=a,b", "numa_balance_interval=30",
		"something=else")))
	if err != nil {
		t.Fatal(err)
	}
	x86, empty := "x86_64", ""
	want := MainConfig{
		DynamicTuning: true, SleepInterval: 2 * time.Second, UpdateInterval: 20 * time.Second,
		ReapplySysctlExclude: []string{"net.ipv4.ip_forward", "net.*", "vm.x"}, DefaultInstancePriority: -3,
		UdevBufferSize: 2 << 20, LogFileCount: 3, LogFileMaxSize: 512 << 10, UnameString: &x86, CPUInfoString: &empty,
		EnableUnixSocket: true, UnixSocketPath: "/run/s", UnixSocketSignalPaths: []string{"/a", "/b"}, UnixSocketOwnership: "root -1",
		UnixSocketPermissions: 0o660, ConnectionsBacklog: 5, Rollback: RollbackNotOnExit, ProfileDirs: []string{"/opt/p", "/opt/q"},
		StartupUdevSettleWait: 7 * time.Second,
		NumaBalance:           NumaBalance{Processes: []string{"all"}, Exclude: []string{"a", "b"}, Min: 5 * time.Second, Max: 30 * time.Second},
	}
	if len(c.Where) != len(MainKeys) || c.Where["rollback"] != (Pos{MainConfigFile, 22}) {
		t.Errorf("places: %v", c.Where)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].String() != MainConfigFile+`:28: unknown key "something"` {
		t.Errorf("warnings: %v", c.Warnings)
	}
	got := *c
	got.Where, got.Warnings = nil, nil
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}

	for text, want := range map[string]string{
		"daemon=maybe": "daemon=maybe: expected 1 or 0", "sleep_interval=-1": "whole number of seconds", "log_file_count=x": "whole number",
		"udev_buffer_size=1TB": "expected a size", "unix_socket_permissions=abc": "expected a mode", "rollback=never": "expected auto or not_on_exit",
		"profile_dirs=relative": `"relative" is not an absolute path`, "[a": "expected name=value",
	} {
		if _, err := ParseMain("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}

	h, _ := plant(t, nil)
	d, err := ReadMain(h)
	if err != nil || !d.Daemon || d.DynamicTuning || !d.RecommendCommand || d.UdevBufferSize != 1<<20 || d.UnixSocketPermissions != 0o600 || d.UnameString != nil {
		t.Errorf("defaults: %+v %v", d, err)
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  State
		err   string
	}{
		{"nothing", nil, State{Mode: Auto}, ""},
		{"a profile without a mode", map[string]string{ActiveProfileFile: "a b\n"}, State{Active: []string{"a", "b"}, Mode: Manual}, ""},
		{"auto", map[string]string{ActiveProfileFile: "a\n", ProfileModeFile: "auto\n", PostLoadedProfileFile: "p\n"}, State{Active: []string{"a"}, Mode: Auto, PostLoaded: "p"}, ""},
		{"manual without a profile", map[string]string{ActiveProfileFile: "", ProfileModeFile: "manual"}, State{Mode: Manual}, ""},
		{"a bad mode", map[string]string{ProfileModeFile: "sometimes"}, State{}, `/etc/tuned/profile_mode:1: "sometimes": expected "auto" or "manual"`},
		{"two post-loaded", map[string]string{PostLoadedProfileFile: "a b"}, State{}, "only one profile can be post-loaded"},
	} {
		h, _ := plant(t, c.files)
		got, err := ReadState(h)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Active, c.want.Active) || got.PostLoaded != c.want.PostLoaded || got.Mode != c.want.Mode {
			t.Errorf("%s: got %+v %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func TestWriteState(t *testing.T) {
	requireRoot(t)
	h, root := plant(t, map[string]string{"/etc/motd": ""})
	read := func(p string) string {
		b, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return "absent"
		}
		return string(b)
	}
	if err := WriteState(h, State{Active: []string{"a", "b"}, Mode: Manual}); err != nil {
		t.Fatal(err)
	}
	if a, m, p := read(ActiveProfileFile), read(ProfileModeFile), read(PostLoadedProfileFile); a != "a b\n" || m != "manual\n" || p != "absent" {
		t.Errorf("wrote %q %q %q", a, m, p)
	}
	if err := os.Chmod(filepath.Join(root, ActiveProfileFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := WriteState(h, State{Mode: Auto, PostLoaded: "p"}); err != nil {
		t.Fatal(err)
	}
	if a, m, p := read(ActiveProfileFile), read(ProfileModeFile), read(PostLoadedProfileFile); a != "" || m != "auto\n" || p != "p\n" {
		t.Errorf("wrote %q %q %q", a, m, p)
	}
	if st, err := os.Stat(filepath.Join(root, ActiveProfileFile)); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
	for _, bad := range []State{{Active: []string{"a b"}, Mode: Auto}, {Active: []string{"../x"}, Mode: Auto}, {Mode: "x"}, {Mode: Auto, PostLoaded: "\n"}} {
		if err := WriteState(h, bad); err == nil {
			t.Errorf("%+v was written", bad)
		}
	}
}

const vmCPU = "processor\t: 0\nflags\t\t: fpu hypervisor sse\n"
const metalCPU = "processor\t: 0\nflags\t\t: fpu sse\n"

func TestRecommend(t *testing.T) {
	const rules = "/usr/lib/tuned/recommend.d/50-tuned.conf"
	for _, c := range []struct {
		name    string
		files   map[string]string
		want    string
		why     string // part of the conditions that hold
		unknown string
	}{
		{"nothing at all", nil, "balanced", "", ""},
		{"a virtual machine", map[string]string{"/proc/cpuinfo": vmCPU, rules: "[metal]\nvirt=\n[vm]\nvirt=.+"}, "vm", "a virtual machine (the hypervisor flag", ""},
		{"bare metal", map[string]string{"/proc/cpuinfo": metalCPU, rules: "[vm]\nvirt=.+\n[metal]\nvirt="}, "metal", "no hypervisor flag", ""},
		{"the kind by DMI", map[string]string{"/proc/cpuinfo": vmCPU, "/sys/class/dmi/id/sys_vendor": "VMware, Inc.\n", rules: "[k]\nvirt=kvm\n[v]\nvirt=vmware"}, "v", `found "vmware"`, ""},
		{"a kind that nothing tells", map[string]string{"/proc/cpuinfo": vmCPU, rules: "[k]\nvirt=kvm\n[v]\nvirt=.+"}, "v", "", "virt=kvm"},
		{"virtualisation unknown", map[string]string{rules: "[vm]\nvirt=.+\n[any]\n"}, "any", "", "virt=.+"},
		{"all must hold", map[string]string{"/etc/system-release-cpe": "cpe:/o:x:server\n", "/etc/f": "text\nmore", rules: lines("[a]", "system=.*server.*", "/etc/f=more", "[b]", "system=.*server.*", "/etc/f=text.more", "[c]")}, "b", "/etc/f=text.more: /etc/f:2: more", ""},
		{"a file that is not there", map[string]string{rules: "[a]\n/etc/f=\n[b]\nsystem=\n"}, "b", "does not exist", ""},
		{"suffix after a comma", map[string]string{rules: "[a,1]\n/nope=x\n[a,b,2]\n"}, "a,b", "", ""},
		{"processes by name", map[string]string{"/proc/1/comm": "init\n", "/proc/22/comm": "postgres\n", rules: "[x]\nprocess=gres\n[p]\nprocess1=post.*s$\nprocess2=init"}, "p", "running: postgres", ""},
		{"no process", map[string]string{"/proc/1/comm": "init\n", rules: "[x]\nprocess=oracle"}, "balanced", "", ""},
		{"chassis", map[string]string{"/sys/class/dmi/id/chassis_type": "10\n", rules: "[d]\nchassis_type=desktop\n[n]\nchassis_type=note"}, "n", `found "Notebook"`, ""},
		{"role", map[string]string{"/etc/rhsm/syspurpose/syspurpose.json": `{"role":"Red Hat Enterprise Linux Server"}`, rules: "[r]\nsyspurpose_role=red hat.*server"}, "r", "", ""},
		{"an unknown keyword holds", map[string]string{rules: "[a]\nmoon=full"}, "a", "unknown keyword", ""},
		{"an expression that cannot be", map[string]string{rules: "[a]\nsystem=(?!x)\n[b]\n"}, "b", "", "look-ahead"},
		{"recommend.conf first", map[string]string{"/etc/tuned/recommend.conf": "[first]\n", rules: "[second]\n"}, "first", "", ""},
		{"/etc shadows by name, order by name", map[string]string{"/etc/tuned/recommend.d/50-tuned.conf": "[none]\n/nope=x", rules: "[vendor]\n", "/usr/lib/tuned/recommend.d/60.conf": "[sixty]\n", "/etc/tuned/recommend.d/55.conf": "[fiftyfive]\n"}, "fiftyfive", "", ""},
		{"a broken file is left out", map[string]string{"/etc/tuned/recommend.conf": "broken", rules: "[second]\n"}, "second", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := plant(t, c.files)
			r, err := (&Loader{Host: h}).Recommend(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			print := func(conditions []Condition) string {
				var s []string
				for _, c := range conditions {
					s = append(s, c.String())
				}
				return strings.Join(s, "\n")
			}
			why, unknown := print(r.Why), print(r.Unknown)
			if r.Profile != c.want || !strings.Contains(why, c.why) || (c.unknown == "") != (unknown == "") || !strings.Contains(unknown, c.unknown) {
				t.Errorf("got %s\nwhy %s\nunknown %s\nwant %s %s %s", r.Profile, why, unknown, c.want, c.why, c.unknown)
			}
			if c.name == "a broken file is left out" && len(r.Warnings) != 1 {
				t.Errorf("warnings %v", r.Warnings)
			}
		})
	}

	h, _ := plant(t, nil)
	own := fstest.MapFS{"recommend.conf": {Data: []byte("[own]\n")}}
	if r, err := (&Loader{Host: h, Builtin: own}).Recommend(context.Background()); err != nil || r.Profile != "own" || r.Pos != (Pos{"builtin:/recommend.conf", 1}) {
		t.Errorf("fettle's own: %+v %v", r, err)
	}
	h, _ = plant(t, map[string]string{rules: "[vendor]\n"})
	if r, err := (&Loader{Host: h, Builtin: own}).Recommend(context.Background()); err != nil || r.Profile != "vendor" {
		t.Errorf("the machine's own: %+v %v", r, err)
	}
	off := DefaultMain()
	off.RecommendCommand = false
	if r, err := (&Loader{Host: h, Builtin: own, Main: off}).Recommend(context.Background()); err != nil || r.Profile != "balanced" {
		t.Errorf("recommend_command=0: %+v %v", r, err)
	}
}

func TestSkipped(t *testing.T) {
	h, _ := plant(t, map[string]string{
		"/proc/cpuinfo": "vendor_id\t: GenuineIntel\nmodel name\t: X\n", "/proc/sys/kernel/ostype": "Linux\n", "/proc/sys/kernel/hostname": "h\n",
		"/proc/sys/kernel/osrelease": "6.1.0\n", "/proc/sys/kernel/version": "#1 SMP\n", "/proc/sys/kernel/arch": "aarch64\n",
	})
	preset := "ThunderX"
	for _, c := range []struct {
		name string
		main MainConfig
		unit Unit
		skip bool
		why  string
	}{
		{"no condition", MainConfig{}, Unit{Enabled: true}, false, ""},
		{"disabled", MainConfig{}, Unit{Name: "u"}, true, "[u] is disabled"},
		{"cpuinfo matches at a line", MainConfig{}, Unit{Enabled: true, CPUInfoRegex: `^model name\s+: X$`}, false, ""},
		{"cpuinfo does not", MainConfig{}, Unit{Name: "u", Enabled: true, CPUInfoRegex: "AMD", Where: map[string]Pos{"cpuinfo_regex": {"f", 3}}}, true, "[u] is for other machines: cpuinfo_regex=AMD (f:3) finds nothing in /proc/cpuinfo"},
		{"cpuinfo_string", MainConfig{CPUInfoString: &preset}, Unit{Enabled: true, CPUInfoRegex: "Genuine"}, true, "cpuinfo_string of tuned-main.conf"},
		{"uname", MainConfig{}, Unit{Enabled: true, UnameRegex: "^Linux h 6.1.0 #1 SMP aarch64$"}, false, ""},
		{"uname_string", MainConfig{UnameString: &preset}, Unit{Enabled: true, UnameRegex: "aarch64"}, true, "uname_string of tuned-main.conf"},
	} {
		skip, why, err := c.main.Skipped(&c.unit, h)
		if err != nil || skip != c.skip || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v %q %v", c.name, skip, why, err)
		}
	}
	nothing := &host.Host{Files: noFiles{}}
	if _, _, err := (&MainConfig{}).Skipped(&Unit{Enabled: true, UnameRegex: "x"}, nothing); !host.Unknown(err) {
		t.Errorf("an unrecorded uname: %v", err)
	}
	// One condition that says no decides, whatever the other one would say.
	for _, c := range []struct {
		main MainConfig
		unit Unit
		why  string
	}{
		{MainConfig{UnameString: &preset}, Unit{Enabled: true, UnameRegex: "aarch64", CPUInfoRegex: "AMD"}, "uname_regex=aarch64"},
		{MainConfig{CPUInfoString: &preset}, Unit{Enabled: true, UnameRegex: "aarch64", CPUInfoRegex: "AMD"}, "cpuinfo_regex=AMD"},
		{MainConfig{CPUInfoString: &preset}, Unit{Enabled: true, UnameRegex: "(", CPUInfoRegex: "AMD"}, "cpuinfo_regex=AMD"},
	} {
		if skip, why, err := c.main.Skipped(&c.unit, nothing); !skip || err != nil || !strings.Contains(why, c.why) {
			t.Errorf("want skipped for %s: %v %q %v", c.why, skip, why, err)
		}
	}
}

func TestSnapshot(t *testing.T) {
	requireRoot(t)
	ctx := context.Background()
	binary := "\x7fELF\xff\x00"
	h, root := runner(t, map[string]string{
		"p":                                 "[main]\ninclude=q,-absent\nsummary=s\n[variables]\ninclude=/etc/v\n[script]\nscript=script.sh\n[u]\nx=${f:exec:/bin/echo:-n:answer}${a}",
		"q":                                 "[u]\ny=1",
		"/etc/v":                            "a=1",
		"unrelated":                         "[z]",
		"/etc/absent":                       "",
		"/usr/lib/tuned/p/script.sh":        "#!/bin/sh\n",
		"/usr/lib/tuned/p/lib/helper":       binary,
		"/usr/lib/tuned/p/other/tuned.conf": "[other]",
		"/usr/lib/tuned/p/large":            strings.Repeat("x", maxSnapshotFile+1),
		"/etc/tuned/p/tuned.conf":           "[main]\ninclude=p\n[u]\nz=3",
	})
	own := fstest.MapFS{"r/tuned.conf": {Data: []byte("[r]\nx=own")}}
	accepted, err := (&Loader{Host: h, Builtin: own, Execute: true}).Load(ctx, "p", "r")
	if err != nil {
		t.Fatal(err)
	}
	s, err := accepted.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range s.Files {
		paths = append(paths, f.Path)
	}
	want := "/etc/tuned/p/tuned.conf /etc/v /usr/lib/tuned/p/lib/helper /usr/lib/tuned/p/script.sh /usr/lib/tuned/p/tuned.conf /usr/lib/tuned/q/tuned.conf builtin:/r/tuned.conf"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("files\n got %s\nwant %s", got, want)
	}
	if strings.Join(s.Omitted, " ") != "/usr/lib/tuned/p/large" || strings.Join(s.Absent, " ") != "absent" {
		t.Errorf("omitted %v, absent %v", s.Omitted, s.Absent)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}

	// Everything on the machine changes; what was accepted stays what it was.
	if err := os.RemoveAll(filepath.Join(root, "usr")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/v"), []byte("a=2"), 0o644); err != nil {
		t.Fatal(err)
	}
	kept := &Snapshot{}
	if err := json.Unmarshal(data, kept); err != nil {
		t.Fatal(err)
	}
	later := fstest.MapFS{"r/tuned.conf": {Data: []byte("[r]\nx=newer")}}
	again, err := (&Loader{Host: h, Builtin: later, Snapshot: kept}).Load(ctx, kept.Names...)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(accepted)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Errorf("from the snapshot:\n%s\naccepted:\n%s", b, a)
	}
	if f, ok := kept.File("/usr/lib/tuned/p/script.sh"); !ok || f.Mode != 0o755 || string(f.Data) != "#!/bin/sh\n" {
		t.Errorf("script: %+v %v", f, ok)
	}
	if f, _ := kept.File("/usr/lib/tuned/p/lib/helper"); string(f.Data) != binary {
		t.Errorf("binary: %q", f.Data)
	}
	twice, err := again.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := json.Marshal(twice); string(c) != string(data) {
		t.Errorf("a snapshot of a snapshot:\n%s\nwant\n%s", c, data)
	}

	list, err := (&Loader{Host: h, Snapshot: kept}).List()
	if err != nil || len(list) != 3 || list[0].Name != "p" || list[0].Path != "/etc/tuned/p/tuned.conf" || list[2].Name != "r" || !list[2].Builtin {
		t.Errorf("list of a snapshot: %+v %v", list, err)
	}

	for _, bad := range []string{
		"{", `{"schema":"x"}`, strings.Replace(string(data), "a=1", "a=9", 1),
		strings.Replace(string(data), `"path":"/etc/v"`, `"path":"/etc/../v"`, 1), strings.Replace(string(data), `"mode":"0755"`, `"mode":"4755"`, 1),
	} {
		if err := json.Unmarshal([]byte(bad), &Snapshot{}); err == nil {
			t.Errorf("accepted %.80s", bad)
		}
	}
}

// FuzzSnapshot tests that an accepted snapshot can be written and read again.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(`{"schema":"fettle/profile-snapshot/v1","names":["p"],"dirs":["/d"],"files":[{"path":"/d/p/tuned.conf","mode":"0644","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","text":""}]}`))
	h := remember(nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Snapshot{}
		if err := json.Unmarshal(data, s); err != nil || s.Schema == "" { // null is not handed on
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &Snapshot{}); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		_, _ = (&Loader{Host: h, Snapshot: s}).Load(context.Background(), s.Names...)
	})
}

func TestDifferencesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Differences {
		if seen[d.ID] || d.ID == "" || d.TuneD == "" || d.Fettle == "" || d.Why == "" || d.Versions == "" {
			t.Errorf("%+v", d)
		}
		seen[d.ID] = true
	}
}

// TestRecommendOfACopy tests that a condition on a file that a copy does not record is unknown:
// neither met nor failed.
func TestRecommendOfACopy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := host.Copy(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{"system=.*server.*", "/etc/f=", "syspurpose_role=.*", "chassis_type=Notebook", "process=x"} {
		own := fstest.MapFS{"recommend.conf": {Data: []byte("[own]\n" + condition + "\n[any]\n")}}
		if r, err := (&Loader{Host: h, Builtin: own}).Recommend(t.Context()); err != nil || r.Profile != "any" || len(r.Unknown) != 1 {
			t.Errorf("%s: %+v %v", condition, r, err)
		}
	}
}
