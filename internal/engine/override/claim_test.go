package override

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// claimMachine creates a tree from text: "-- NAME --" begins a file, and the content "-> TARGET"
// makes the file a link.
func claimMachine(t *testing.T, text string) *host.Host {
	t.Helper()
	files := map[string]string{}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("no heading: %q", part)
		}
		if files[name] = content + "\n"; strings.HasPrefix(content, "-> ") {
			files[name] = strings.TrimSpace(content)
		}
	}
	return machine.Mounted(t, files) // what is not there is absent, not unknown
}

func read(t *testing.T, h *host.Host) (*Claims, []Problem) {
	t.Helper()
	return Read(context.Background(), h, setting.Kernel(h))
}

// brief formats a claim on one line: position, value, and why it may have no effect.
func brief(c Claim) string {
	s := fmt.Sprintf("%s %s", c.Place(), c.Value)
	if c.Via != "" {
		s += " (via " + c.Via + ")"
	}
	if c.Administrator {
		s += " [admin]"
	}
	if c.Condition != "" {
		s += " if " + c.Condition
	}
	if c.Void != "" {
		s += " VOID " + c.Void
	}
	return s
}

// claimsFor returns the claims on one setting, in order, formatted by brief.
func claimsFor(t *testing.T, c *Claims, name string) []string {
	t.Helper()
	s, err := setting.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range c.For(s) {
		out = append(out, brief(c))
	}
	return out
}

