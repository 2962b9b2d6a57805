package httpd

import (
	"strings"
	"testing"

	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
)

const redHatMain = "/etc/httpd/conf/httpd.conf"

// redHat is the layout of Red Hat's package, as Puppet leaves it.
var redHat = map[string]string{
	redHatMain: `ServerRoot "/etc/httpd"
Listen 80
Include conf.modules.d/*.conf
User apache
timeout 60
<Directory "/var/www">
    Timeout 1
</Directory>
# a comment \
Timeout 2
<IfDefine FAST>
  KeepAlive \
    On
</IfDefine>
<IfDefine !FAST>
  KeepAlive off
</IfDefine>
Define waiting 600
IncludeOptional conf.d/*.conf
IncludeOptional nothing.d/*.conf
`,
	"/etc/httpd/conf.modules.d/00-mpm.conf": "LoadModule mpm_event_module modules/mod_mpm_event.so\n#LoadModule mpm_prefork_module modules/mod_mpm_prefork.so\n",
	"/etc/httpd/conf.modules.d/event.conf":  "<IfModule mpm_event_module>\n  ServerLimit 64\n  MaxClients 1024\n  ThreadsPerChild 16\n</IfModule>\n",
	"/etc/httpd/conf.modules.d/prefork.conf": "<IfModule prefork.c>\n  ServerLimit 582\n  MaxClients 582\n</IfModule>\n<IfModule !event.c>\nTimeout 5\n</IfModule>\n" +
		"<IfFile conf/httpd.conf>\nListenBacklog 600\n</IfFile>\n",
	"/etc/httpd/conf.d/10-proxy.conf":       "LoadModule proxy_module modules/mod_proxy.so\nProxyTimeout ${waiting}\nKeepAliveTimeout ${nobody}\n",
	"/etc/httpd/conf.d/20-host.conf":        "<VirtualHost *:443>\n <IfModule mod_proxy.c>\n  ProxyTimeout \"700\"\n </IfModule>\n</VirtualHost>\n",
	"/etc/httpd/conf.d/.hidden.conf":        "Timeout 3\n",
	"/etc/httpd/conf.d/README":              "no configuration\n",
	"/etc/sysconfig/httpd":                  "# OPTIONS=\"-D OTHER\"\nOPTIONS=\"-DFAST -D SSL\"\n",
	"/var/lib/dpkg/status":                  "Package: apache2\nStatus: deinstall ok config-files\nVersion: 1.0-1\n\nPackage: apache2-bin\nStatus: install ok installed\nVersion: 1:2.4.57+dfsg-2\n\n",
	"/etc/httpd/conf.modules.d/zz-dir.conf": "",
}

