package puppetserver

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestPlacesOf(t *testing.T) {
	debian := map[string]string{
		"etc/puppet/puppetserver/conf.d/puppetserver.conf": "jruby-puppet: {\n server-code-dir: /srv/code\n}\n",
		"etc/puppet/puppet.conf":                           "[main]\ncertname = puppet.example.org\n",
		"var/lib/puppet/ssl/ca/ca_crl.pem":                 "x",
	}
	puppet := map[string]string{
		"etc/puppetlabs/puppetserver/conf.d/puppetserver.conf": "jruby-puppet: {\n}\n",
		"etc/puppetlabs/puppet/puppet.conf":                    "[main]\nssldir = /etc/ssl/puppet { mode = 0771 }\n[server]\nenvironmentpath = $codedir/envs\n",
		"etc/ssl/puppet/certs/ca.pem":                          "x",
		"etc/ssl/puppet/certs/master.pem":                      "x",
		"etc/puppetlabs/puppetserver/ca/ca_crl.pem":            "x",
	}
	for _, tt := range []struct {
		files    map[string]string
		certname string
		want     Places
	}{
		{debian, "", Places{"/srv/code/environments", "/var/lib/puppetserver", "/var/lib/puppet/ssl/certs/puppet.example.org.pem", "/var/lib/puppet/ssl/private_keys/puppet.example.org.pem", "/var/lib/puppet/ssl/certs/ca.pem", "/var/lib/puppet/ssl/ca/ca_crl.pem"}},
		{debian, "other", Places{"/srv/code/environments", "/var/lib/puppetserver", "/var/lib/puppet/ssl/certs/other.pem", "/var/lib/puppet/ssl/private_keys/other.pem", "/var/lib/puppet/ssl/certs/ca.pem", "/var/lib/puppet/ssl/ca/ca_crl.pem"}},
		{puppet, "", Places{"/etc/puppetlabs/code/envs", "/opt/puppetlabs/server/data/puppetserver", "/etc/ssl/puppet/certs/master.pem", "/etc/ssl/puppet/private_keys/master.pem", "/etc/ssl/puppet/certs/ca.pem", "/etc/puppetlabs/puppetserver/ca/ca_crl.pem"}},
		{nil, "", Places{"/etc/puppetlabs/code/environments", "/opt/puppetlabs/server/data/puppetserver", "", "", "/etc/puppetlabs/puppet/ssl/certs/ca.pem", "/etc/puppetlabs/puppet/ssl/crl.pem"}},
	} {
		if got := PlacesOf(machine.Mounted(t, tt.files), tt.certname); got != tt.want {
			t.Errorf("%+v\nwant %+v", got, tt.want)
		}
	}
}

func TestNotForAll(t *testing.T) {
	rule := func(path, more string) string {
		return "        {\n            match-request: {\n                path: \"" + path + "\"\n                type: path\n                method: [get, post]\n            }\n" + more + "            sort-order: 500\n        },\n"
	}
	file := func(rules ...string) string {
		return "authorization: {\n    version: 1\n    rules: [\n" + strings.Join(rules, "") + "    ]\n}\n"
	}
	const meta, static = "/puppet/v3/file_metadata", "/puppet/v3/static_file_content"
	all := "            allow: \"*\"\n"
	for name, tt := range map[string]struct{ text, want string }{
		"as the packages have it": {file(rule("/puppet/v3/file_content", all), rule(meta, all), rule(static, all)), ""},
		"a list":                  {file(rule(meta, "            allow: [\"*\"]\n")), ""},
		"everybody":               {file(rule(meta, "            allow-unauthenticated: true\n")), ""},
		"a module is secret":      {file(rule(meta+"/modules/secret", "            allow: [\"a\", \"b\"]\n"), rule(meta, all)), "auth.conf:6 does not allow all nodes to read them"},
		"denied":                  {file(rule(meta, all), rule(static, "            deny: \"*\"\n")), "auth.conf:15 does not"},
		"no rule":                 {file(rule("/", "            deny: \"*\"\n")), "auth.conf has no rule"},
	} {
		h := machine.Mounted(t, map[string]string{"etc/puppet/puppetserver/conf.d/auth.conf": tt.text})
		got, err := NotForAll(h)
		if err != nil || tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
