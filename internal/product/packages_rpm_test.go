package product

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// A machine with RPM packages is asked by the real rpm: live, from an archive, and
// from the lists that sos and foreman-debug make of it by their own commands.
func TestRealRPM(t *testing.T) {
	root.Real(t, "runs rpmbuild")
	// Debian's rpm has its data base in the home directory.
	macros := map[string]string{"/etc/rpm/macros": "%_dbpath /var/lib/rpm\n"}
	if !root.Inside(t, root.Options{Servers: true, Files: macros}) {
		return
	}
	dir := t.TempDir()
	write(t, "/root/.rpmmacros", "%_topdir "+dir+"\n%_build_name_fmt %%{NAME}.rpm\n")
	spec := "Name: fettle-test\nEpoch: 3\nVersion: 6.16.1~rc2\nRelease: 4.el9\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n%files\n"
	for i := range 2 * few {
		spec += fmt.Sprintf("%%package -n python3.%d-secret-token\nVersion: 2.%d\nSummary: x\n%%description -n python3.%d-secret-token\nx\n%%files -n python3.%d-secret-token\n", i, i, i, i)
	}
	write(t, dir+"/test.spec", spec)
	run(t, "rpmbuild", "--quiet", "-bb", dir+"/test.spec")
	built, _ := filepath.Glob(dir + "/RPMS/*.rpm")
	run(t, "rpm", append([]string{"-i", "--nodeps"}, built...)...)
	want := map[string]string{"fettle-test": "6.16.1~rc2", "python3.7-secret-token": "2.7"}
	holds := func(how string, h *host.Host) {
		t.Helper()
		l, err := Read(h)
		if err != nil || l.Cut || len(l.Versions) != 2*few+1 {
			t.Errorf("%s: %d packages, cut %v, %v", how, len(l.Versions), l.Cut, err)
		}
		for name, v := range want {
			if l.Versions[name] != v {
				t.Errorf("%s: %s is %q, want %s (%s)", how, name, l.Versions[name], v, l.At)
			}
		}
	}
	if l, err := Read(host.Live()); err != nil || l.At != dpkg {
		t.Errorf("a Debian with rpm: %s, %v, want what dpkg says", l.At, err)
	}
	if err := os.Remove(dpkg); err != nil {
		t.Fatal(err)
	}
	holds("live", host.Live())

	h, rec := host.Record(host.Live())
	holds("recorded", h)
	archive := filepath.Join(dir, "archive")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if h, err = host.OpenRoot(archive); err != nil {
		t.Fatal(err)
	}
	holds("archive", h)

	sos := run(t, "sh", "-c", `rpm --nodigest -qa --qf="%-59{NVRA} %{INSTALLTIME:date}\n" | sort -V`)
	data := run(t, "rpm", "--nodigest", "-qa", `--qf=%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\t%{INSTALLTIME:date}\t%{INSTALLTIME}\t%{VENDOR}\t%{BUILDHOST}\n`)
	debug := run(t, "sh", "-c", `echo -e "COMMAND> rpm -qa\n"; rpm -qa`)
	for name, text := range map[string]string{"installed-rpms": sos, "sos_commands/rpm/package-data": data, "installed_packages": strings.TrimPrefix(debug, "-e ")} {
		holds(name, machine.Copy(t, map[string]string{name: text}))
	}

	if err := os.WriteFile("/var/lib/rpm/rpmdb.sqlite", []byte("no data base"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Read(host.Live()); err == nil || !strings.Contains(err.Error(), "/var/lib/rpm") {
		t.Errorf("of a broken data base: %+v, %v", l, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, out, stderr.String())
	}
	return string(out)
}

// Of a copy with rpm's database its content is unknown, and the reason says so.
func TestCopyOfRPMDatabase(t *testing.T) {
	_, err := Read(machine.Copy(t, map[string]string{"var/lib/rpm/rpmdb.sqlite": "x"}))
	if err == nil || !strings.Contains(err.Error(), "/var/lib/rpm") {
		t.Errorf("%v", err)
	}
}
