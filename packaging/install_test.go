package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// tuning is what is in force while packages come and go: sysctls and sysfs attributes.
const tuning = "network-latency"

// format is a package manager with its commands; %s is a file.
type format struct {
	name, suffix     string
	install, upgrade []string
	remove, purge    []string
	finish           []string // what an administrator types after a kill
	installed        []string
	servers, layer   bool // the root that it needs
	trixie           bool
}

var dpkg = format{
	name: "dpkg", suffix: ".deb",
	install: []string{"dpkg", "--force-unsafe-io", "-i"}, upgrade: []string{"dpkg", "--force-unsafe-io", "-i"},
	remove: []string{"dpkg", "--remove", "fettle"}, purge: []string{"dpkg", "--purge", "fettle"},
	finish:    []string{"dpkg", "--force-unsafe-io", "--configure", "-a"},
	installed: []string{"dpkg-query", "--show", "--showformat", "${db:Status-Status}", "fettle"},
}

var rpm = format{
	name: "rpm", suffix: ".rpm", servers: true,
	install: []string{"rpm", "--nodeps", "--install"}, upgrade: []string{"rpm", "--nodeps", "--upgrade", "--replacepkgs"},
	remove:    []string{"rpm", "--erase", "fettle"},
	installed: []string{"rpm", "--query", "fettle"},
}

var dnf = format{
	name: "dnf", suffix: ".rpm", layer: true,
	install: []string{"dnf", "-y", "--disablerepo=*", "install"}, upgrade: []string{"dnf", "-y", "--disablerepo=*", "upgrade"},
	remove:    []string{"dnf", "-y", "--disablerepo=*", "remove", "fettle"},
	installed: []string{"rpm", "--query", "fettle"},
}

// packages is a directory with the two versions of the package that tests install: 1.deb, 2.rpm.
// The first test that needs them builds them.
var packages struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(packages.dir)
	os.Exit(code)
}

func twoVersions(t *testing.T) string {
	t.Helper()
	root.Real(t, "builds packages")
	packages.once.Do(func() {
		two, err := os.MkdirTemp("", "fettle-packages-")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"1", "2"} {
			dir := build(t, "v"+v+".0.0")
			for _, suffix := range []string{".deb", ".rpm"} {
				if err := os.Rename(packageFile(t, dir, suffix), filepath.Join(two, v+suffix)); err != nil {
					t.Fatal(err)
				}
			}
		}
		packages.dir = two
	})
	if packages.dir == "" {
		t.Fatal("the packages could not be built, see the first test")
	}
	return packages.dir
}

// lab is a simulated machine in a root, on which a package comes and goes. Its systemd is a stub
// that records its calls.
type lab struct {
	*root.Root
	t       *testing.T
	f       format
	machine *root.Machine
	before  root.Tree // the values before the first installation
}

func newLab(t *testing.T, f format) *lab {
	t.Helper()
	l := &lab{t: t, f: f, machine: root.NewMachine(t)}
	l.before = l.values()
	l.enter("")
	return l
}

// prepared are labs in which version 1 is installed and has tuned, by package manager: the many
// points of a kill begin with a copy.
var prepared = map[string]*struct {
	upper, machine string
	before, tuned  root.Tree
}{}

// tunedLab returns a lab in which version 1 is installed and has tuned, and the tuned values.
func tunedLab(t *testing.T, f format) (*lab, root.Tree) {
	t.Helper()
	copied := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	p := prepared[f.name]
	if p == nil {
		l := newLab(t, f)
		dir, err := os.MkdirTemp(packages.dir, f.name+"-")
		if err != nil {
			t.Fatal(err)
		}
		p = &struct {
			upper, machine string
			before, tuned  root.Tree
		}{dir + "/upper", dir + "/machine", l.before, l.tuned()}
		for _, d := range []string{p.upper, p.machine} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		l.Save(p.upper)
		copied(l.machine.Dir, p.machine)
		prepared[f.name] = p
	}
	l := &lab{t: t, f: f, machine: root.NewMachine(t), before: p.before}
	copied(p.machine, l.machine.Dir)
	l.enter(p.upper)
	if d := l.differs(p.tuned); len(d) > 0 {
		t.Fatalf("the copy differs: %v", d)
	}
	return l, p.tuned
}

