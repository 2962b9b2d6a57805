package qpid

import (
	"net"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
)

// The unit of Fedora, and the file that Katello's installer writes.
const (
	packaged = "[Unit]\nDescription=An AMQP message broker daemon.\n[Service]\nUser=qpidd\nExecStart=/usr/sbin/qpidd --config /etc/qpid/qpidd.conf\n"
	katello  = "# managed\nlog-enable=error+\nlog-to-syslog=yes\nauth=no\nrequire-encryption=yes\nssl-require-client-authentication=yes\nssl-port=5671\nwcache-page-size=4\nmgmt-pub-interval=5 # BZ 1335694\ninterface=lo\n"
	unitFile = "/usr/lib/systemd/system/qpidd.service"
	main     = "/etc/qpid/qpidd.conf"
)

func TestReads(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]string // option to "value at", or "unknown: part"
	}{
		{"Katello's", map[string]string{unitFile: packaged, main: katello}, map[string]string{
			"wcache-page-size": "4 " + main + ":8", "mgmt-pub-interval": "5 " + main + ":9", "max-connections": ""}},
		{"a flag goes first", map[string]string{unitFile: packaged[:len(packaged)-1] + " --mgmt-pub-interval=7 -d\nEnvironment=QPID_MGMT_PUB_INTERVAL=8 QPID_WORKER_THREADS=3\n", main: katello}, map[string]string{
			"mgmt-pub-interval": "7 " + unitFile + ":5", "worker-threads": "3 " + unitFile + ":6", "wcache-page-size": "4 " + main + ":8"}},
		{"another file", map[string]string{unitFile: strings.Replace(packaged, main, "/etc/my/q.conf", 1), "/etc/my/q.conf": "max-connections=10\r\n", main: katello}, map[string]string{"max-connections": "10 /etc/my/q.conf:1", "wcache-page-size": ""}},
		{"before 0.22", map[string]string{"/etc/qpidd.conf": "max-connections = 10\n"}, map[string]string{"max-connections": "unknown: /etc/qpidd.conf:1"}},
		{"twice", map[string]string{main: "port=1\ninterface=lo\ninterface=eth0\nport=2\n"}, map[string]string{"port": "unknown: 4: port is also on line 1"}},
		{"no option", map[string]string{main: "\nauth\n"}, map[string]string{"auth": "unknown: 2: \"=\" is missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := Product.Find(t.Context(), plugin.Tree(t, c.files))
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			for name, want := range c.want {
				f := all[0].Option(name).File
				v, ok := f.Get()
				got := strings.TrimSpace(v + " " + f.Source())
				if part, unknown := strings.CutPrefix(want, "unknown: "); unknown {
					if !strings.Contains(f.Unknown(), part) {
						t.Errorf("%s is %q (unknown %q), want unknown: %s", name, got, f.Unknown(), part)
					}
				} else if ok != (want != "") || ok && got != want {
					t.Errorf("%s is %q (%q), want %q", name, got, f.Unknown(), want)
				}
			}
		})
	}
	for name, files := range map[string]map[string]string{"nothing": {}, "masked": {"/etc/systemd/system/qpidd.service": "-> /dev/null", main: katello}} {
		if all, err := Product.Find(t.Context(), plugin.Tree(t, files)); err != nil || len(all) != 0 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}

// How many files it may open its unit says where it does not run.
func TestOpenFiles(t *testing.T) {
	all, err := Product.Find(t.Context(), plugin.Tree(t, map[string]string{unitFile: packaged, main: katello, "/etc/systemd/system/qpidd.service.d/90-limits.conf": "[Service]\nLimitNOFILE=65536\n"}))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if a := all[0].Answer("open_files_limit"); a.Value != 65536.0 || a.At != "/etc/systemd/system/qpidd.service.d/90-limits.conf:2" {
		t.Errorf("%+v", a)
	}
	all, err = Product.Find(t.Context(), machine.Copy(t, map[string]string{"etc/qpid/qpidd.conf": katello}))
	if err != nil || len(all) != 1 || all[0].Answer("open_files_limit").Unknown == "" || all[0].Answer("started_since_change").Unknown == "" {
		t.Errorf("of a copy: %v, %v", all, err)
	}
}

