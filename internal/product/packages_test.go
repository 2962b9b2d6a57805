package product

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestRead(t *testing.T) {
	var rpms, debs strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rpms, "lib%d-1.%d-3.el8.x86_64                        Tue 02 Apr 2024 10:00:00 AM UTC\n", i, i)
		fmt.Fprintf(&debs, "ii  lib%d:amd64  1:1.%d-3  amd64  a library\n", i, i)
	}
	const status = "Package: foreman\nStatus: install ok installed\nVersion: 3.12.0-1\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: epoch\nStatus: hold ok installed\nVersion: 2:4.5~rc1+dfsg-6\n"
	for _, c := range []struct {
		name           string
		files          map[string]string
		pkg, want, not string
	}{
		{"rpms", map[string]string{"installed-rpms": rpms.String() + "foreman-proxy-3.3.0.17-1.el8sat.noarch  Tue\n"}, "foreman-proxy", "3.3.0.17", "foreman"},
		{"debs", map[string]string{"installed-debs": "Desired=Unknown/Install\n" + debs.String() + "rc  old  1-1  all  gone\n"}, "lib7", "1.7", "old"},
		{"sos without its links", map[string]string{"sos_commands/rpm/sh_-c_rpm_--nodigest_-qa_--qf_-59_NVRA_INSTALLTIME_date_sort_-V": rpms.String()}, "lib7", "1.7", "foreman"},
		{"sos of Debian without its links", map[string]string{"sos_commands/dpkg/dpkg_-l": debs.String()}, "lib7", "1.7", "foreman"},
		{"foreman-debug", map[string]string{"installed_packages": "COMMAND> rpm -qa\n\nsatellite-6.12.5-1.el8sat.noarch\n" + strings.ReplaceAll(rpms.String(), "                        Tue 02 Apr 2024 10:00:00 AM UTC", "")}, "satellite", "6.12.5", "foreman"},
		{"foreman-debug of Debian", map[string]string{"installed_packages": "COMMAND> dpkg --list\n\nDesired=Unknown/Install/Remove/Purge/Hold\n+++-====-===-=\n" + debs.String()}, "lib7", "1.7", "+++"},
		{"status", map[string]string{"var/lib/dpkg/status": status}, "epoch", "4.5~rc1+dfsg", "gone"},
	} {
		l, err := Read(machine.Copy(t, c.files))
		if err != nil || l.Versions[c.pkg] != c.want || l.Versions[c.not] != "" {
			t.Errorf("%s: %v, %v: want %s %s and no %s", c.name, l, err, c.pkg, c.want, c.not)
		}
	}
	cut, err := Read(machine.Copy(t, map[string]string{"installed-rpms": "a-1-1.noarch\n"}))
	if err != nil || !cut.Cut || cut.Versions["a"] != "1" || cut.Lacks("a") != "" || cut.Lacks("b") == "" {
		t.Errorf("cut off: %+v, %v: want to know a, and not whether there is b", cut, err)
	}
	for name, files := range map[string]map[string]string{"nothing": nil, "nothing in it": {"installed-rpms": "sh: rpm: not found\n"}} {
		if l, err := Read(machine.Copy(t, files)); err == nil {
			t.Errorf("%s: %v", name, l)
		}
	}
}

// Versions are compared by their numbers, whoever has packed them.
func TestVersion(t *testing.T) {
	for _, c := range []struct {
		list, file, want string
		names            []string
	}{
		{"Package: kubelet\nStatus: deinstall ok config-files\nVersion: 1.2\n", "var/lib/dpkg/status", "", []string{"kubelet"}},
		{"Package: apache2\nStatus: install ok installed\nVersion: 2.4.62-1~deb12u2\n", "var/lib/dpkg/status", "2.4.62", []string{"httpd", "apache2"}},
		{"Package: redis\nStatus: install ok installed\nVersion: 5:7.0.15~rc1+dfsg-1\n", "var/lib/dpkg/status", "7.0.15", []string{"redis"}},
		{"kubelet-1.28.9-150500.1.1.x86_64   Mon\nkubelet-doc-1-1.x86_64\n", "installed-rpms", "1.28.9", []string{"kubelet"}},
		{"kubelet-doc-1.28-1.noarch\n", "installed-rpms", "", []string{"kubelet"}},
	} {
		if got, _ := Version(machine.Copy(t, map[string]string{c.file: c.list}), c.names...); got != c.want {
			t.Errorf("%q: %q, want %q", c.list, got, c.want)
		}
	}
}
