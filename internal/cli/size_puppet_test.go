package cli

import (
	"encoding/json"
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
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// puppetMachine is a machine with Debian's Puppet Server and both web servers.
func puppetMachine() map[string]string {
	const conf = "etc/puppet/puppetserver/conf.d/"
	rule := func(path, allow string) string {
		return fmt.Sprintf("  {\n   match-request: {\n    path: %q\n    type: path\n   }\n   allow: %s\n   sort-order: 500\n  },\n", path, allow)
	}
	status := ""
	for name, version := range map[string]string{"puppetserver": "7.9.5-2+deb12u1", "nginx": "1.22.1-9+deb12u11", "apache2": "2.4.71-1~deb12u1", "apache2-bin": "2.4.71-1~deb12u1"} {
		status += fmt.Sprintf("Package: %s\nStatus: install ok installed\nVersion: %s\n\n", name, version)
	}
	return map[string]string{
		"var/lib/dpkg/status":           status,
		conf + "puppetserver.conf":      "jruby-puppet: {\n    server-code-dir: /etc/puppet/code\n    #max-active-instances: 1\n}\n",
		conf + "webserver.conf":         "webserver: {\n    access-log-config: /etc/puppet/puppetserver/request-logging.xml\n    client-auth: want\n    ssl-host: 0.0.0.0\n    ssl-port: 8140\n}\n",
		conf + "auth.conf":              "authorization: {\n version: 1\n rules: [\n" + rule("/puppet/v3/file_metadata", `"*"`) + rule("/puppet/v3/static_file_content", `"*"`) + " ]\n}\n",
		"etc/puppet/puppet.conf":        "[main]\ncertname = puppet.example.org\n",
		"etc/default/puppetserver":      "JAVA_ARGS=\"-Xms1g -Xmx1g -Djruby.logger.class=x\"\nTK_ARGS=\"\"\n",
		"etc/nginx/nginx.conf":          "events {}\nhttp {\n include conf.d/*.conf;\n}\n",
		"etc/apache2/apache2.conf":      "IncludeOptional mods-enabled/*\nIncludeOptional sites-enabled/*.conf\n",
		"etc/apache2/mods-enabled/a":    "LoadModule mpm_event_module mod_mpm_event.so\n",
		"etc/apache2/envvars":           "export APACHE_LOG_DIR=/var/log/apache2\n",
		"proc/meminfo":                  "MemTotal:       16000000 kB\nCommitLimit: 1 kB\nCommitted_AS: 1 kB\n",
		"sys/devices/system/cpu/online": "0-3\n",
	}
}

const debianAccess = "var/log/puppetserver/puppetserver-access.log"

// puppetLog is a log of Puppet Server: runs of agents, each a catalog, a report, a list of
// plugins and some files.
func puppetLog(runs, files, plugins int) string {
	var b strings.Builder
	second := 0
	line := func(method, path string, ms int) {
		fmt.Fprintf(&b, "10.0.0.7 - - [20/Nov/2026:%02d:%02d:%02d +0000] \"%s %s HTTP/1.1\" 200 333 \"-\" \"Puppet/7.23.0 Ruby/3.1.2-p20 (x86_64-linux-gnu)\" %d - 0\n", second/3600%24, second/60%60, second%60, method, path, ms)
	}
	for run := range runs {
		second = run * 20
		node := fmt.Sprintf("node%d.example.org", run%40)
		line("GET", "/puppet/v3/file_metadatas/plugins?environment=production&recurse=true", plugins)
		line("POST", "/puppet/v3/catalog/"+node+"?environment=production", 5000)
		for f := range files {
			line("GET", fmt.Sprintf("/puppet/v3/file_metadata/modules/m/f%d?environment=production&checksum_type=sha256", f), 14)
		}
		line("PUT", "/puppet/v3/report/"+node+"?environment=production", 400)
	}
	return b.String()
}

// sizedPuppet runs fettle size puppet on a machine.
func sizedPuppet(t *testing.T, files map[string]string, words ...string) *sizing.Result {
	t.Helper()
	dir := t.TempDir()
	testkitmachine.Write(t, dir, files)
	var out, said strings.Builder
	if code := Main("test", append([]string{"size", "puppet", "--root", dir, "--cpus", "4", "--ram", "16GiB", "-o", "json"}, words...), &out, &said); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, said.String(), out.String())
	}
	var r sizing.Result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// valueOf is a value of an answer that was read back.
