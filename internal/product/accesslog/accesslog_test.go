package accesslog

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product/conf"
)

func TestStrftime(t *testing.T) {
	for name, want := range map[string]string{"/l/a.%Y-%m-%d.log": "/l/a.*-*-*.log", "/l/a%%": "/l/a%", "/l/[a]%H": `/l/\[a]*`} {
		if got, _ := Strftime(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, ok := Strftime("/l/a"); ok {
		t.Error("a name without conversions is a pattern")
	}
}

func TestOf(t *testing.T) {
	quoted := func(text, file string, line int) conf.Quoted {
		return conf.Quoted{File: file, Line: line, Column: 10, Raw: text, Read: func(raw string) string { return strings.ReplaceAll(raw, `\"`, `"`) }}
	}
	all := []Log{
		{Path: "/var/log/a.log", Language: "apache", Format: quoted(`%h \"%r\" %D`, "/etc/a", 3), Name: "mine", At: "/etc/b:7", What: "CustomLog"},
		{Path: "/var/log/both.log", Language: "apache", Format: quoted("%h %D", "/etc/a", 4), At: "/etc/a:4", What: "CustomLog"},
		{Path: "/var/log/both.log", Language: "apache", Format: quoted("%h %T", "/etc/a", 5), At: "/etc/a:5", What: "CustomLog"},
		{Path: "/var/log/*/x.log", Pattern: true, Language: "nginx", BuiltIn: "$remote_addr $status", Name: "combined", At: "/etc/n:1", What: "access_log"},
		{Path: "/var/log/v/*.log", Pattern: true, Language: "nginx", BuiltIn: "$remote_addr $request_time", At: "/etc/n:2", What: "access_log"},
		{Path: "/var/log/v/access.log", Language: "nginx", BuiltIn: "$remote_addr $status", Name: "combined", At: "/etc/n:3", What: "access_log"},
		{Path: "/var/log/v/*.up.log", Pattern: true, Language: "nginx", BuiltIn: "$remote_addr $status", At: "/etc/n:4", What: "access_log"},
		{Path: "/var/log/bad.log", Language: "apache", Format: quoted(`%h \"%r\" %Z`, "/etc/a", 6), At: "/etc/a:6", What: "CustomLog"},
	}
	for file, want := range map[string]string{
		"/var/log/a.log.3.gz":        "CustomLog of /etc/b:7, format mine of /etc/a:3|",
		"/tmp/copy/a.log":            "CustomLog of /etc/b:7, format mine of /etc/a:3|matched by file name: the configuration writes /var/log/a.log",
		"/var/log/site/x.log":        "access_log of /etc/n:1, format combined|",
		"/var/log/v/access.log":      "access_log of /etc/n:3, format combined|",
		"/var/log/v/access.log.2.gz": "access_log of /etc/n:3, format combined|",
		"/var/log/v/a.log.1":         "access_log of /etc/n:2, without a format name|",
		"/var/log/v/a.up.log":        "the configuration writes this log in two formats: access_log of /etc/n:2, without a format name; access_log of /etc/n:4",
		"/var/log/both.log.1":        "the configuration writes this log in two formats: CustomLog of /etc/a:4; CustomLog of /etc/a:5",
		"/var/log/site/y.log":        "no directive of the configuration writes this log; logs in the configuration: /var/log/a.log (/etc/b:7), ",
		"/var/log/bad.log":           `/etc/a:6:20: LogFormat, %Z: unknown directive for Apache httpd 2.4`,
		"-":                          ": the configuration writes this log in two formats:",
	} {
		l, why, err := Of(all, file)
		got := ""
		if err == nil {
			f, compileErr := l.Compile()
			if err = compileErr; err == nil {
				got = f.Why + "|" + why
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
