package profile

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// inventedCPUs are the files of a machine whose CPUs are distributed over sockets in turn. CPUs in
// offline have no topology.
func inventedCPUs(count, sockets int, online string, offline ...int) map[string]string {
	files := map[string]string{
		"/sys/devices/system/cpu/online":                 online + "\n",
		"/sys/devices/system/cpu/present":                fmt.Sprintf("0-%d\n", count-1),
		"/sys/devices/system/cpu/cpufreq/boost":          "1\n",
		"/sys/devices/system/cpu/cpuidle/current_driver": "none\n",
		"/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Invented CPU @ 2.40GHz\nflags\t\t: fpu vme\n\n" +
			"processor\t: 1\nvendor_id\t: GenuineIntel\n",
	}
	for c := range count {
		dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d", c)
		files[dir+"/uevent"] = ""
		if !slices.Contains(offline, c) {
			files[dir+"/topology/physical_package_id"] = fmt.Sprintf("%d\n", c%sockets)
		}
	}
	return files
}

func lookUp(t testing.TB, name string) Function {
	t.Helper()
	for _, f := range Functions {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no function %q", name)
	return Function{}
}

// call evaluates one call as the loader does. "<none>" means that the call stays unexpanded,
// "error: ..." that it ends the load.
func call(t testing.TB, h *host.Host, name string, args ...string) string {
	t.Helper()
	f := lookUp(t, name)
	if !f.accepts(len(args)) {
		return "<none>"
	}
	result, ok, err := f.Call(context.Background(), &Env{Host: h, Warn: func(string, ...any) {}}, args)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !ok:
		return "<none>"
	}
	return result
}

func TestFunctions(t *testing.T) {
	files := inventedCPUs(8, 2, "0-4,6-7", 5)
	files["/sys/devices/system/cpu/caps/pmu_name"] = "icelake\n"
	for d, id := range map[string]string{"uncore00": "0", "uncore01": "0", "uncore02": "1"} {
		files["/sys/devices/system/cpu/intel_uncore_frequency/"+d+"/package_id"] = id + "\n"
	}
	files["/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz"] = "1\n"
	h := machine.Mounted(t, files)

	for _, c := range []struct {
		call string // as in a profile, without ${f: }
		want string
	}{
		{"assertion:same:a:a", "<none>"},
		{"assertion:not the same:a:b", `error: assertion failed: not the same ("a" is not "b")`},
		{"assertion:too few:a", "<none>"},
		{"assertion_non_equal:differ:a:b", "<none>"},
		{"assertion_non_equal:equal:a:a", `error: assertion failed: equal (both are "a")`},

		// Even CPUs are socket 0, odd ones socket 1; 5 is offline.
		{"calc_isolated_cores", "2-4,6-7"},
		{"calc_isolated_cores:2", "4,6-7"},
		{"calc_isolated_cores:0", "0-4,6-7"},
		{"calc_isolated_cores:9", ""},
		{"calc_isolated_cores:-1", "<none>"},
		{"calc_isolated_cores:x", "<none>"},
		{"calc_isolated_cores:1:2", "<none>"},

		{"check_net_queue_count:4", "4"},
		{"check_net_queue_count:", "7\n"},

		{"cpuinfo_check:AuthenticAMD:amd:GenuineIntel:intel:other", "intel"},
		{"cpuinfo_check:AuthenticAMD:amd:other", "other"},
		{"cpuinfo_check:AuthenticAMD:amd", ""},
		{"cpuinfo_check:AuthenticAMD", "<none>"},
		{"cpuinfo_check:(:amd", "error: regular expression"},

		{"cpulist_unpack:1-3,5", "1,2,3,5"},
		{"cpulist_unpack:0-2:5-6", "0,1,2,5,6"},
		{"cpulist_unpack:0xf,f", "0,1,2,3,4,5,6,7"},
		{"cpulist_unpack:0x3,,8", "0,1,8"},
		{"cpulist_unpack:0x3:8", "0,1,8"},
		{"cpulist_unpack:0-5,^3,!0-1", "2,4,5"},
		{"cpulist_unpack:^3,0-5", "0,1,2,4,5"},
		{`cpulist_unpack:"0-3"`, "0,1,2,3"},
		{"cpulist_unpack: 1 , 2 ", "1,2"},
		{"cpulist_unpack:3-1", ""},
		{"cpulist_unpack:1,x", ""},
		{"cpulist_unpack:1,0xzz", "1"},
		{"cpulist_unpack:1-2-9", "1,2"},
		{"cpulist_unpack", ""},
		{"cpulist_unpack:0-8192", "error: CPU list"},
		{"cpulist_unpack:0x1" + strings.Repeat("0", 2048), "error: CPU mask"},

		{"cpulist_pack:1,2,3,5", "1-3,5"},
		{"cpulist_pack:1,2", "1-2"},
		{"cpulist_pack:", ""},
		{"cpulist_invert:0-2", "3,4,6,7"},
		{"cpulist_online:0-6", "0,1,2,3,4,6"},
		{"cpulist_online:0x3:8", "3,4"}, // one mask, 0x38, and 5 is offline
		{"cpulist_present:4-12", "4,5,6,7"},
		{"cpulist2devs:1-3", "cpu1,cpu2,cpu3"},
		{"cpulist2hex:0-3", "0000000f"},
		{"cpulist2hex:32", "00000001,00000000"},
		{"cpulist2hex:", "00000000"},
		{"cpulist2hex_invert:0-3", "000000d0"},
		{"hex2cpulist:00000007", "0,1,2"},
		{"hex2cpulist:0x1,00000000", "32"},
		{"hex2cpulist:-3", ""},
		{"hex2cpulist:xyz", ""},

		{"intel_recommended_pstate", "active"},
		{"package2cpus:1", "cpu1,cpu3,cpu7"},
		{"package2cpus:*", "cpu0,cpu1,cpu2,cpu3,cpu4,cpu6,cpu7"},
		{"package2cpus:[!0]", "cpu1,cpu3,cpu7"},
		{"package2cpus:2", "<none>"},
		{"package2cpus", "<none>"},
		{"package2uncores:0", "uncore00,uncore01"},
		{"package2uncores:0:1", "uncore00,uncore01,uncore02"},

		{"kb2s:4", "8"},
		{"kb2s: -1_0 ", "-20"},
		{"kb2s:4k", "<none>"},
		{"s2kb:8", "4"},
		{"s2kb:1", "0"},
		{"s2kb:3", "2"},
		{"s2kb:5", "2"},
		{"s2kb:-3", "-2"},
		{"s2kb:9007199254740993", "4503599627370496"},
		{"s2kb:x", "<none>"},

		{"log:a:b", "ab"},
		{"regex_search_ternary:abc:b:yes:no", "yes"},
		{"regex_search_ternary:abc:^b:yes:no", "no"},
		{"regex_search_ternary:abc:(:yes:no", "error: regular expression"},
		{"strip:  foo :bar \t", "foo bar"},
		{"strip", "<none>"},
	} {
		words := strings.Split(c.call, ":")
		got := call(t, h, words[0], words[1:]...)
		if got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("${f:%.60s} = %.200q, want %q", c.call, got, c.want)
		}
	}
}

