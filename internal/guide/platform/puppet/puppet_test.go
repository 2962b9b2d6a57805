package puppet

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

func subject(t *testing.T, files map[string]string) *platform.Subject {
	t.Helper()
	h := machine.Copy(t, files)
	return platform.NewSubject(t.Context(), h, setting.Kernel(h), append(platform.Facts(), Source(), FrontSource()))
}

func rpms(more string) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "lib%d-1.0-1.el8.x86_64 Tue\n", i)
	}
	return b.String() + more
}

const (
	dir       = "etc/puppetlabs/"
	accessLog = "/var/log/puppetlabs/puppetserver/puppetserver-access.log"
)

func TestPuppetServer(t *testing.T) {
	full := map[string]string{
		"installed-rpms": rpms("puppetserver-7.15.0-1.el8.noarch Tue\n"),
		dir + "puppetserver/conf.d/puppetserver.conf":   "jruby-puppet: {\n    # max-active-instances: 9\n    max-active-instances: 6, multithreaded: true\n}\n",
		dir + "puppetserver/conf.d/versioned-code.conf": "versioned-code: {\n  code-id-command = \"/opt/id\"\n}\n",
		dir + "puppet/puppet.conf":                      "[main]\nstatic_catalogs = false\n[agent]\nenvironment_timeout = 5\n[server]\nstatic_catalogs = true\n",
		"etc/sysconfig/puppetserver":                    "JAVA_BIN=/usr/bin/java\nJAVA_ARGS=\"-Xms2g -Xmx2g -Xmx4g -XX:ReservedCodeCacheSize=512m\"\n",
	}
	debian := map[string]string{
		"var/lib/dpkg/status":                              "Package: puppetserver\nStatus: install ok installed\nVersion: 7.9.5-2+deb12u1\n\n",
		"etc/puppet/puppetserver/conf.d/puppetserver.conf": "jruby-puppet: {\n    max-active-instances: 3\n}\n",
		"etc/puppet/puppet.conf":                           "[server]\nstatic_catalogs = false\n",
		"etc/default/puppetserver":                         "JAVA_ARGS=\"-Xms1g -Xmx1g\"\n",
		"var/log/puppetserver/puppetserver-access.log":     `a - - [d] "POST /puppet/v3/catalog/x HTTP/1.1" 200 1` + "\n",
	}
	none := map[string]string{"installed-rpms": rpms("puppet-agent-7.1-1.el8.x86_64 Tue\n")}
	defaults := map[string]string{
		"installed-rpms": rpms("puppetserver-8.1.0-1.el9.noarch Tue\n"),
		dir + "puppetserver/conf.d/puppetserver.conf": "jruby-puppet: {}\n",
		dir + "puppet/puppet.conf":                    "[main]\n",
		"sys/devices/system/cpu/online":               "0-15\n",
	}
	for _, c := range []struct {
		files map[string]string
		input string
		want  any
	}{
		{full, "version", "7.15.0"}, {full, "max_active_instances", 6.0}, {full, "heap", float64(4 << 30)}, {full, "code_cache", float64(512 << 20)},
		{full, "static_catalogs", true}, {full, "versioned_code", true}, {full, "environment_timeout", "0"},
		{full, "max_requests_per_instance", 0.0}, {full, "multithreaded", true},
		{debian, "version", "7.9.5"}, {debian, "max_active_instances", 3.0}, {debian, "heap", float64(1 << 30)}, {debian, "static_catalogs", false}, {debian, "log.catalogs", 1.0},
		{none, "version", nil}, {none, "heap", nil},
		{defaults, "max_active_instances", 4.0}, {defaults, "versioned_code", false}, {defaults, "static_catalogs", true}, {defaults, "heap", "unknown"},
		{nil, "version", "unknown"}, {nil, "heap", "unknown"},
		{map[string]string{dir + "puppetserver/conf.d/x.conf": ""}, "version", "unknown"},
	} {
		a := subject(t, c.files).Answer("puppetserver." + c.input)
		got := a.Value
		if a.Unknown != "" {
			got = "unknown"
		}
		if got != c.want {
			t.Errorf("%s is %v, want %v (%+v)", c.input, got, c.want, a)
		}
	}
	if a := subject(t, full).Answer("puppetserver.max_active_instances"); a.At != "/etc/puppetlabs/puppetserver/conf.d/puppetserver.conf:3" {
		t.Errorf("%+v", a)
	}
}