// enter makes the root of the lab, with what is saved in a directory, unless it is "".
func (l *lab) enter(over string) {
	l.t.Helper()
	t, f := l.t, l.f
	stubs := root.TunerStubs()
	for name, answer := range map[string]string{"systemctl": stubs["systemctl"], "systemd-detect-virt": "[ -e /run/test-chroot ]"} {
		stubs[name] = killParent + answer
	}
	l.Root = root.New(t, root.Options{
		Over: over, Servers: f.servers, RPM: f.layer, Trixie: f.trixie, Machine: l.machine, Stubs: stubs,
		Binds: []root.Bind{{Source: twoVersions(t), Target: "/packages", ReadOnly: true}},
	})
	l.Must("mkdir", "-p", "/run/systemd/system")
}

// killParent kills the caller of a stub at the call whose number is in /run/test-kill.
const killParent = `if [ -e /run/test-kill ]; then
	n=$(($(cat /run/test-calls) + 1))
	echo $n >/run/test-calls
	if [ $n = "$(cat /run/test-kill)" ]; then touch /run/test-killed; kill -9 $PPID; fi
fi
`

func (l *lab) file(version string) string { return "/packages/" + version + l.f.suffix }

// tuned installs version 1 and tunes; it returns the tuned values.
func (l *lab) tuned() root.Tree {
	l.t.Helper()
	l.Must(append(l.f.install, l.file("1"))...)
	if d := l.differs(l.before); len(d) > 0 {
		l.t.Fatalf("installing changed values: %v", d)
	}
	if out, code := l.Run("fettle", "tune", tuning); code != 0 && code != 7 { // 7: this machine lacks some of it
		l.t.Fatalf("fettle tune: exit %d\n%s", code, out)
	}
	now := l.values()
	if len(l.before.Differences(now)) < 10 {
		l.t.Fatalf("only %d values are tuned, so that nothing would be tested", len(l.before.Differences(now)))
	}
	return now
}

// differs lists the values of the machine that are not as in a tree.
func (l *lab) differs(want root.Tree) []string {
	l.t.Helper()
	return want.Differences(l.values())
}

// values reads the machine as the kernel would print it: plain files keep what was written, and
// of "[always] madvise never" the kernel is written only one word.
func (l *lab) values() root.Tree {
	l.t.Helper()
	now, err := root.ReadTree(l.machine.Dir)
	if err != nil {
		l.t.Fatal(err)
	}
	for name, text := range now {
		now[name] = setting.ActiveWord(strings.TrimSpace(text))
	}
	return now
}

// named lists the files whose name has "fettle", except those of the test itself.
func (l *lab) named() string {
	l.t.Helper()
	return l.Must("sh", "-c", "find / -xdev -name '*fettle*' ! -path '/tmp/*' ! -path '/.upper/*' | sort")
}

// called returns how often systemctl was called with these words.
func (l *lab) called(words ...string) int {
	l.t.Helper()
	calls, err := l.Calls()
	if err != nil {
		l.t.Fatal(err)
	}
	n := 0
	for _, c := range calls {
		if c[0] == "systemctl" && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(c, w) }) {
			n++
		}
	}
	return n
}

// isRemoved reports whether the package manager has nothing left to remove. dpkg knows states in
// between.
func (l *lab) isRemoved() bool {
	out, code := l.Run(l.f.installed...)
	return code != 0 || l.f.name == "dpkg" && (out == "config-files" || out == "not-installed")
}