func TestValues(t *testing.T) {
	conftest.Checks(t, check, [][3]string{
		{"mgmt-pub-interval", "5", ""}, {"mgmt-pub-interval", "500ms", ""}, {"mgmt-pub-interval", "soon", "seconds"}, {"mgmt-pub-interval", "-1", "seconds"}, {"mgmt-pub-interval", "NaN", "seconds"},
		{"wcache-page-size", "4", ""}, {"wcache-page-size", "5", "128"}, {"wcache-page-size", "256", "128"}, {"wcache-page-size", "2", "128"},
		{"wcache-num-pages", "3", "from 4"}, {"wcache-num-pages", "16", ""}, {"max-connections", "-1", "not a number"}, {"port", "1", "tuning"}, {"data-dir", "/x", "tuning"}, {"acl-file", "x", "tuning"},
	})
	if v, err := readSeconds("500ms"); err != nil || v != 0.5 {
		t.Errorf("500ms is %v, %v", v, err)
	}
}

// One line is changed and given back; what goes before the file is not written below
// it.
func TestSets(t *testing.T) {
	h := plugin.Tree(t, map[string]string{unitFile: packaged, main: katello})
	kind := Product.Kind(h)
	for name, want := range map[string]string{"mgmt-pub-interval": strings.Replace(katello, "=5 # BZ", "=9 # BZ", 1), "max-connections": katello + "max-connections=9\n"} {
		s, err := kind.Resolve(setting.Setting{Kind: "qpid", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		before, err := kind.Read(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := kind.Write(t.Context(), s, setting.Text("9")); err != nil {
			t.Fatal(err)
		}
		if got, _ := h.Files.ReadFile(main); string(got) != want {
			t.Errorf("%s:\n%s", name, got)
		}
		if err := kind.Write(t.Context(), s, before); err != nil {
			t.Fatal(err)
		}
		if got, _ := h.Files.ReadFile(main); string(got) != katello {
			t.Errorf("%s back:\n%s", name, got)
		}
	}
	h = plugin.Tree(t, map[string]string{unitFile: packaged[:len(packaged)-1] + " --max-connections 3\n", main: katello})
	if _, err := Product.Kind(h).Read(t.Context(), setting.Setting{Kind: "qpid", Name: main + "#max-connections"}); err == nil || !strings.Contains(err.Error(), "--max-connections") {
		t.Errorf("%v", err)
	}
}

// What answers as a broker is ready; what does not, or speaks something else, is not.
func TestReady(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"a broker", "AMQP\x01\x01\x00\x0a", ""}, {"something else", "HTTP/1.1 400\r\n", "the answer is not AMQP"}, {"one that hangs up", "", "no answer"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 8))
			_, _ = conn.Write([]byte(c.answer))
			conn.Close()
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		h := plugin.Tree(t, map[string]string{unitFile: packaged, main: "port=" + port + "\n"})
		err = daemon.NewControl().Ready(t.Context(), h, main)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		l.Close()
		if err := daemon.NewControl().Ready(t.Context(), h, main); err == nil {
			t.Errorf("%s: ready though nobody listens", c.name)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add(katello, "mgmt-pub-interval", "7")
	f.Add("", "max-connections", "a#b")
	f.Add("port=1\r\n x=2", "port", " 3")
	f.Add("a=\nb==#", "b", "=")
	f.Fuzz(func(t *testing.T, file, key, value string) {
		testkitproduct.Bytes(t, Product, map[string]string{unitFile: packaged, main: file}, main+"#"+key, value)
	})
}