func TestFunctionsOnOtherMachines(t *testing.T) {
	amd := inventedCPUs(2, 1, "0-1")
	amd["/proc/1/status"] = "Name:\tsystemd\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n"
	amd["/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz"] = "1\n"
	amd["/sys/devices/system/cpu/intel_uncore_frequency/package_01_die_00/max_freq_khz"] = "1\n"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"intel_recommended_pstate", nil, "disable"},
		{"check_net_queue_count", []string{"auto"}, "1\n"}, // as nproc under CPUAffinity=0
		{"package2uncores", []string{"1"}, "package_01_die_00"},
		{"package2uncores", []string{"0?"}, "package_00_die_00,package_01_die_00"},
	} {
		if got := call(t, machine.Mounted(t, amd), c.name, c.args...); got != c.want {
			t.Errorf("%s%q = %q, want %q", c.name, c.args, got, c.want)
		}
	}
}

// TestFunctionsOnAnEmptyCopy tests that data missing in a copied machine defers a call, and never
// gives a wrong result.
func TestFunctionsOnAnEmptyCopy(t *testing.T) {
	h, err := host.Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{Host: h, Warn: t.Logf}
	for name, args := range map[string][]string{
		"calc_isolated_cores": nil, "check_net_queue_count": {"x"}, "cpuinfo_check": {"a", "b"},
		"cpulist2hex_invert": {"0"}, "cpulist_invert": {"0"}, "cpulist_online": {"0"}, "cpulist_present": {"0"},
		"intel_recommended_pstate": nil, "package2cpus": {"0"}, "package2uncores": {"0"},
		"exec": {"true"}, "virt_check": {"a", "b"}, "lscpu_check": {"a", "b"},
	} {
		if _, ok, err := lookUp(t, name).Call(context.Background(), env, args); !host.Unknown(err) {
			t.Errorf("%s = %v, %v; want %v", name, ok, err, host.ErrNotRecorded)
		}
	}
}

