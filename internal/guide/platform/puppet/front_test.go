package puppet

import (
	"fmt"
	"testing"
)

func TestFront(t *testing.T) {
	const conf = "etc/puppet/puppetserver/conf.d/"
	machine := func(files ...string) map[string]string {
		out := map[string]string{"var/lib/dpkg/status": "Package: puppetserver\nStatus: install ok installed\nVersion: 7.9.5-2\n\n", conf + "puppetserver.conf": "jruby-puppet: {}\n"}
		for i := 0; i < len(files); i += 2 {
			out[files[i]] = files[i+1]
		}
		return out
	}
	const both = "versioned-code: {\n code-id-command: /opt/id\n code-content-command: \"/opt/content\"\n}\n"
	for _, tt := range []struct {
		files map[string]string
		input string
		want  string
	}{
		{machine(), "code_command_faults", "<nil>"},
		{machine(conf+"versioned-code.conf", both, "opt/id", "#!/bin/sh\n", "opt/content", "#!/bin/sh\n"), "code_command_faults", "[]"},
		{machine(conf+"versioned-code.conf", both, "opt/id", "#!/bin/sh\n", "opt/content", "no program\n"), "code_command_faults", "[/opt/content (/etc/puppet/puppetserver/conf.d/versioned-code.conf:3) is not executable]"},
		{machine(conf+"versioned-code.conf", both, "opt/id", "#!/bin/sh\n"), "code_command_faults", "unknown"},
		{machine(conf+"versioned-code.conf", "versioned-code.code-id-command = id\n"), "code_command_faults", "[only one of code-id-command and code-content-command is set id (/etc/puppet/puppetserver/conf.d/versioned-code.conf:1) is not an absolute path]"},
		{machine(), "header_certificates", "false"},
		{machine(conf+"auth.conf", "authorization: {\n version: 1\n allow-header-cert-info: true\n rules: [{a: 1}]\n}\n"), "header_certificates", "true"},
		{machine(conf+"auth.conf", "authorization: {\n version: 1\n}\n", conf+"other.conf", "authorization: { allow-header-cert-info: true }\n"), "header_certificates", "true"},
		{machine(conf+"master.conf", "master: {\n allow-header-cert-info: true\n}\n"), "header_certificates", "true"},
		{machine(conf+"webserver.conf", "webserver: {\n ssl-host: 0.0.0.0\n ssl-port: 8140\n host: localhost\n port: 80\n}\n"), "listens_beyond_loopback", "[0.0.0.0:8140]"},
		{machine(conf+"webserver.conf", "webserver: {\n host: 127.0.0.1\n port: 8139\n}\n"), "listens_beyond_loopback", "[]"},
		{machine(conf+"webserver.conf", "webserver: {\n ssl-port: 8140\n}\n"), "listens_beyond_loopback", "[]"},
		{machine(conf+"webserver.conf", "webserver: {\n a: { ssl-host: \"::\", ssl-port: 8140 }\n b: { host: \"::1\", port: 8139 }\n}\n"), "listens_beyond_loopback", "[[::]:8140]"},
	} {
		a := subject(t, tt.files).Answer("puppetserver." + tt.input)
		got := fmt.Sprint(a.Value)
		if a.Unknown != "" {
			got = "unknown"
		}
		if got != tt.want {
			t.Errorf("%s is %s, want %s (%+v)", tt.input, got, tt.want, a)
		}
	}
}