// TestInstallUpgradeRemove: a package comes without changing a value, an upgrade leaves the
// tuning in force, a removal restores and lists it, and a purge leaves nothing.
func TestInstallUpgradeRemove(t *testing.T) {
	twoVersions(t)
	formats := []format{dpkg, rpm}
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		trixie := dpkg
		trixie.trixie = true
		formats = append(formats, dnf, trixie)
	}
	for _, f := range formats {
		t.Run(f.name+map[bool]string{true: " of Debian 13"}[f.trixie], func(t *testing.T) {
			l := newLab(t, f)
			named := l.named()
			tuned := l.tuned()
			if help := l.Must("fettle", "tune", "--help"); (f.name != dpkg.name || f.trixie) && !strings.Contains(help, "Manual: /usr/share/doc/fettle/tune-and-undo.md") { // the root of Debian 12 leaves them out
				t.Errorf("the help names another page:\n%s", help)
			}
			if l.called("enable")+l.called("start") > 0 {
				t.Error("installing has enabled or started a unit")
			}
			l.Must("sh", "-c", "echo changed >>/etc/sos/extras.d/fettle; mkdir -p /etc/fettle; echo >/etc/fettle/schedule")
			out := l.Must(append(l.f.upgrade, l.file("2"))...)
			if v := l.Must("fettle", "version"); !strings.HasPrefix(v, "fettle 2.0.0 ") {
				t.Fatalf("after the upgrade: %s", v)
			}
			if d := l.differs(tuned); len(d) > 0 {
				t.Fatalf("the upgrade changed values:\n%s\n%s", strings.Join(d, "\n"), out)
			}
			if l.called("disable") > 0 {
				t.Error("the upgrade has disabled a unit")
			}
			if conf := l.Must("cat", "/etc/sos/extras.d/fettle"); !strings.Contains(conf, "changed") {
				t.Error("the upgrade has overwritten /etc/sos/extras.d/fettle")
			}
			out = l.Must(l.f.remove...)
			if d := l.differs(l.before); len(d) > 0 {
				t.Fatalf("the removal left values:\n%s\n%s", strings.Join(d, "\n"), out)
			}
			for _, want := range []string{"values restored", "net.core.busy_read", "kernel.numa_balancing"} {
				if !strings.Contains(out, want) {
					t.Errorf("the removal does not print %q:\n%s", want, out)
				}
			}
			if l.called("disable", "--now", "fettle.service") != 1 || l.called("disable", "--now", "fettle-recover.service") != 1 {
				t.Error("the removal has not stopped and disabled both units")
			}
			if _, code := l.Run("sh", "-c", "command -v fettle"); code == 0 || !l.isRemoved() {
				t.Error("the program is still there")
			}
			if f.purge == nil {
				return
			}
			l.Must(l.f.purge...)
			for _, name := range []string{"/var/lib/fettle", "/etc/fettle", "/etc/sos"} {
				if _, code := l.Run("test", "-e", name); code == 0 {
					t.Errorf("%s is left after the purge: %s", name, l.Must("find", name))
				}
			}
			if left := l.named(); left != named {
				t.Errorf("files with the name after the purge:\n%s\nbefore:\n%s", left, named)
			}
		})
	}
}

// TestOffline: where the kernel is not this system's, the scripts run no systemctl and no undo.
func TestOffline(t *testing.T) {
	twoVersions(t)
	for name, set := range map[string]string{
		"no systemd":      "rmdir /run/systemd/system",
		"chroot":          "touch /run/test-chroot",
		"ostree":          "touch /run/ostree-booted",
		"SYSTEMD_OFFLINE": "",
		"policy-rc.d":     "printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, dpkg)
			tuned := l.tuned()
			if name == "SYSTEMD_OFFLINE" {
				l.Setenv("SYSTEMD_OFFLINE", "1")
			}
			l.Must("sh", "-c", set)
			calls := l.called()
			l.Must(append(dpkg.upgrade, l.file("2"))...)
			out := l.Must(dpkg.remove...)
			if n := l.called() - calls; n > 0 {
				t.Errorf("%d calls of systemctl", n)
			}
			if d := l.differs(tuned); len(d) > 0 {
				t.Errorf("values were written:\n%s", strings.Join(d, "\n"))
			}
			if !strings.Contains(out, "fettle: no value was restored: ") {
				t.Errorf("the removal does not say so:\n%s", out)
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "fettle: ") && len(line) > 81 {
					t.Errorf("more than 80 columns: %s", line)
				}
			}
			out = l.Must("dpkg", "--purge", "fettle")
			if _, code := l.Run("test", "-e", "/var/lib/fettle/journal"); code != 0 || !strings.Contains(out, "is kept: it has values that were not restored") {
				t.Errorf("the journal is gone: %s", out)
			}
		})
	}
}

// TestRemovalThatCannotRestore: the removal goes on, says so, and keeps the journal, also if it is
// a purge. fettle installed again restores the rest.
func TestRemovalThatCannotRestore(t *testing.T) {
	twoVersions(t)
	l := newLab(t, dpkg)
	l.tuned()
	const value = "/proc/sys/net/core/busy_read"
	l.Must("sh", "-c", "mount --bind "+value+" "+value+" && mount -o remount,bind,ro "+value)
	out := l.Must(dpkg.purge...)
	if !strings.Contains(out, "not every value was restored (exit code 6)") || !strings.Contains(out, "busy_read") || !strings.Contains(out, "journal is kept") {
		t.Errorf("the purge prints:\n%s", out)
	}
	if d := l.differs(l.before); len(d) != 1 || !strings.Contains(d[0], "busy_read") {
		t.Fatalf("left: %v", d)
	}
	l.Must("umount", value)
	l.Must(append(dpkg.install, l.file("2"))...)
	l.Must("fettle", "undo")
	if d := l.differs(l.before); len(d) > 0 {
		t.Fatalf("after undo of the package that was installed again: %v", d)
	}
	l.Must(dpkg.purge...)
	if _, code := l.Run("test", "-e", "/var/lib/fettle"); code == 0 {
		t.Error("/var/lib/fettle is left, although everything was restored")
	}
}

