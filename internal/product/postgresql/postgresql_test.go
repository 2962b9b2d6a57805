package postgresql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
)

func tree(t testing.TB, files map[string]string) (*host.Host, string) {
	t.Helper()
	dir := machine.Dir(t)
	for name, text := range files {
		machine.WriteFile(t, dir, name, text)
	}
	return host.Mounted(dir), dir
}

func TestSyntax(t *testing.T) {
	for line, want := range map[string]string{
		"work_mem = 4MB":                           "work_mem 4MB",
		" Work_Mem\t4MB # why":                     "work_mem 4MB",
		"work_mem=4MB#why":                         "work_mem 4MB",
		"work_mem='4 MB'":                          "work_mem 4 MB",
		"log_line_prefix = '%t it''s \\'so\\' # '": "log_line_prefix %t it's 'so' # ",
		"log_line_prefix = 'a\\tb\\101'":           "log_line_prefix a\tbA",
		"a.b = on":                                 "a.b on",
		"seq = -1":                                 "seq -1",
		"seq = 1e-3":                               "seq 1e-3",
		"seq = .5":                                 "seq .5",
		"seq = 0x1F":                               "seq 0x1F",
		"lc_messages = en_US.UTF-8":                "lc_messages en_US.UTF-8",
		"datestyle = iso, mdy":                     "error",
		"work_mem":                                 "error",
		"work_mem =":                               "error",
		"work_mem = 4 MB":                          "error",
		"work_mem = 'open":                         "error",
		"= 4":                                      "error",
		"1a = 4":                                   "error",
		"# work_mem = 4MB":                         "",
		"\r":                                       "",
	} {
		all, err := syntax{}.Assignments("# first\n" + line + "\n")
		got := ""
		switch {
		case err != nil:
			got = "error"
			if !strings.HasPrefix(err.Error(), "2: ") {
				t.Errorf("%q: %v does not say the line", line, err)
			}
		case len(all) == 1:
			got = all[0].Key + " " + syntax{}.Unquote(all[0].Literal)
		}
		if got != want {
			t.Errorf("%q: %q, want %q (%v)", line, got, want, err)
		}
	}
}