// What was not asked for is not asked, and no rule takes it for an answer.
func TestNotAsked(t *testing.T) {
	s := subject(t, nil)
	for _, in := range FrontSource().Inputs {
		if a := s.Answer(in.Name); in.Name == "puppet_front.asked" && a.Value != false || in.Name != "puppet_front.asked" && a.Value != nil || a.Unknown != "" {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	s, asked := subject(t, nil), 0
	s.Probe = func(context.Context) map[string]fact.Answer {
		asked++
		return map[string]fact.Answer{"foreign_catalog": {Value: "given"}, "cached_answer": {Unknown: "nobody answers"}}
	}
	for input, want := range map[string]fact.Answer{"asked": {Value: true}, "foreign_catalog": {Value: "given"}, "cached_answer": {Unknown: "nobody answers"}, "forged_alone": {}} {
		if a := s.Answer("puppet_front." + input); a != want {
			t.Errorf("%s: %+v, want %+v", input, a, want)
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add("a \"GET /puppet/v3/catalog/x HTTP/1.1\"\n")
	f.Fuzz(func(t *testing.T, line string) {
		if r := requested([]byte(line)); r != "" && !strings.Contains(line, "/puppet/v3/"+r+"/") {
			t.Errorf("a request for %q", r)
		}
	})
}

func TestRequests(t *testing.T) {
	text := `192.0.2.1 - - [d] "POST /puppet/v3/catalog/a.example.com?environment=production HTTP/1.1" 200 1 "-" "Puppet" 6952
192.0.2.1 - - [d] "GET /puppet/v3/file_metadata/modules/ssh/sshd_config?links=manage HTTP/1.1" 200 1 "-" "Puppet" 14
192.0.2.1 - - [d] "GET /puppet/v3/file_metadata/modules/ntp/ntp.conf HTTP/1.1" 200 1 "-" "Puppet" 14
192.0.2.1 - - [d] "GET /puppet/v3/file_metadatas/plugins HTTP/1.1" 200 1 "-" "Puppet" 14
192.0.2.1 - - [d] "GET /x HTTP/1.1" 404 1 "http://a/puppet/v3/catalog/" "/puppet/v3/catalog/" 14
cut off "GET /puppet/v3/catalog/`
	got := map[string]int{}
	for line := range strings.Lines(text) {
		got[requested([]byte(line))]++
	}
	if got["catalog"] != 1 || got["file_metadata"] != 2 || got[""] != 3 {
		t.Errorf("%v", got)
	}
	files := map[string]string{
		"installed-rpms": rpms("puppetserver-7.15.0-1.el8.noarch Tue\n"),
		"var/log/puppetlabs/puppetserver/puppetserver-access.log": text,
	}
	if a := subject(t, files).Answer("puppetserver.log.file_metadata"); a.Value != 2.0 {
		t.Errorf("%+v", a)
	}
	delete(files, "var/log/puppetlabs/puppetserver/puppetserver-access.log")
	if a := subject(t, files).Answer("puppetserver.log.file_metadata"); a.Unknown == "" {
		t.Errorf("without the log: %+v", a)
	}
}

// Of a long log the end is read, or all of it.
func TestLongLog(t *testing.T) {
	const catalog = `a - - [d] "POST /puppet/v3/catalog/x HTTP/1.1" 200 1` + "\n"
	const file = `a - - [d] "GET /puppet/v3/file_metadata/x HTTP/1.1" 200 1` + "\n"
	files := map[string]string{
		"installed-rpms": rpms("puppetserver-7.15.0-1.el8.noarch Tue\n"),
		accessLog[1:]:    file + catalog + strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10) + catalog,
	}
	s := subject(t, files)
	s.LogBytes = 1 << 20
	if a := s.Answer("puppetserver.log.catalogs"); a.Value != 1.0 || a.LowerBound == "" {
		t.Errorf("%+v", a)
	}
	if a := s.Answer("puppetserver.log.file_metadata"); !strings.HasPrefix(a.Unknown, "not found in the last 1 MiB of "+accessLog) {
		t.Errorf("%+v", a)
	}
	if s.Unread[accessLog] == 0 {
		t.Errorf("nothing is said of the beginning: %v", s.Unread)
	}
	s = subject(t, files)
	s.LogBytes = 0
	for input, want := range map[string]float64{"catalogs": 2, "file_metadata": 1} {
		if a := s.Answer("puppetserver.log." + input); a.Value != want || a.LowerBound != "" {
			t.Errorf("%s: %+v", input, a)
		}
	}
	if len(s.Unread) > 0 {
		t.Errorf("not read: %v", s.Unread)
	}
}

// Of a list that was cut off only what it names is known.
func TestShortList(t *testing.T) {
	files := map[string]string{"installed-rpms": "puppetserver-7.15.0-1.el8.noarch Tue\n"}
	if a := subject(t, files).Answer("puppetserver.version"); a.Value != "7.15.0" {
		t.Errorf("named: %+v", a)
	}
	files["installed-rpms"] = "other-1-1.noarch Tue\n"
	if a := subject(t, files).Answer("puppetserver.version"); a.Unknown == "" {
		t.Errorf("not named: %+v", a)
	}
}