func TestFunctionsThatExecute(t *testing.T) {
	h := host.Live()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"exec", []string{"echo", "a", "b"}, "a b\n"},
		{"exec", []string{"printf", `a\r\nb\rc`}, "a\nb\nc"},
		{"exec", []string{"false"}, "<none>"},
		{"exec", []string{"no such program"}, "<none>"},
		{"exec", nil, "<none>"},
	} {
		if got := call(t, h, c.name, c.args...); got != c.want {
			t.Errorf("%s%q = %q, want %q", c.name, c.args, got, c.want)
		}
	}
	if got := call(t, h, "virt_check", "vm", "metal"); got != "vm" && got != "metal" {
		t.Errorf("virt_check = %q", got)
	}
	guest := machine.Mounted(t, map[string]string{"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor\n"})
	metal := machine.Mounted(t, map[string]string{"proc/cpuinfo": "processor : 0\nflags : fpu\n"})
	for _, c := range []struct {
		h    *host.Host
		run  func() (host.Result, error)
		want string
	}{
		{guest, func() (host.Result, error) { return host.Result{Stdout: []byte("kvm\n")}, nil }, "vm"},
		{guest, func() (host.Result, error) { return host.Result{}, nil }, "metal"},
		{guest, func() (host.Result, error) { return host.Result{}, fs.ErrNotExist }, "vm"},
		{guest, func() (host.Result, error) { return host.Result{ExitCode: 1}, nil }, "vm"},
		{metal, func() (host.Result, error) { return host.Result{}, fs.ErrNotExist }, "metal"},
	} {
		c.h.Exec = answering(c.run)
		if got := call(t, c.h, "virt_check", "vm", "metal"); got != c.want {
			t.Errorf("virt_check = %q, want %q", got, c.want)
		}
	}
	for _, f := range Functions {
		if want := f.Name == "exec" || f.Name == "virt_check" || f.Name == "lscpu_check"; f.Executes != want {
			t.Errorf("%s: Executes is %v", f.Name, f.Executes)
		}
	}
}

func TestFunctionsTable(t *testing.T) {
	if len(Functions) != 25 {
		t.Errorf("%d functions, TuneD 2.28 has 25", len(Functions))
	}
	if !slices.IsSortedFunc(Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not in order")
	}
}

// answering simulates a machine's programs, which all end with the given result.
type answering func() (host.Result, error)

func (a answering) Run(context.Context, host.Command) (host.Result, error) { return a() }
func (a answering) LookPath(name string) (string, error)                   { return name, nil }

// TestIncludeByVirtCheck tests that an include by virt_check is known before the profile is
// applied: on a machine, and on a copy that records the platform.
func TestIncludeByVirtCheck(t *testing.T) {
	texts := map[string]string{
		"p":     "[main]\ninclude=${f:virt_check:vm:metal}\n",
		"vm":    "[sysctl]\nvm.swappiness=30\n",
		"metal": "[sysctl]\nvm.swappiness=10\n",
	}
	for _, c := range []struct {
		name, cpuinfo string
		copied        bool
		want          string // of swappiness; "" where it is not known
	}{
		{"guest", "processor : 0\nflags : fpu hypervisor\n", false, "30"},
		{"metal", "processor : 0\nflags : fpu\n", false, "10"},
		{"a copy of a guest", "processor : 0\nflags : fpu hypervisor\n", true, "30"},
		{"a copy that does not tell", "", true, ""},
	} {
		files := map[string]string{"/etc/os-release": "ID=x\n"}
		for name, text := range texts {
			files["/etc/tuned/"+name+"/tuned.conf"] = text
		}
		if c.cpuinfo != "" {
			files["/proc/cpuinfo"] = c.cpuinfo
		}
		h := machine.Mounted(t, files)
		if c.copied {
			h = machine.Copy(t, files)
		}
		p, err := (&Loader{Host: h, Dirs: []string{"/etc/tuned"}}).Load(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, u := range p.Units {
			for _, o := range u.Options {
				got = o.Value
			}
		}
		if got != c.want || (c.want == "") != (len(p.Unresolved) == 1) {
			t.Errorf("%s: %q, unresolved %v", c.name, got, p.Unresolved)
		}
	}
}