func valueOf(r *sizing.Result, group, name string) string {
	for _, v := range r.Values {
		if v.Group == group && v.Name == name {
			return fmt.Sprint(v.Value)
		}
	}
	return ""
}

// withPlan is the machine with what was written in place.
func withPlan(files map[string]string, r *sizing.Result) map[string]string {
	out := maps.Clone(files)
	for _, a := range r.Files {
		name := a.Name
		if name == puppet.ApacheSite {
			name = "etc/apache2/sites-enabled/puppet.conf" // a2ensite
		}
		out[name] = a.Content
	}
	return out
}

// What size writes for a Puppet Server is read by check as it was meant, and has nothing
// against it; each value that is broken is found.
func TestSizePuppetIsClean(t *testing.T) {
	c := loadCatalogue(t)
	machine := puppetMachine()
	machine[debianAccess] = puppetLog(2000, 30, 800)
	states := func(files map[string]string, rules ...string) map[string]rule.State {
		dir := t.TempDir()
		testkitmachine.Write(t, dir, files)
		h := host.Mounted(dir)
		s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
		out := map[string]rule.State{}
		for _, g := range c.Check(t.Context(), s, []string{"puppet", "nginx", "httpd"}, nil) {
			if slices.Contains(rules, g.ID) {
				out[g.ID] = g.State
				if g.State == rule.Unknown {
					t.Errorf("%s: %s", g.ID, g.Reason)
				}
			}
		}
		return out
	}
	rules := []string{"P01", "P07", "P08", "P11", "P20", "P21", "N09", "H10"}
	broken := map[string][]struct{ file, from, to, rule string }{
		"nginx": {
			{"etc/nginx/conf.d/puppet.conf", "if ($ssl_client_verify != SUCCESS)", "if ($request_method = POST)", "N09"},
			{"etc/nginx/conf.d/puppet.conf", "$request_uri $http_accept", "$uri $http_accept", "N09"},
			{"etc/nginx/conf.d/puppet.conf", "proxy_set_header X-Client-DN", "proxy_set_header X-Other", "N09"},
			{"etc/nginx/conf.d/puppet.conf", "proxy_set_header X-Client-Verify", "proxy_set_header X-Other", "N09"},
			{"etc/puppet/puppetserver/conf.d/webserver.conf", "127.0.0.1", "0.0.0.0", "P21"},
			{"etc/puppet/puppetserver/conf.d/webserver.conf", "host: 127.0.0.1", "ssl-host: \"::\"\n    ssl-port: 8140", "P21"},
			{"etc/puppet/puppetserver/conf.d/versioned-code.conf", "code-content-command", "x", "P20"},
			{"etc/puppet/puppetserver/conf.d/versioned-code.conf", "/usr/local/sbin/puppet-code-id", "/usr/local/sbin/gone", "P20"},
			{"etc/puppet/puppetserver/conf.d/versioned-code.conf", "code-id-command", "x", "P01"},
			{"usr/local/sbin/puppet-code-id", "#!/bin/sh", "# no program", "P20"},
			{"etc/puppet/puppetserver/conf.d/puppetserver.conf", "max-active-instances: 3", "max-active-instances: 9", "P08"},
			{"etc/default/puppetserver", "-Xmx2048m", "-Xmx512m", "P07"},
			{"etc/default/puppetserver", "-XX:ReservedCodeCacheSize=384m", "-XX:ReservedCodeCacheSize=64m", "P11"},
			{"etc/puppet/puppet.conf", "[main]", "[main]\nstatic_catalogs = false", "P01"},
		},
		"apache": {
			{"etc/apache2/sites-enabled/puppet.conf", "CacheQuickHandler off", "CacheQuickHandler on", "H10"},
			{"etc/apache2/sites-enabled/puppet.conf", "CacheQuickHandler off", "", "H10"},
			{"etc/apache2/sites-enabled/puppet.conf", "CacheIgnoreQueryString off", "CacheIgnoreQueryString on", "H10"},
			{"etc/apache2/sites-enabled/puppet.conf", "Require expr \"%{SSL_CLIENT_VERIFY} == 'SUCCESS'\"", "Require all granted", "H10"},
			{"etc/apache2/sites-enabled/puppet.conf", "X-Client-DN", "X-Other", "H10"},
		},
	}
	for _, front := range []string{"nginx", "apache"} {
		t.Run(front, func(t *testing.T) {
			r := sizedPuppet(t, machine, "--front-end", front, "--parts", "static,cache,jruby")
			for group, want := range map[string]string{"static catalogs": "worthwhile, do first", "cache": "worthwhile", "jruby": "adjust"} {
				if got := valueOf(r, group, "verdict"); got != want {
					t.Errorf("%s: %q, want %q", group, got, want)
				}
			}
			files := withPlan(machine, r)
			for id, state := range states(files, rules...) {
				if state != rule.Passed {
					t.Errorf("%s is %s", id, state)
				}
			}
			for _, b := range broken[front] {
				one := maps.Clone(files)
				if one[b.file] = strings.ReplaceAll(files[b.file], b.from, b.to); one[b.file] == files[b.file] {
					t.Errorf("%s has no %q:\n%s", b.file, b.from, files[b.file])
				}
				if got := states(one, b.rule)[b.rule]; got != rule.Failed && got != rule.Warned {
					t.Errorf("%q for %q in %s is %q by %s", b.to, b.from, b.file, got, b.rule)
				}
			}
		})
	}
}