func TestValues(t *testing.T) {
	by := map[string]func(string) (any, error){}
	for _, p := range parameters {
		by[p.Name] = p.Read
		if p.Default != "" {
			if _, err := p.Read(p.Default); err != nil {
				t.Errorf("the default of %s: %v", p.Name, err)
			}
		}
		if p.Doc == "" || p.Type == "" {
			t.Errorf("%s says too little of itself", p.Name)
		}
	}
	for _, c := range []struct {
		name, text string
		want       any
	}{
		{"shared_buffers", "128MB", 128.0 * mB}, {"shared_buffers", "16384", 128.0 * mB}, {"shared_buffers", "131072kB", 128.0 * mB},
		{"shared_buffers", "1.5GB", 1536.0 * mB}, {"work_mem", "4096", 4.0 * mB}, {"max_wal_size", "2", 2.0 * mB}, {"wal_buffers", "-1", -1.0},
		{"shared_buffers", "128mb", nil}, {"shared_buffers", "128 min", nil}, {"shared_buffers", "much", nil}, {"shared_buffers", "", nil},
		{"checkpoint_timeout", "5min", 300.0}, {"checkpoint_timeout", "90", 90.0}, {"checkpoint_timeout", "1 d", 86400.0},
		{"log_min_duration_statement", "-1", -1.0}, {"log_min_duration_statement", "250", 0.25}, {"log_min_duration_statement", "1s", 1.0},
		{"max_connections", "1000", 1000.0}, {"max_connections", "10MB", nil}, {"random_page_cost", "1.1", 1.1},
		{"fsync", "yes", true}, {"fsync", "of", false}, {"fsync", "tru", true}, {"fsync", "o", nil}, {"fsync", "2", nil},
		{"shared_buffers", "0.1GB", 102.0 * mB}, {"shared_buffers", "0x10MB", 16.0 * mB}, {"shared_buffers", "0100MB", 64.0 * mB}, {"max_connections", "0100", 64.0},
		{"max_connections", "0x64", 100.0}, {"max_connections", "1e2", 100.0}, {"max_connections", "08", nil}, {"max_connections", "100.5", 100.0}, {"max_connections", "101.5", 102.0},
		{"random_page_cost", "04", 4.0}, {"random_page_cost", "1.1e0", 1.1}, {"checkpoint_timeout", "30500ms", 30.0}, {"checkpoint_timeout", "31500ms", 32.0}, {"work_mem", "99999GB", nil},
		{"shared_buffers", "1 GB ", 1024.0 * mB}, {"shared_buffers", "1G", nil}, {"temp_file_limit", "-1kB", -1.0}, {"work_mem", "65536.4B", 65536.0}, {"shared_buffers", "-5", nil}, {"shared_buffers", "64kB", nil}, {"work_mem", "1.4B", nil}, {"wal_buffers", "-1", -1.0}, {"max_connections", "5000000000", nil},
		{"huge_pages", "TRY", "try"}, {"shared_preload_libraries", "pg_stat_statements, \"x\"", []string{"pg_stat_statements", "x"}},
	} {
		got, err := by[c.name](c.text)
		if c.want == nil && err == nil || c.want != nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %q: %v, %v; want %v", c.name, c.text, got, err, c.want)
		}
	}
	for _, same := range [][2]string{{"8MB", "8192kB"}, {"1min", "60s"}, {"on", "TRUE"}, {"1.0", "1"}, {"1GB", "1024 MB"}, {"0x10MB", "16MB"}, {"0.1GB", "102MB"}, {"1e3", "1000"}} {
		if canonical(same[0]) != canonical(same[1]) {
			t.Errorf("%q and %q are not the same", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"8MB", "8"}, {"1min", "1MB"}, {"try", "on"}, {"-1", "1"}, {"0100", "100"}, {"0100", "64"}, {"0100MB", "100MB"}} {
		if canonical(other[0]) == canonical(other[1]) {
			t.Errorf("%q and %q are the same", other[0], other[1])
		}
	}
}

func TestCheck(t *testing.T) {
	for pair, ok := range map[[2]string]bool{
		{"shared_buffers", "8GB"}: true, {"shared_buffers", "lots"}: false, {"fsync", "off"}: false, {"fsync", "on"}: true,
		{"archive_command", "/bin/sh"}: false, {"shared_preload_libraries", "/tmp/x.so"}: false, {"data_directory", "/"}: false,
	} {
		if err := check(pair[0], pair[1]); (err == nil) != ok {
			t.Errorf("%v: %v", pair, err)
		}
	}
}

func winner(h *host.Host, key string) (conf.Place, bool, error) {
	s, err := readSettings(h, main15)
	if err != nil {
		return conf.Place{}, false, err
	}
	return s.place(key)
}

const main15 = "/etc/postgresql/15/main/postgresql.conf"

