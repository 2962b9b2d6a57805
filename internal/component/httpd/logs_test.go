package httpd

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/component/accesslog"
	"fettle.dev/fettle/internal/component/conf/conftest"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
)

// TestLogs: which format counts for a log, as httpd decides it once it has read all.
func TestLogs(t *testing.T) {
	dir := conftest.Dir(t)
	for name, text := range map[string]string{
		"/etc/apache2/envvars": "export APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n",
		"/etc/apache2/apache2.conf": `ServerRoot "/etc/apache2"
CustomLog ${APACHE_LOG_DIR}/other.log Combined
LogFormat "%h \"%r\" %>s" combined
LogFormat "%h \
%T" combined
Define fmt "%{ms}T"
TransferLog logs/transfer.log
LogFormat combined
<IfModule mod_log_config.c>
CustomLog "|/usr/bin/rotatelogs -l -n 5 /var/log/rot.%Y-%m-%d 86400" "%h ${fmt}"
</IfModule>
Define fmt other
CustomLog "||/bin/sh -c cat" clf env=!dontlog
CustomLog '|$/usr/sbin/rotatelogs /var/log/plain 86400' CLF
<IfModule nothere.c>
CustomLog /var/log/never.log combined
</IfModule>
<VirtualHost *:80>
  LogFormat "%v %D" combined
  CustomLog /var/log/v1.log combined
  TransferLog /var/log/v1t.log
</VirtualHost>
<VirtualHost *:80>
  CustomLog /var/log/v2.log combined
  GlobalLog /var/log/global.log "%h %Q"
  TransferLog /var/log/v2t.log
  CookieLog /var/log/cookie.log
</VirtualHost>
`,
	} {
		hosttest.WriteFile(t, dir, name, text)
	}
	h := host.Mounted(dir)
	all, err := Logs(h, "/etc/apache2/apache2.conf")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range all {
		l := &all[i]
		name := l.Path
		if name == "" {
			name = l.Goes
		}
		text := l.BuiltIn
		if text == "" {
			text = l.Format.String() + " " + l.Format.Value()
		}
		got[name] = text
	}
	const main = "/etc/apache2/apache2.conf:"
	for name, want := range map[string]string{
		"/var/log/apache2/other.log":     main + "4 %h %T",
		"/etc/apache2/logs/transfer.log": main + "4 %h %T",
		"/var/log/rot.*-*-*":             main + "10 %h %{ms}T",
		"the program /bin/sh -c cat":     `%h %l %u %t "%r" %>s %b`,
		"/var/log/plain*":                `%h %l %u %t "%r" %>s %b`,
		"/var/log/v1.log":                main + "19 %v %D",
		"/var/log/v1t.log":               main + "19 %v %D",
		"/var/log/v2.log":                main + "4 %h %T",
		"/var/log/v2t.log":               main + "4 %h %T",
		"/var/log/global.log":            main + "25 %h %Q",
		"/var/log/cookie.log":            `%{Cookie}n "%r" %t`,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("and %q", got)
	}
	l, _, err := accesslog.Of(all, "/var/log/global.log")
	if err == nil {
		_, err = l.Compile()
	}
	if err == nil || !strings.Contains(err.Error(), main+"25:37: LogFormat, %Q: no directive") {
		t.Error(err)
	}
}
