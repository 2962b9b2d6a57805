package httpd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestLogs: which format counts for a log, as httpd decides it once it has read all.
func TestLogs(t *testing.T) {
	dir := machine.Dir(t)
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
		machine.WriteFile(t, dir, name, text)
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
	if err == nil || !strings.Contains(err.Error(), main+"25:37: LogFormat, %Q: unknown directive") {
		t.Error(err)
	}
}

// TestMacro: the logs of a macro are those of each of its uses, and what httpd refuses of
// them is refused.
func TestMacro(t *testing.T) {
	const main = "/etc/httpd/conf/httpd.conf"
	logs := func(text string) ([]accesslog.Log, error) {
		dir := machine.Dir(t)
		machine.WriteFile(t, dir, main, text)
		return Logs(host.Mounted(dir), main)
	}
	all, err := logs(`ServerRoot "/etc/httpd"
LogFormat "%h %D" timed
<Macro Site $name $nam %log>
  <VirtualHost *:80>
    ServerName $name.example.com
    LogFormat "%v $nam" own
    Use Logs $name %log
  </VirtualHost>
</Macro>
<Macro Logs $site $format>
  CustomLog logs/$site.log $format
</Macro>
CustomLog logs/main.log timed
Use site one short own
use Site two "%T" timed
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range all {
		got = append(got, all[i].Path+" "+all[i].At+" "+all[i].Format.String()+" "+all[i].Format.Value())
	}
	want := []string{
		"/etc/httpd/logs/main.log " + main + ":13 " + main + ":2 %h %D",
		"/etc/httpd/logs/one.log " + main + ":11, by Use of " + main + ":7, by Use of " + main + ":14 " + main + ":6 %v short",
		"/etc/httpd/logs/two.log " + main + ":11, by Use of " + main + ":7, by Use of " + main + ":15 " + main + ":2 %h %D",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for text, want := range map[string]string{
		"Use Nothing 1\n": main + ":1: Use Nothing: no <Macro>",
		"<Macro M $a>\nListen $a\n</Macro>\nUse M 1 2\n": main + ":4: Use M: the macro at " + main + ":1 has 1 parameters, got 2",
		"<Macro M>\nUse M\n</Macro>\nUse M\n":            "macros nest more than",
		"<Macro M>\n</Macro>\nUndefMacro M\nUse M\n":     main + ":4: Use M: no <Macro>",
		"Use\n": main + ":1: Use without a macro name",
		"<Macro M $a>\nCustomLog $a %D\n</VirtualHost>\n</Macro>": "</virtualhost> without a matching opening tag",
	} {
		if all, err := logs(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, all, err, want)
		}
	}
	// One that uses two which use two: an end.
	var deep strings.Builder
	deep.WriteString("<Macro M0>\nListen 1\n</Macro>\n")
	for i := range 15 {
		fmt.Fprintf(&deep, "<Macro M%d>\nUse M%d\nUse M%d\n</Macro>\n", i+1, i, i)
	}
	if _, err := logs(deep.String() + "Use M15\n"); err == nil || !strings.Contains(err.Error(), "used more than") {
		t.Error(err)
	}
}