// check compares the claims of a machine, and its problems, with the expected ones.
func check(t *testing.T, archive string, want map[string][]string, problems ...string) {
	t.Helper()
	c, got := read(t, claimMachine(t, archive))
	for name, w := range want {
		if diff := cmp.Diff(w, claimsFor(t, c, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var said []string
	for _, p := range got {
		said = append(said, p.String())
	}
	if diff := cmp.Diff(problems, said); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestSysctl(t *testing.T) {
	for name, c := range map[string]struct {
		tree     string
		want     map[string][]string
		problems []string
	}{
		"files by name across directories": {tree: `
-- usr/lib/sysctl.d/50-default.conf --
# a vendor's
vm.swappiness = 60
vm.dirty_ratio = 20
-- etc/sysctl.d/10-mine.conf --
vm/swappiness = 10
-- run/sysctl.d/90-run.conf --
vm.dirty_ratio=5
`, want: map[string][]string{
			"vm.swappiness":            {"/etc/sysctl.d/10-mine.conf:1 10 [admin]", "/usr/lib/sysctl.d/50-default.conf:2 60"},
			"/proc/sys/vm/dirty_ratio": {"/usr/lib/sysctl.d/50-default.conf:3 20", "/run/sysctl.d/90-run.conf:1 5 [admin]"},
			"kernel.panic":             nil,
		}},
		"same name hides, /dev/null masks": {tree: `
-- usr/lib/sysctl.d/50-a.conf --
vm.swappiness = 60
-- etc/sysctl.d/50-a.conf --
vm.swappiness = 10
-- usr/lib/sysctl.d/60-b.conf --
vm.dirty_ratio = 20
-- etc/sysctl.d/60-b.conf --
-> /dev/null
`, want: map[string][]string{
			"vm.swappiness": {
				"/usr/lib/sysctl.d/50-a.conf:1 60 VOID hidden by /etc/sysctl.d/50-a.conf, which has the same name",
				"/etc/sysctl.d/50-a.conf:1 10 [admin]"},
			"vm.dirty_ratio": {"/usr/lib/sysctl.d/60-b.conf:1 20 VOID hidden by /etc/sysctl.d/60-b.conf, which has the same name"},
		}},
		"Debian's link to sysctl.conf is one claim at the link's place": {tree: `
-- etc/sysctl.conf --
vm.swappiness = 10
-- etc/sysctl.d/99-sysctl.conf --
-> ../sysctl.conf
-- etc/sysctl.d/zz.conf --
vm.swappiness = 1
`, want: map[string][]string{"vm.swappiness": {
			"/etc/sysctl.conf:1 10 (via /etc/sysctl.d/99-sysctl.conf) [admin]",
			"/etc/sysctl.d/zz.conf:1 1 [admin]"}}},
		"sysctl.conf without a link comes last": {tree: `
-- etc/sysctl.conf --
vm.swappiness = 10
-- etc/sysctl.d/zz.conf --
vm.swappiness = 1
`, want: map[string][]string{"vm.swappiness": {"/etc/sysctl.d/zz.conf:1 1 [admin]", "/etc/sysctl.conf:1 10 [admin]"}}},
		"explicit lines beat patterns wherever they stand": {tree: `
-- usr/lib/sysctl.d/10-a.conf --
net.ipv4.conf.all.rp_filter = 2
-net.ipv4.conf.lo.rp_filter
-- etc/sysctl.d/90-b.conf --
net.ipv4.conf.*.rp_filter = 1
`, want: map[string][]string{
			"net.ipv4.conf.all.rp_filter": {
				"/etc/sysctl.d/90-b.conf:1 1 [admin] VOID a pattern; not applied to this key, which has its own line at /usr/lib/sysctl.d/10-a.conf:1",
				"/usr/lib/sysctl.d/10-a.conf:1 2"},
			"net.ipv4.conf.lo.rp_filter": {
				"/usr/lib/sysctl.d/10-a.conf:2 (absent) VOID sets nothing, keeps the existing value",
				"/etc/sysctl.d/90-b.conf:1 1 [admin] VOID excluded by /usr/lib/sysctl.d/10-a.conf:2"},
			"net.ipv4.conf.eth0/100.rp_filter": {"/etc/sysctl.d/90-b.conf:1 1 [admin]"},
		}},
		"a later -key takes an assignment back": {tree: `
-- etc/sysctl.d/10-a.conf --
vm.swappiness = 1
-- etc/sysctl.d/20-b.conf --
-vm.swappiness
`, want: map[string][]string{"vm.swappiness": {
			"/etc/sysctl.d/10-a.conf:1 1 [admin] VOID excluded by /etc/sysctl.d/20-b.conf:1",
			"/etc/sysctl.d/20-b.conf:1 (absent) [admin] VOID sets nothing, keeps the existing value"}}},
		"two names of one variable": {tree: `
-- etc/sysctl.d/a.conf --
vm.nr_hugepages = 1
vm.nr_hugepages_mempolicy = 2
`, want: map[string][]string{"vm.nr_hugepages": {"/etc/sysctl.d/a.conf:1 1 [admin]", "/etc/sysctl.d/a.conf:2 2 [admin]"}}},
		"bad lines are told": {tree: `
-- etc/sysctl.d/a.conf --
nonsense
vm.swappiness = 1
../../etc/passwd = x
= 5
-- etc/sysctl.d/b.conf --
-> gone
`, want: map[string][]string{"vm.swappiness": {"/etc/sysctl.d/a.conf:2 1 [admin]"}},
			problems: []string{
				"/etc/sysctl.d/b.conf: dangling link",
				`/etc/sysctl.d/a.conf:1: not an assignment: "nonsense" (want key = value)`,
				`/etc/sysctl.d/a.conf:4: "" is not a key below /proc/sys`,
				`/etc/sysctl.d/a.conf:3: sysctl "/etc/passwd": not a name below /proc/sys`,
			}},
	} {
		t.Run(name, func(t *testing.T) { check(t, c.tree, c.want, c.problems...) })
	}
}

func TestWinnerAndAdministrator(t *testing.T) {
	c, _ := read(t, claimMachine(t, `
-- etc/sysctl.d/10-mine.conf --
vm.swappiness = 10
-- usr/lib/sysctl.d/99-vendor.conf --
vm.swappiness = 60
vm.dirty_ratio = 20
`))
	s := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	if w, ok := c.Winner(s); !ok || w.Place() != "/usr/lib/sysctl.d/99-vendor.conf:1" {
		t.Errorf("winner at boot: %v, %v", w.Place(), ok)
	}
	if w, ok := c.Administrator(s); !ok || w.Value.Text != "10" {
		t.Errorf("what goes before a profile: %v, %v", w.Place(), ok)
	}
	s.Name = "vm.dirty_ratio"
	if w, ok := c.Administrator(s); ok {
		t.Errorf("a vendor's file goes before a profile: %v", w.Place())
	}
}

// TestTwins tests that vm.dirty_bytes and vm.dirty_ratio are one limit: the later line applies.
func TestTwins(t *testing.T) {
	c, _ := read(t, claimMachine(t, `
-- usr/lib/sysctl.d/10-a.conf --
vm.dirty_ratio = 20
vm.dirty_background_bytes = 5000000
-- etc/sysctl.d/20-b.conf --
vm.dirty_bytes = 1000000
vm.dirty_background_bytes = 0
-- etc/sysctl.d/30-c.conf --
vm.dirty_background_ratio = 3
`))
	want := map[string][]string{
		"vm.dirty_ratio":            {"/usr/lib/sysctl.d/10-a.conf:1 20 VOID overridden by /etc/sysctl.d/20-b.conf:1, which sets vm.dirty_bytes"},
		"vm.dirty_bytes":            {"/etc/sysctl.d/20-b.conf:1 1000000 [admin]"},
		"vm.dirty_background_ratio": {"/etc/sysctl.d/30-c.conf:1 3 [admin]"},
	}
	for name, w := range want {
		if diff := cmp.Diff(w, claimsFor(t, c, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, place := range map[string]string{
		"vm.dirty_ratio": "vm.dirty_bytes", "vm.dirty_bytes": "vm.dirty_bytes",
		"vm.dirty_background_bytes": "vm.dirty_background_ratio", "vm.swappiness": "",
	} {
		a, ok := c.Administrator(setting.Setting{Kind: "sysctl", Name: name})
		if ok != (place != "") || a.Setting.Name != place {
			t.Errorf("%s: the administrator's is %s (%v), want %s", name, a.Setting, ok, place)
		}
	}
}

func TestCommandLine(t *testing.T) {
	tree := func(release, cmdline string) string {
		return `
-- proc/sys/kernel/osrelease --
` + release + `
-- proc/cmdline --
` + cmdline + `
-- proc/meminfo --
Hugepagesize:       2048 kB
-- sys/module/intel_idle/parameters/max_cstate --
9
-- sys/devices/system/cpu/cpufreq/policy0/scaling_governor --
powersave
-- sys/block/sda/queue/scheduler --
[mq-deadline] none
-- etc/sysctl.d/50-a.conf --
vm.swappiness = 60
`
	}
	at := func(v string) []string { return []string{"/proc/cmdline:1 " + v + " [admin]"} }
	check(t, tree("6.1.0-40-amd64", `quiet sysctl.vm.swappiness=10 sysctl.net/ipv4.ip_forward=1 transparent_hugepage=never `+
		`hugepagesz=1G hugepages=4 hugepages=512 isolcpus=nohz,domain,2-7 nohz_full=2-7 elevator=noop `+
		`cpufreq.default_governor=performance numa_balancing=disable nmi_watchdog=nopanic,0 intel-idle.max_cstate=1 `+
		`module.name="a b" intel_pstate=no_hwp nosmt -- sysctl.vm.laptop_mode=5 loop.max_loop=9`), map[string][]string{
		"vm.swappiness":       {"/proc/cmdline:1 10 [admin]", "/etc/sysctl.d/50-a.conf:1 60 [admin]"},
		"net.ipv4.ip_forward": at("1"),
		"/sys/kernel/mm/transparent_hugepage/enabled":               at("never"),
		"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": at("4"),
		"vm.nr_hugepages":                                          at("512"),
		"/sys/devices/system/cpu/isolated":                         at("2-7"),
		"/sys/devices/system/cpu/nohz_full":                        at("2-7"),
		"/sys/block/sda/queue/scheduler":                           {"/proc/cmdline:1 noop [admin] VOID ignored since Linux 5.0"},
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": at("performance"),
		"kernel.numa_balancing":                                    at("0"),
		"kernel.nmi_watchdog":                                      at("0"),
		"/sys/module/intel_idle/parameters/max_cstate":             at("1"),
		"/sys/module/module/parameters/name":                       at("a b"),
		"/sys/devices/system/cpu/smt/control":                      at("off"),
		"/sys/devices/system/cpu/intel_pstate/status":              nil,
		"/sys/module/loop/parameters/max_loop":                     {"/proc/cmdline:1 9 [admin] if modprobe loads the module, because only modprobe reads the words after --"},
		"vm.laptop_mode":                                           nil,
	})
	check(t, tree("4.18.0-553.el8", "sysctl.vm.swappiness=10 elevator=noop cpufreq.default_governor=performance"), map[string][]string{
		"vm.swappiness":                  {"/proc/cmdline:1 10 [admin] VOID kernels before 5.8 do not read sysctl parameters", "/etc/sysctl.d/50-a.conf:1 60 [admin]"},
		"/sys/block/sda/queue/scheduler": at("noop"),
		"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": {"/proc/cmdline:1 performance [admin] VOID ignored before Linux 5.9"},
	})
}

func TestModprobe(t *testing.T) {
	check(t, `
-- proc/sys/kernel/osrelease --
6.1.0-40-amd64
-- lib/modules/6.1.0-40-amd64/modules.builtin --
kernel/drivers/cpuidle/haltpoll-x.ko
-- proc/cmdline --
nf_conntrack.hashsize=3
-- usr/lib/modprobe.d/10-a.conf --
options nf-conntrack hashsize=1 \
   expect_hashsize=2
-- etc/modprobe.d/20-b.conf --
# options nf_conntrack hashsize=9
options nf_conntrack hashsize=2 label="x y"
options haltpoll-x force
options
blacklist pcspkr
`, map[string][]string{
		"/sys/module/nf_conntrack/parameters/hashsize": {
			"/usr/lib/modprobe.d/10-a.conf:1 1", "/etc/modprobe.d/20-b.conf:2 2 [admin]", "/proc/cmdline:1 3 [admin]"},
		"/sys/module/nf_conntrack/parameters/expect_hashsize": {"/usr/lib/modprobe.d/10-a.conf:1 2"},
		"/sys/module/nf_conntrack/parameters/label":           {"/etc/modprobe.d/20-b.conf:2 x y [admin]"},
		"/sys/module/haltpoll_x/parameters/force": {
			"/etc/modprobe.d/20-b.conf:3 1 [admin] VOID the module is built into this kernel: only the kernel command line sets its parameters"},
	}, `/etc/modprobe.d/20-b.conf:4: "options": want options MODULE PARAMETER=VALUE`)
}

// TestUnknownInACopy tests that a copy without a directory does not look like a machine without
// claims.
func TestUnknownInACopy(t *testing.T) {
	c, problems := read(t, machine.Copy(t, map[string]string{"etc/sysctl.d/a.conf": "vm.swappiness=1\n"}))
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if u := c.Unknown(); !slices.Contains(u, "/usr/lib/sysctl.d") || !slices.Contains(u, "/proc/cmdline") || slices.Contains(u, "/etc/sysctl.d") {
		t.Errorf("unknown: %v", u)
	}
	if u := func() []string { c, _ := read(t, claimMachine(t, "")); return c.Unknown() }(); len(u) > 0 {
		t.Errorf("unknown on a live machine: %v", u)
	}
}

// TestAdministratorsSpellings tests that lines with "-", patterns and slashes override a profile as
// plain lines do (TuneD 2.28 ignores them). A 0 in one spelling of a limit sets nothing if the
// other spelling has a value, or if the kernel rejects the 0.
func TestAdministratorsSpellings(t *testing.T) {
	h := claimMachine(t, `
-- /etc/sysctl.d/10-a.conf --
-vm.swappiness = 7
vm/dirty_expire_centisecs = 1500
net.ipv4.conf.*.rp_filter = 2
vm.dirty_bytes = 268435456
vm.dirty_ratio = 0
vm.dirty_background_bytes = 0
vm.overcommit_ratio = 0
vm.overcommit_kbytes = 7000000
-- /proc/sys/net/ipv4/conf/eth0/rp_filter --
0
`)
	c, problems := read(t, h)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, want := range map[string]string{
		"vm.swappiness": "vm.swappiness = 7", "vm.dirty_expire_centisecs": "vm.dirty_expire_centisecs = 1500", "net.ipv4.conf.eth0.rp_filter": "net.ipv4.conf.eth0.rp_filter = 2",
		"vm.dirty_bytes": "vm.dirty_bytes = 268435456", "vm.dirty_ratio": "vm.dirty_bytes = 268435456",
		"vm.dirty_background_bytes": "", "vm.dirty_background_ratio": "",
		"vm.overcommit_kbytes": "vm.overcommit_kbytes = 7000000", "vm.overcommit_ratio": "vm.overcommit_kbytes = 7000000",
	} {
		got := ""
		if a, ok := c.Administrator(setting.Setting{Kind: "sysctl", Name: name}); ok {
			got = a.Setting.Name + " = " + a.Value.Text
		}
		if got != want {
			t.Errorf("%s: %q goes before a profile, want %q", name, got, want)
		}
	}
}
