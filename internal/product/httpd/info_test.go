package httpd

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestInfo: where server-info is enabled, the running server says what it has read, also
// after its files have changed; the times that it shows are those that fettle reads.
func TestInfo(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	const more = "/etc/apache2/conf-enabled/zz-test.conf"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(more, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	product.Command(t, "a2enmod", "-q", "info")
	write("Timeout 500ms\nKeepAliveTimeout 2minutes\nMaxRequestWorkers 75\n<VirtualHost *:81>\nTimeout 9\n</VirtualHost>\n")
	b := serve(t)
	page := product.Command(t, "curl", "-sS", "http://127.0.0.1/server-info?server")
	m := regexp.MustCompile(`connection: (\d+) .*keep-alive: (\d+)`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("server-info does not say the times: %s", page)
	}
	write("Timeout 7\n")
	i := b.Installed()
	if err := i.(*installed).ReportErr; err != nil {
		t.Fatal(err)
	}
	for n, option := range []string{"Timeout", "KeepAliveTimeout"} {
		text, _ := i.Option(option).Running.Get()
		if got, err := parameters.Named(option).Read(text); err != nil || fmt.Sprint(got) != m[n+1] {
			t.Errorf("%s %q is %v (%v), and httpd has %s", option, text, got, err, m[n+1])
		}
	}
	if o := i.Option("Timeout"); o.File.Or("") != "7" || o.Running.Source() != "server-info, "+more+":1" {
		t.Errorf("Timeout %+v", o)
	}
	if o := i.Option("ServerLimit"); o.Running.Unknown() == "" {
		t.Errorf("a page that shows what was read last is taken for what is kept since the start: %+v", o)
	}
	for input, want := range map[string]any{"proxy_timeout_s": 500.0, "max_request_workers": 75.0, "virtual_host_timeouts": []string{"virtualhost *:81/Timeout=9"}} {
		if a := i.Answer(input); fmt.Sprint(a.Value) != fmt.Sprint(want) || a.From != fact.Running {
			t.Errorf("%s: %+v, want %v of the running server", input, a, want)
		}
	}
	if a := i.Answer("requests_limit"); a.From != fact.Files {
		t.Errorf("requests_limit depends on what only a start takes: %+v", a)
	}
	product.Command(t, "apache2ctl", "graceful")
	product.Eventually(t, "httpd has read its files", func() bool { return b.Installed().Option("Timeout").Running.Or("") == "7" })
	// Once the server cannot be asked, the files count.
	var _ internalproduct.Installed = b.Archived()
}

// What is asked without a server that says it: only plain HTTP of the loopback.
func TestInfoText(t *testing.T) {
	page := "<dd><tt><strong>In file: /a.conf</strong></tt></dd>\n<dd><tt>&nbsp;&nbsp;17:&nbsp;RequestHeader <i>set &quot;X&quot; &quot;a&lt;b &amp; c&quot;</i></tt></dd>\n" +
		"<dd><tt>&nbsp;&nbsp;19:&nbsp;&lt;VirtualHost *:80&gt;</tt></dd>\n<dd><tt>&nbsp;&nbsp;20:&nbsp;&nbsp;&nbsp;ProxyTimeout <i>3</i></tt></dd>\n<dd><tt>&nbsp;&nbsp;&nbsp;&nbsp;:&nbsp;&lt;/VirtualHost&gt;</tt></dd></dl>"
	var s settings
	if err := s.replace(infoText(page)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for n, p := range s.all {
		got = append(got, p.String()+" "+p.Key+" "+s.values[n])
	}
	if want := []string{"/a.conf:17 requestheader set X a<b & c", "/a.conf:20 virtualhost *:80/proxytimeout 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"", "<html>404</html>", "<dd><tt><strong>In file: /a.conf</strong></tt></dd><dd><tt>1: <VirtualHost *></tt></dd>"} {
		if err := s.replace(infoText(text)); err == nil {
			t.Errorf("%q is taken for a configuration", text)
		}
	}
}

// The program that checks the files has the environment and the defines of its unit.
func TestToolEnvironment(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"etc/httpd/conf/httpd.conf":              "Timeout ${WAIT}\n",
		"etc/systemd/system/httpd.service":       "[Service]\nExecStart=/usr/sbin/httpd $OPTIONS -DFOREGROUND\nEnvironmentFile=/etc/sysconfig/httpd\nEnvironment=LANG=C\n",
		"etc/sysconfig/httpd":                    "OPTIONS=\"-D PROD\"\nWAIT=77\n",
		"etc/apache2/apache2.conf":               "Timeout ${WAIT}\n",
		"etc/apache2/envvars":                    "",
		"usr/lib/systemd/system/apache2.service": "[Service]\nExecStart=/usr/sbin/apachectl start\nEnvironment=WAIT=78\n",
	})
	test, start := tool(h, redHatMain, "-t"), tool(h, redHatMain, "-k", "start")
	if got := strings.Join(test.Argv, " "); got != "httpd -D PROD -D FOREGROUND -f "+redHatMain+" -t" {
		t.Error(got)
	}
	if got := strings.Join(start.Argv, " "); got != "httpd -D PROD -f "+redHatMain+" -k start" {
		t.Error(got)
	}
	if !slices.Contains(test.Env, "WAIT=77") || !slices.Contains(test.Env, "LANG=C") {
		t.Error(test.Env)
	}
	if debian := tool(h, debianMain, "-t"); !slices.Contains(debian.Env, "WAIT=78") || debian.Argv[0] != "apache2ctl" {
		t.Errorf("%+v", debian)
	}
}

// TestTimes: units as httpd 2.4.71 reads them (TestInfo holds two of them against it).
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		option, text string
		want         any
	}{
		{"Timeout", "500ms", 500.0}, {"Timeout", "60", 60.0}, {"Timeout", "x", 0.0}, {"Timeout", "2min", 2.0}, {"Timeout", "${X}", nil},
		{"KeepAliveTimeout", "500ms", 0.5}, {"KeepAliveTimeout", "2minutes", 120.0}, {"KeepAliveTimeout", "1hour", 3600.0}, {"KeepAliveTimeout", "5sec", 5.0},
		{"KeepAliveTimeout", "5x", nil}, {"KeepAliveTimeout", "5m", nil}, {"ProxyTimeout", "500ms", 0.5},
	} {
		if got, _ := parameters.Named(c.option).Read(c.text); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.option, c.text, got, c.want)
		}
	}
}