func TestRedHat(t *testing.T) {
	h := machine.Mounted(t, redHat)
	all, err := instances(h)
	if err != nil || len(all) != 1 || all[0].Name != "httpd" || strings.Join(all[0].defines, " ") != "FAST SSL" {
		t.Fatalf("%+v, %v", all, err)
	}
	found, err := Product.Find(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	i := found[0].(*installed)
	if i.FileErr != nil {
		t.Fatal(i.FileErr)
	}
	product.Reads(t, i, map[string]string{
		"ServerLimit": "64 /etc/httpd/conf.modules.d/event.conf:2", "MaxRequestWorkers": "1024 /etc/httpd/conf.modules.d/event.conf:3",
		"Timeout": "60 " + redHatMain + ":5", "keepalive": "On " + redHatMain + ":12", "ProxyTimeout": "600 /etc/httpd/conf.d/10-proxy.conf:2",
		"KeepAliveTimeout": "${nobody} /etc/httpd/conf.d/10-proxy.conf:3", "virtualhost *:443/ProxyTimeout": "700 /etc/httpd/conf.d/20-host.conf:3",
		"ListenBacklog": "600 /etc/httpd/conf.modules.d/prefork.conf:9", "directory /var/www/timeout": "1 " + redHatMain + ":7", "MaxSpareThreads": " " + redHatMain,
	}, map[string]any{
		"mpm": "event", "server_limit": 64.0, "threads_per_child": 16.0, "max_request_workers": 1024.0, "start_servers": 3.0, "proxy_timeout_s": 600.0,
		"proxies": true, "version": "2.4.57", "virtual_host_timeouts": []string{"virtualhost *:443/ProxyTimeout=700"},
	})
	if got := i.Answer("open_files_limit"); got.Unknown == "" {
		t.Errorf("a tree without processes answers %+v", got)
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct{ name, text, more, want string }{
		{"loop", "Include conf.d/x.conf\n", "Include conf.d/x.conf\n", "includes itself"},
		{"missing", "Include conf.d/none.conf\n", "", "httpd.conf:1: "},
		{"open", "<IfModule a>\nTimeout 1\n", "", "httpd.conf:1: <ifmodule> is not closed"},
		{"crossed", "<IfModule a>\n<VirtualHost b>\n</IfModule>\n</VirtualHost>\n", "", "httpd.conf:3: </ifmodule> without a matching opening tag"},
		{"bare", "</IfModule>\n", "", "httpd.conf:1: </ifmodule> without a matching opening tag"},
		{"half", "<IfModule a\n", "", "does not end with >"},
		{"deep", strings.Repeat("<IfModule so_module>\n", 30), "", "nest more than 20"},
		{"binary", "Timeout 60\n" + strings.Repeat("\x00\x01\x02\xfe\xff\n", 3), "", "httpd.conf:2: \"\\x00\\x01\\x02"},
		{"binary in what is included", "Include conf.d/x.conf\n", "\n\x7fELF\x02 1\n", "x.conf:2: "},
		{"a section of no name", "< >\n</ >\n", "", "httpd.conf:1: "},
		{"text of a macro, and what is skipped", "<Macro m $d>\n$d 1\n</Macro>\n<IfModule none>\n$x y\n</IfModule>\nUse m Timeout\n", "", ""},
		{"grows", "Define a xxxxxxxxxxxxxxxx\n" + strings.Repeat("Define a ${a}${a}${a}${a}\n", 30), "", ""},
	} {
		h := machine.Mounted(t, map[string]string{redHatMain: c.text, "/etc/httpd/conf.d/x.conf": c.more})
		_, err := readSettings(h, instanceOf(h, redHatMain))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestValues(t *testing.T) {
	conftest.Reads(t, readDuration, map[string]float64{"60": 60, "500ms": 0.5, "2mi": 120, "1h": 3600, "5s": 5}, "", "ms", "-1", "1.5", "5 s", "1d")
	for listen, want := range map[string]string{"80": "127.0.0.1:80", "10.0.0.1:443": "10.0.0.1:443", "0.0.0.0:8": "127.0.0.1:8", "[::1]:80": "[::1]:80", "*:81": "127.0.0.1:81"} {
		if got := address(listen); got != want {
			t.Errorf("Listen %s: %s, want %s", listen, got, want)
		}
	}
	conftest.Checks(t, check, [][3]string{
		{"virtualhost *:80/timeout", "5", ""}, {"maxclients", "5", ""}, {"loadmodule", "x y", "not a tuning option"}, {"keepalive", "maybe", "want on or off"},
	})
}

func FuzzBytes(f *testing.F) {
	f.Add(redHat[redHatMain], "KeepAlive on\n", "timeout", "5")
	f.Add("Include x.conf\n<VirtualHost *:80>\nTimeout \\\n 5\n</VirtualHost>", "Timeout 6 \\", "virtualhost *:80/timeout", "7")
	f.Add("", "", "serverlimit", "${a}")
	f.Add("<IfModule none>\nTimeout 5\n</IfModule>\nInclude /etc/httpd/x.conf", "# \\\nTimeout 5", "Timeout", `"5" 6`)
	f.Fuzz(func(t *testing.T, main, more, key, value string) {
		product.Bytes(t, Product, map[string]string{redHatMain: main, "/etc/httpd/x.conf": more}, redHatMain+"#"+key, value)
	})
}