// A log in which files hardly count is answered with its figures, and nothing is written.
func TestSizePuppetDoesNotPay(t *testing.T) {
	machine := puppetMachine()
	machine[debianAccess] = puppetLog(500, 1, 5)
	machine["etc/default/puppetserver"] = "JAVA_ARGS=\"-Xms4g -Xmx4g -XX:ReservedCodeCacheSize=512m\"\n"
	r := sizedPuppet(t, machine)
	for group, want := range map[string]string{"static catalogs": "not worthwhile", "cache": "not worthwhile", "jruby": "in place"} {
		if got := valueOf(r, group, "verdict"); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
	if len(r.Files) > 0 || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "nothing is written") }) {
		t.Errorf("%d files, %q", len(r.Files), r.Notes)
	}
	for _, v := range r.Values {
		if v.Group == "static catalogs" && !strings.Contains(v.Why, "500 requests for file_metadata, 1.0 for each of 500 catalogs") {
			t.Error(v.Why)
		}
	}
}

// What the log says is what was put into it, of both generations of URLs, and each
// executable file is one where it is written.
func TestSizePuppetLog(t *testing.T) {
	machine := puppetMachine()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.log")
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "10.0.0.%d - - [18/Mar/2012:04:%02d:25 +0000] \"GET /production/file_metadata/modules/m/f HTTP/1.1\" 200 333 42741 \"-\" \"-\"\n", i%9, i/2)
		fmt.Fprintf(&b, "10.0.0.%d - - [18/Mar/2012:04:%02d:26 +0000] \"GET /production/catalog/n%d HTTP/1.1\" 200 333 100000 \"-\" \"-\"\n", i%9, i/2, i%9)
	}
	if err := os.WriteFile(old, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testkitmachine.Write(t, filepath.Join(dir, "machine"), machine)
	// Below --root the log is one of the machine.
	if err := os.MkdirAll(filepath.Join(dir, "machine/srv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, filepath.Join(dir, "machine/srv/old.log")); err != nil {
		t.Fatal(err)
	}
	var out, said strings.Builder
	plan := filepath.Join(dir, "plan")
	if code := Main("test", []string{"size", "puppet", "--root", filepath.Join(dir, "machine"), "--log", "/srv/old.log", "--cpus", "4", "--ram", "8GiB", "--write", plan}, &out, &said); code != 0 {
		t.Fatal(code, said.String())
	}
	for _, want := range []string{"200               in 49 min of /srv/old.log, 14.3 s of work; 9 nodes requested a catalog", "100 requests for file_metadata, 1.0 for each of 100 catalogs, took 4.27 s, 29.9 % of all time"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for name, mode := range map[string]os.FileMode{puppet.IDScript: 0o755, puppet.ContentScript: 0o755, "etc/puppet/puppetserver/conf.d/versioned-code.conf": 0o644} {
		if st, err := os.Stat(filepath.Join(plan, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	for words, want := range map[string]string{
		"--log /nothing.log":              "nothing.log",
		"--log -":                         "cannot be read twice",
		"--log /etc/puppet/puppet.conf":   "",
		"--log /srv/old.log --unit hours": "want ns, us, ms, s",
		"":                                "--log: not given",
	} {
		var out, said strings.Builder
		code := Main("test", append([]string{"size", "puppet", "--root", filepath.Join(dir, "machine"), "--cpus", "4", "--ram", "8GiB"}, strings.Fields(words)...), &out, &said)
		if code == 0 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: exit code %d, %s", words, code, said.String())
		}
	}
}