// The last assignment wins: through includes in their order, and what ALTER
// SYSTEM has left comes last.
func TestWinner(t *testing.T) {
	files := map[string]string{
		main15:                                     "data_directory = '/srv/pg'\nwork_mem = 1MB\nport = 1\ninclude_dir 'conf.d'\nINCLUDE = 'more/x.conf'\ninclude_if_exists 'gone.conf'\nmax_connections = 7\n",
		"/etc/postgresql/15/main/conf.d/10.conf":   "work_mem = 2MB\nshared_buffers = 1GB\n",
		"/etc/postgresql/15/main/conf.d/9.conf":    "work_mem = 3MB\n",
		"/etc/postgresql/15/main/conf.d/.no.conf":  "work_mem = 4MB\n",
		"/etc/postgresql/15/main/conf.d/no.conf~":  "work_mem = 4MB\n",
		"/etc/postgresql/15/main/more/x.conf":      "include 'y.conf'\nport = 2\n",
		"/etc/postgresql/15/main/more/y.conf":      "max_connections = 5\nrandom_page_cost = 2\n",
		"/srv/pg/postgresql.auto.conf":             "# by ALTER SYSTEM\nshared_buffers = '2GB'\n",
		"/etc/postgresql/15/main/postgresql.conf~": "",
	}
	h, _ := tree(t, files)
	for key, want := range map[string]string{
		"work_mem": "/etc/postgresql/15/main/conf.d/9.conf:1", "port": "/etc/postgresql/15/main/more/x.conf:2", "max_connections": main15 + ":7",
		"random_page_cost": "/etc/postgresql/15/main/more/y.conf:2", "shared_buffers": "/srv/pg/postgresql.auto.conf:2", "fsync": "nobody",
	} {
		p, ok, err := winner(h, key)
		got := p.String()
		if !ok {
			got = "nobody"
		}
		if err != nil || got != want {
			t.Errorf("%s is set by %s, want %s (%v)", key, got, want, err)
		}
	}
	for change, want := range map[string]string{
		"include 'postgresql.conf'": "includes itself", "include 'gone.conf'": "gone.conf", "include_dir 'gone'": "gone", "work_mem": main15 + ":1: syntax error",
	} {
		h, _ := tree(t, map[string]string{main15: change + "\n"})
		if _, _, err := winner(h, "work_mem"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

// The line that wins changes, wherever it is below PostgreSQL's directories; one
// that is elsewhere is not written.
func TestWriteWinner(t *testing.T) {
	included := "/etc/postgresql/15/main/conf.d/a.conf"
	h, dir := tree(t, map[string]string{main15: "work_mem = 1MB\ninclude_dir 'conf.d'\ninclude '/srv/far.conf'", included: "work_mem = 2MB # here\n", "/srv/far.conf": "port = 3\n"})
	k := Product.Kind(h)
	ctx := context.Background()
	at := func(key string) setting.Setting {
		s, err := k.Resolve(setting.Setting{Kind: "postgresql", Name: key})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := k.Write(ctx, at("work_mem"), setting.Text("5MB")); err != nil {
		t.Fatal(err)
	}
	if err := k.Write(ctx, at("fsync"), setting.Text("on")); err != nil {
		t.Fatal(err)
	}
	if err := k.Write(ctx, at("port"), setting.Text("5")); !errors.Is(err, setting.ErrOutside) {
		t.Errorf("/srv/far.conf: %v", err)
	}
	for name, want := range map[string]string{included: "work_mem = 5MB # here\n", main15: "work_mem = 1MB\ninclude_dir 'conf.d'\ninclude '/srv/far.conf'\nfsync = on"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestClusters(t *testing.T) {
	h, _ := tree(t, map[string]string{
		main15: "data_directory = '/var/lib/postgresql/15/main'\n", "/etc/postgresql/13/old/postgresql.conf": "",
		"/var/lib/pgsql/data/postgresql.conf": "", "/var/lib/pgsql/data/PG_VERSION": "13\n", "/var/lib/pgsql/16/data/postgresql.conf": "",
		"/var/opt/rh/rh-postgresql12/lib/pgsql/data/postgresql.conf": "",
		"/usr/lib/systemd/system/rh-postgresql12-postgresql.service": "[Service]\nEnvironment=PGDATA=/var/opt/rh/rh-postgresql12/lib/pgsql/data\n",
		"/usr/lib/systemd/system/postgresql-16.service":              "[Service]\nEnvironment=PGDATA=/var/lib/pgsql/16/data/\n",
		"/usr/lib/systemd/system/postgresql-x.service":               "[Service]\nEnvironment=PGDATA=/var/lib/pgsql/x\n",
		"/etc/systemd/system/postgresql-x.service.d/a.conf":          "[Service]\nEnvironment=\"PGDATA=/data/pg\"\n",
		"/data/pg/postgresql.conf":                                   "work_mem = 3MB\n",
	})
	all, err := clusters(h)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Name+" "+c.Unit)
	}
	want := []string{
		"13/old postgresql@13-old.service", "15/main postgresql@15-main.service", "data postgresql.service", "16/data postgresql-16.service",
		"rh-postgresql12 rh-postgresql12-postgresql.service", "data/pg postgresql-x.service",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %q,\nwant %q", got, want)
	}
	s, err := Product.Kind(h).Resolve(setting.Setting{Kind: "postgresql", Name: "data/pg/Work_Mem"})
	if err != nil || s.Name != "/data/pg/postgresql.conf#work_mem" {
		t.Errorf("%s, %v", s, err)
	}
	if _, ok := Product.Kind(h).(setting.Activator).Activation(context.Background(), s); ok {
		t.Error("nothing runs here, and something would be told")
	}
}

// A copy knows what the files say, and of the server nothing.
func TestCopy(t *testing.T) {
	files := map[string]string{main15: "data_directory = '/pg'\nwork_mem = 3MB\n", "/pg/PG_VERSION": "15\n"}
	_, dir := tree(t, files)
	h, err := host.Copy(dir)
	if err != nil {
		t.Fatal(err)
	}
	// What ALTER SYSTEM may have left would win.
	if all, err := Product.Find(context.Background(), h); err != nil || !strings.Contains(all[0].Option("work_mem").File.Unknown(), "/pg/postgresql.auto.conf: not recorded") {
		t.Errorf("without that file: %v, %v", all[0].Option("work_mem"), err)
	}
	files["/pg/postgresql.auto.conf"] = ""
	_, dir = tree(t, files)
	h, err = host.Copy(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Product.Find(context.Background(), h)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	o := all[0].Option("work_mem")
	if v, ok := o.Effective().Get(); v != "3MB" || !ok || o.File.Source() != main15+":2" || o.Running.Unknown() == "" {
		t.Errorf("%+v", o)
	}
	if a := all[0].Answer("connections_used"); a.Unknown == "" {
		t.Errorf("%+v", a)
	}
	if a := all[0].Answer("version"); a.Value != "15" {
		t.Errorf("%+v", a)
	}
}

func FuzzConf(f *testing.F) {
	f.Add("work_mem = '4 MB' # x\nport 1", "work_mem", "it's")
	f.Add("a.b 'c\\'d'", "A.B", "'x''y'")
	f.Add("x=1\n\n", "y", "")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		h, dir := tree(t, map[string]string{main15: text})
		conftest.RoundTrip(t, Product.Kind(h), setting.Setting{Kind: "postgresql", Name: "15/main/" + key}, value, filepath.Join(dir, main15))
	})
}

func TestAnswerText(t *testing.T) {
	n := 7.5
	a := answer{Version: "15.1", UptimeS: 3, Loaded: 1.25, Connections: 4, DataBytes: &n, Errors: []string{"a:1: b"}, Settings: map[string]running{
		"x": {Value: "a\tb", Context: "user", Source: "default"}, "y": {Context: "sighup", Source: "configuration file", File: "/a b", Line: 3, Pending: true},
	}}
	got, err := parseAnswer(string(a.text()))
	if err != nil {
		t.Fatal(err)
	}
	x := a.Settings["x"]
	x.Value = "a b"
	a.Settings["x"] = x
	if !reflect.DeepEqual(*got, a) {
		t.Errorf("%+v, want %+v", *got, a)
	}
	for _, bad := range []string{"", "version\t1\nx", "version\t1\nuptime_s\tlong", "version\t1\nsetting\ta\tb\tc\td\te\tf\tg"} {
		if _, err := parseAnswer(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
