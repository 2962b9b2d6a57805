package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
)

// debugFiles are what foreman-debug copies of what rules ask for, and the second
// half what Katello adds (script/foreman-debug of Foreman 3, foreman-debug.d of
// Katello).
var debugFiles = []string{
	"/var/log/messages*", "/var/log/syslog*", "/var/log/foreman/production.log", "/var/log/foreman/dynflow_executor.output*",
	"/etc/foreman/dynflow/*", "/etc/foreman/*.yml", "/etc/foreman/*.yaml", "/etc/foreman/*.conf", "/etc/foreman/plugins/*.yaml",
	"/etc/foreman-installer/scenarios.d/*", "/etc/foreman-installer/scenarios.d/*/*", "/etc/foreman-installer/custom-hiera.yaml",
	"/var/lib/pgsql/data/*.conf", "/etc/httpd/conf/*", "/etc/httpd/conf.d/*", "/etc/httpd/conf.d/*/*", "/var/log/httpd/*error_log*", "/var/log/httpd/foreman-ssl_access_ssl.log*",
	"/etc/sysconfig/foreman",

	"/etc/foreman-installer/*", "/var/log/candlepin/*.log*", "/etc/candlepin/candlepin.conf", "/etc/tomcat/server.xml",
	"/etc/qpid/*", "/etc/qpidd.conf", "/etc/qpid-dispatch/qdrouterd.conf",
}

// foremanDebug makes of a machine what foreman-debug would.
func foremanDebug(t *testing.T, m *host.Host) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range debugFiles {
		names, err := host.Glob(m.Files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := m.Files.ReadFile(name)
			if err != nil || len(text) == 0 {
				continue
			}
			if to, err := m.Files.Readlink(name); err == nil { // cp -a, and the target's text
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(to, p); err != nil && !os.IsExist(err) {
					t.Fatal(err)
				}
				if name, err = m.Files.Resolve(name); err != nil {
					t.Fatal(err)
				}
			}
			write(name, string(text))
		}
	}
	output := func(name, command, text string) { write(name, "COMMAND> "+command+"\n\n"+text) }
	cat := func(name, file string) {
		if text, err := m.Files.ReadFile(file); err == nil {
			output(name, "cat "+file, string(text))
		}
	}
	cat("cpuinfo", "/proc/cpuinfo")
	cat("meminfo", "/proc/meminfo")
	cat("hosts", "/etc/hosts")
	output("date", "date", m.Clock.Now().UTC().Format("Mon Jan _2 15:04:05 MST 2006")+"\n")
	var rpms strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rpms, "library%d-1.0-1.el8.x86_64\n", i)
	}
	// The machines of the tests say it by their files.
	foreman, err := m.Files.ReadFile("/usr/share/foreman/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&rpms, "foreman-%s-1.el8sat.noarch\nkatello-4.5.0-1.el8sat.noarch\n", strings.TrimSpace(string(foreman)))
	output("installed_packages", "rpm -qa", rpms.String())
	output("foreman_packages", "rpm -qa '*foreman*' || dpkg -l '*foreman*' | sort", "")
	output("facts", "facter", facterOf(m))
	return dir
}

// facterOf is what facter 4 prints of a machine, as far as rules ask for it.
func facterOf(m *host.Host) string {
	var out strings.Builder
	text := func(name string) string {
		b, _ := m.Files.ReadFile(name)
		return strings.TrimSpace(string(b))
	}
	fmt.Fprintf(&out, "dmi => {\n  manufacturer => %q,\n  product => {\n    name => %q\n  }\n}\n", text("/sys/class/dmi/id/sys_vendor"), text("/sys/class/dmi/id/product_name"))
	fmt.Fprintf(&out, "kernelrelease => %s\n", text("/proc/sys/kernel/osrelease"))
	out.WriteString("mountpoints => {\n")
	for line := range strings.Lines(text("/proc/1/mountinfo") + "\n") {
		w := strings.Fields(line)
		at := slices.Index(w, "-")
		if at < 6 || strings.HasPrefix(w[4], "/proc") || strings.HasPrefix(w[4], "/sys") {
			continue // facter leaves them out
		}
		fmt.Fprintf(&out, "  %s => {\n    device => %q,\n    filesystem => %q,\n    options => [\n", w[4], w[at+2], w[at+1])
		options := strings.Split(w[5], ",")
		for i, o := range options {
			fmt.Fprintf(&out, "      %q", o)
			if i < len(options)-1 {
				out.WriteString(",")
			}
			out.WriteString("\n")
		}
		out.WriteString("    ]\n  },\n")
	}
	out.WriteString("}\n")
	return out.String()
}

// What foreman-debug takes of a Satellite says what the Satellite says, or it is
// unknown with the name of what was not taken.
func TestForemanDebug(t *testing.T) {
	c := loadCatalogue(t)
	for _, name := range []string{"satellite-6.12", "satellite-6.16", "satellite-6.12-overloaded"} {
		t.Run(name, func(t *testing.T) {
			m, err := host.OpenRoot("../../testdata/hosts/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			debug, err := host.OpenRoot(foremanDebug(t, m))
			if err != nil {
				t.Fatal(err)
			}
			ask := func(h *host.Host, why map[string]string) map[string]rule.State {
				s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
				return statesOf(c.Check(t.Context(), s, []string{"linux", "satellite", "puppet"}, nil), why)
			}
			why := map[string]string{}
			machine, copied := ask(m, nil), ask(debug, why)
			unknown := known(t, false, copied, machine, machine)
			for finding, s := range copied {
				if s == rule.Unknown && machine[finding] != s && !named().MatchString(why[finding]) {
					t.Errorf("%s is unknown and names nothing that was not taken: %s", finding, why[finding])
				}
			}
			judged := rulesOf(copied, func(s rule.State) bool { return s == rule.Passed || s == rule.Warned || s == rule.Failed })
			t.Logf("%d rules are judged, %d are unknown that are not on the machine: %v", len(judged), len(unknown), slices.Sorted(maps.Keys(judged)))
			for _, id := range []string{"D07", "S02", "S20", "S24", "S33", "S37", "S47", "S52", "S53", "S62"} {
				if !judged[id] {
					t.Errorf("%s is not judged: %s", id, why[id+" "])
				}
			}
		})
	}
}