// TestKilledPackageManager kills dpkg or rpm with its script and fettle at each point at which one
// of them opens a file for writing. The administrator then finishes what dpkg says and repeats
// the command: this ends with the new state, not with a half. (An upgrade by rpm reaches no such
// point, because it writes no value; TestKilledScript kills its scripts.)
func TestKilledPackageManager(t *testing.T) {
	twoVersions(t)
	for _, c := range []struct {
		f   format
		job string
	}{{dpkg, upgrade}, {dpkg, remove}, {rpm, remove}} {
		t.Run(c.f.name+" "+c.job, func(t *testing.T) {
			points := 0
			t.Run("count", func(t *testing.T) {
				l, _ := tunedLab(t, c.f)
				k := l.KillAtWrite(0)
				l.Must(l.command(c.job)...)
				k.Close()
				points = len(k.Seen())
			})
			if points < 20 {
				t.Fatalf("only %d points", points)
			}
			step := 1
			if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
				step = points / 4
			}
			t.Logf("%d points, every %d", points, step)
			for n := 1; n <= points; n += step {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					l, tuned := tunedLab(t, c.f)
					k := l.KillAtWrite(n)
					out, _ := l.Run(l.command(c.job)...)
					k.Close()
					if k.Killed() == "" {
						t.Fatalf("not killed: %q\n%s", k.Seen(), out)
					}
					l.repeat(c.job, tuned, "killed at "+k.Killed()+"\n"+out)
				})
			}
		})
	}
}

// TestKilledScript kills the package's script, and only it, at each of its calls of systemd.
func TestKilledScript(t *testing.T) {
	twoVersions(t)
	for _, f := range []format{dpkg, rpm} {
		for _, job := range []string{upgrade, remove} {
			if (f.name == dpkg.name) == (job == upgrade) && os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
				continue // the slow part of the matrix
			}
			for n := 1; ; n++ {
				killed := false
				t.Run(fmt.Sprint(f.name, " ", job, " ", n), func(t *testing.T) {
					l, tuned := tunedLab(t, f)
					l.Must("sh", "-c", fmt.Sprintf("echo 0 >/run/test-calls; echo %d >/run/test-kill", n))
					out, _ := l.Run(l.command(job)...)
					_, code := l.Run("test", "-e", "/run/test-killed")
					killed = code == 0
					l.Must("rm", "/run/test-kill")
					l.repeat(job, tuned, out)
				})
				if !killed {
					if n < 4 {
						t.Errorf("%s %s: the script was killed at %d points only", f.name, job, n-1)
					}
					break
				}
			}
		}
	}
}

// The two jobs in which a package manager or its script is killed.
const (
	upgrade = "upgrade"
	remove  = "remove"
)

func (l *lab) command(job string) []string {
	if job == remove {
		return l.f.remove
	}
	return append(slices.Clone(l.f.upgrade), l.file("2"))
}

// repeat does a job again that was killed, and checks the values: as tuned after an upgrade, with
// an undo that restores them, and as before the installation after a removal.
func (l *lab) repeat(job string, tuned root.Tree, first string) {
	l.t.Helper()
	if l.f.finish != nil {
		out, _ := l.Run(l.f.finish...)
		first += "\n" + out
	}
	if job == upgrade || !l.isRemoved() {
		out, code := l.Run(l.command(job)...)
		if first += "\nagain:\n" + out; code != 0 {
			l.t.Errorf("%s again: exit %d", job, code)
		}
	}
	want := tuned
	if job == remove {
		want = l.before
	}
	if d := l.differs(want); len(d) > 0 {
		l.t.Errorf("%d values differ:\n%s\n%s", len(d), strings.Join(d, "\n"), first)
	}
	if job == remove {
		if !l.isRemoved() {
			l.t.Errorf("not removed:\n%s", first)
		}
		return
	}
	if v := l.Must("fettle", "version"); !strings.HasPrefix(v, "fettle 2.0.0 ") {
		l.t.Errorf("%s\n%s", v, first)
	}
	l.Must("fettle", "undo")
	if d := l.differs(l.before); len(d) > 0 {
		l.t.Errorf("undo leaves %v", d)
	}
}
