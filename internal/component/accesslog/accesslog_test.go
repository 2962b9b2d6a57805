package accesslog

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/component/conf"
)

func TestParts(t *testing.T) {
	for file, want := range map[string][]string{
		"/l/access.log":                              nil,
		"/l/access.log.1":                            {"/l/access.log"},
		"/l/access.log.12.gz":                        {"/l/access.log.12", "/l/access.log"},
		"/l/access.log-20261120.zst":                 {"/l/access.log-20261120", "/l/access.log"},
		"/l/access_log-20261120":                     {"/l/access_log"},
		"/l/access.log-2026-11-20.bz2":               {"/l/access.log-2026-11-20", "/l/access.log"},
		"/l/access.log-20261120-1795132800":          {"/l/access.log"},
		"/l/access-20261120.log":                     {"/l/access.log"},
		"/l/access-20261120.log.gz":                  {"/l/access-20261120.log", "/l/access.log"},
		"/l/access.1.log":                            {"/l/access.log"},
		"/l/puppetserver-access-2026-11-20.0.log.gz": {"/l/puppetserver-access-2026-11-20.0.log", "/l/puppetserver-access.log"},
		"/l/other.log.gz":                            {"/l/other.log"},
		"/l/v1.2":                                    {"/l/v1"},
		".1":                                         nil,
	} {
		if got := Parts(file); got[0] != file || !slices.Equal(got[1:], want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

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
		{Path: "/var/log/bad.log", Language: "apache", Format: quoted(`%h \"%r\" %Z`, "/etc/a", 6), At: "/etc/a:6", What: "CustomLog"},
	}
	for file, want := range map[string]string{
		"/var/log/a.log.3.gz": "CustomLog of /etc/b:7, format mine of /etc/a:3|",
		"/tmp/copy/a.log":     "CustomLog of /etc/b:7, format mine of /etc/a:3|by its name: the configuration has it as /var/log/a.log",
		"/var/log/site/x.log": "access_log of /etc/n:1, format combined|",
		"/var/log/both.log.1": "it is written in two formats: CustomLog of /etc/a:4; CustomLog of /etc/a:5",
		"/var/log/site/y.log": "no directive of the configuration writes it; it names /var/log/a.log (/etc/b:7), ",
		"/var/log/bad.log":    `/etc/a:6:20: LogFormat, %Z: no directive of Apache httpd 2.4`,
		"-":                   "it is written in two formats",
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
