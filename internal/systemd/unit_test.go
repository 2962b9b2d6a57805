package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

const (
	lib = "/usr/lib/systemd/system/"
	etc = "/etc/systemd/system/"
	run = "/run/systemd/system/"
)

func TestTheLastLineCounts(t *testing.T) {
	u, err := New(machine.Mounted(t, map[string]string{
		lib + "foreman.service":                  "[Unit]\nDescription=Foreman\n[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=2\nLimitNOFILE=1024\n",
		etc + "foreman.service.d/installer.conf": "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=12\n",
		etc + "foreman.service.d/20-limit.conf":  "# comment\n\n[Service]\nLimitNOFILE=4096\n",
		run + "foreman.service.d/20-limit.conf":  "[Service]\nLimitNOFILE=1\n",
		lib + "foreman.service.d/30-off.conf":    "[Service]\nNice=5\n",
		etc + "foreman.service.d/30-off.conf":    "-> /dev/null",
		etc + "foreman.service.d/readme.txt":     "[Service]\nNice=9\n",
		etc + "service.d/20-limit.conf":          "[Service]\nLimitNOFILE=7\n",
		etc + "service.d/99-all.conf":            "[Service]\nOOMScoreAdjust=3\n",
	})).Load("foreman.service")
	if err != nil {
		t.Fatal(err)
	}
	l, ok := u.Limit("NOFILE")
	if want := (Limit{4096, 4096, etc + "foreman.service.d/20-limit.conf:4"}); !ok || l != want {
		t.Errorf("limit %+v, %v: want %+v", l, ok, want)
	}
	if v, ok := u.Last("Service", "Nice"); ok {
		t.Errorf("a drop-in that /dev/null hides sets Nice to %+v", v)
	}
	if _, ok := u.Last("Service", "OOMScoreAdjust"); !ok {
		t.Error("the drop-in of all services is not read")
	}
	env, unread := u.Environment()
	if got := env["FOREMAN_PUMA_WORKERS"]; unread != "" || got != (Value{"12", etc + "foreman.service.d/installer.conf:2"}) {
		t.Errorf("workers %+v, unread %q", got, unread)
	}
}

// A unit with too many drop-ins is rejected without reading them.
func TestTooManyDropIns(t *testing.T) {
	files := map[string]string{lib + "foreman.service": "[Service]\nLimitNOFILE=1024\n"}
	for i := range maxDropIns {
		files[fmt.Sprintf("%sforeman.service.d/%04d.conf", etc, i)] = "[Service]\nNice=1\n"
	}
	if u, err := New(machine.Mounted(t, files)).Load("foreman.service"); err != nil || len(u.Files) != maxDropIns+1 {
		t.Errorf("%v", err)
	}
	files[etc+"foreman.service.d/9999.conf"] = "[Service]\nLimitNOFILE=4096\n"
	if _, err := New(machine.Mounted(t, files)).Load("foreman.service"); err == nil || err.Error() != "foreman.service: 501 drop-ins; at most 500 are supported" {
		t.Errorf("%v", err)
	}
}

func TestLoad(t *testing.T) {
	r := New(machine.Mounted(t, map[string]string{
		lib + "a@.service":             "[Service]\nEnvironment=NAME=%i FULL=%n UNESCAPED=%I\n",
		lib + "a@special.service":      "[Service]\nEnvironment=NAME=special\n",
		etc + "gone.service":           "-> /dev/null",
		lib + "gone.service":           "[Service]\n",
		etc + "empty.service":          "",
		lib + "redis-server.service":   "[Service]\nLimitNOFILE=65535\n",
		etc + "redis.service":          "-> " + lib + "redis-server.service",
		etc + "redis.service.d/x.conf": "[Service]\nLimitNOFILE=99\n",
	}))
	for _, name := range []string{"gone.service", "empty.service"} {
		if u, err := r.Load(name); err != nil || !u.Masked {
			t.Errorf("%s: %+v, %v: want it masked", name, u, err)
		}
	}
	if _, err := r.Load("none.service"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a unit that there is none of: %v", err)
	}
	for name, want := range map[string]string{"a@x-y.service": "x-y", "a@special.service": "special"} {
		u, err := r.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		env, _ := u.Environment()
		if env["NAME"].Text != want {
			t.Errorf("%s: NAME is %q, want %q", name, env["NAME"].Text, want)
		}
		if name == "a@x-y.service" && (env["FULL"].Text != name || env["UNESCAPED"].Text != "x/y") {
			t.Errorf("specifiers: %v", env)
		}
	}
	// Drop-ins of any of its names belong to a unit, whichever name is requested.
	for _, name := range []string{"redis.service", "redis-server.service"} {
		u, err := r.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if l, _ := u.Limit("NOFILE"); l.Soft != 99 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	h, err := host.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(h).Load("a.service"); !host.Unknown(err) {
		t.Errorf("a copy without units says %v", err)
	}
}

// A copy may have the drop-ins of units without the units' files.
func TestLoadInPart(t *testing.T) {
	r := New(machine.Copy(t, map[string]string{
		etc + "a.service.d/x.conf":                           "[Service]\nLimitNOFILE=7\nEnvironment=A=1\n",
		"/sys/fs/cgroup/system.slice/b.service/cgroup.procs": "12\n7\n",
		"/proc/7/limits":                                     "Max open files            1024                 4096                 files\n",
	}))
	a, err := r.Load("a.service")
	if err != nil || !a.Partial {
		t.Fatalf("%+v, %v: want a unit in part", a, err)
	}
	if l, ok := a.Limit("NOFILE"); !ok || l.Soft != 7 {
		t.Errorf("the drop-in's limit is %+v, %v", l, ok)
	}
	if env, unread := a.Environment(); env["A"].Text != "1" || unread == "" {
		t.Errorf("environment %v, unread %q: want the drop-in's, and that there may be more", env, unread)
	}
	b, err := r.Load("b.service")
	if err != nil || !b.Partial {
		t.Fatalf("%+v, %v: want a unit in part", b, err)
	}
	if l, ok, err := b.Running("Max open files"); err != nil || !ok || l.Soft != 1024 {
		t.Errorf("the process has %+v, %v, %v", l, ok, err)
	}
	if _, err := r.Load("c.service"); !host.Unknown(err) {
		t.Errorf("a unit that nobody recorded: %v", err)
	}
}

func TestParse(t *testing.T) {
	got := parse("f", []byte("A=before any section\n[Service]\nExecStart = /bin/a \\\n  # between\n  b\n;comment\nB=x\\\\\nC=\n[broken\nD=lost\n[Unit]\nE=1=2\nno assignment\nF=\xff\nG=end \\"))
	want := []line{
		{"Service", "ExecStart", "/bin/a  b", "f", 3},
		{"Service", "B", `x\\`, "f", 7},
		{"Service", "C", "", "f", 8},
		{"Unit", "E", "1=2", "f", 12},
		{"Unit", "G", "end", "f", 15},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Error(diff)
	}
}

func TestAll(t *testing.T) {
	u := &Unit{lines: parse("f", []byte("[Service]\nA=1\nA=2\nA=\nA=3\nLimitNOFILE=5\nLimitNOFILE=\n")), reader: New(machine.Mounted(t, nil))}
	if got := u.All("Service", "A"); len(got) != 1 || got[0] != (Value{"3", "f:5"}) {
		t.Errorf("%v", got)
	}
	if v, ok := u.Last("Service", "LimitNOFILE"); ok {
		t.Errorf("an empty assignment leaves %v", v)
	}
	if l, ok := u.Limit("NOFILE"); !ok || l != (Limit{5, 5, "f:6"}) {
		t.Errorf("%+v, %v: an empty limit is ignored", l, ok)
	}
}

func TestEnvironment(t *testing.T) {
	for text, want := range map[string][]string{
		`A=1 B=2`:                {"A=1", "B=2"},
		`"A=1 2" 'B=x "y"'`:      {"A=1 2", `B=x "y"`},
		`A="1 2"`:                {"A=1 2"},
		`A=\x41\tb\040c \u00e9=`: {"A=A\tb c"},
		`A=1 "B=2`:               {"A=1"},
		`A=1 B=\q C=3`:           {"A=1"},
		`1A=x A-B=y =z A`:        nil,
		`A=%% B=%i%I`:            {"A=%", "B=i-1i/1"},
		``:                       nil,
	} {
		u := &Unit{Name: "p@i-1.service"}
		if got := u.assignments(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Directories that systemd creates are in the environment and the command line.
func TestDirectories(t *testing.T) {
	u, err := New(machine.Mounted(t, map[string]string{
		lib + "p.service": "[Service]\nRuntimeDirectory=gone\nRuntimeDirectory=\nRuntimeDirectory=%p\nLogsDirectory=a b/c:link\nExecStart=/bin/p --file ${RUNTIME_DIRECTORY}/x $CACHE_DIRECTORY\n",
	})).Load("p.service")
	if err != nil {
		t.Fatal(err)
	}
	env, _ := u.Environment()
	if got := env["LOGS_DIRECTORY"].Text; got != "/var/log/a:/var/log/b/c" {
		t.Errorf("its logs are in %q", got)
	}
	if argv, _ := u.Command(); !slices.Equal(argv, []string{"/bin/p", "--file", "/run/p/x"}) {
		t.Errorf("it is started as %q", argv)
	}
}

func TestEnvironmentFiles(t *testing.T) {
	r := New(machine.Mounted(t, map[string]string{
		lib + "p.service":       "[Service]\nEnvironment=A=1 B=2 C=3\nEnvironmentFile=/etc/sysconfig/p\nEnvironmentFile=-/etc/sysconfig/none\nUnsetEnvironment=C B=9\n",
		lib + "q.service":       "[Service]\nEnvironmentFile=/etc/sysconfig/none\n",
		"/etc/sysconfig/p":      "# c\nA=file\n export D=no\nE=\"a b\" # kept\n",
		"/etc/sysconfig/unused": "A=unused\n",
	}))
	u, err := r.Load("p.service")
	if err != nil {
		t.Fatal(err)
	}
	env, unread := u.Environment()
	want := map[string]Value{"A": {"file", "/etc/sysconfig/p:2"}, "B": {"2", lib + "p.service:2"}, "E": {"a b # kept", "/etc/sysconfig/p:4"}}
	if diff := cmp.Diff(want, env); diff != "" || unread != "" {
		t.Errorf("unread %q\n%s", unread, diff)
	}
	if u, err = r.Load("q.service"); err != nil {
		t.Fatal(err)
	}
	if _, unread := u.Environment(); unread != "/etc/sysconfig/none" {
		t.Errorf("unread %q: the unit does not start without its file", unread)
	}
}

// A file that was not copied may override everything before it.
func TestEnvironmentOfACopy(t *testing.T) {
	const unit = "[Service]\nEnvironment=A=1 B=2\nEnvironmentFile="
	for name, c := range map[string]struct {
		file, beside string // EnvironmentFile=, and another file in its directory
		want         map[string]string
		unread       string
	}{
		"its directory is not here":         {"/etc/sysconfig/p", "", map[string]string{}, "/etc/sysconfig/p"},
		"neither, and it may be absent":     {"-/etc/sysconfig/p", "", map[string]string{}, "/etc/sysconfig/p"},
		"the file alone":                    {"/etc/sysconfig/p", "q", map[string]string{}, "/etc/sysconfig/p"},
		"the file alone, and it may be":     {"-/etc/sysconfig/p", "q", map[string]string{"A": "1", "B": "2"}, ""},
		"here":                              {"/etc/sysconfig/p", "p", map[string]string{"A": "9", "B": "2"}, ""},
		"what comes after it is known":      {"/etc/sysconfig/q\nEnvironmentFile=/etc/sysconfig/p", "p", map[string]string{"A": "9"}, "/etc/sysconfig/q"},
		"a link out of it, and it may be":   {"-/etc/sysconfig/l", "q", map[string]string{}, "/etc/sysconfig/l"},
		"a directory in place of it":        {"-/etc/sysconfig/d", "d/x", map[string]string{}, "/etc/sysconfig/d"},
		"somebody's, of which no one knows": {"-/srv/p", "p", map[string]string{}, "/srv/p"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{lib + "p.service": unit + c.file + "\n"}
			if c.beside != "" {
				files["/etc/sysconfig/"+c.beside] = "A=9\n"
				files["/etc/sysconfig/l"] = "-> /srv/l"
			}
			u, err := New(machine.Copy(t, files)).Load("p.service")
			if err != nil {
				t.Fatal(err)
			}
			env, unread := u.Environment()
			got := map[string]string{}
			for k, v := range env {
				got[k] = v.Text
			}
			if diff := cmp.Diff(c.want, got); diff != "" || unread != c.unread {
				t.Errorf("unread %q, want %q\n%s", unread, c.unread, diff)
			}
		})
	}
}

func TestEnvironmentFile(t *testing.T) {
	got := EnvironmentFile("A=1\n\n; c\n# c \\\n still\nB = 'x y'z  \nC=\"a\\\"b\\n$c\"\nD=a\\\n b\nnothing\nE=\n2=3\nF=last")
	want := []Assignment{{"A", "1", 1}, {"B", "x yz", 6}, {"C", `a"b\n$c`, 7}, {"D", "a b", 8}, {"E", "", 11}, {"F", "last", 13}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"1024": {1024, 1024, ""}, "1024:524288": {1024, 524288, ""}, "infinity": {math.Inf(1), math.Inf(1), ""}, "64M": {64 << 20, 64 << 20, ""}, " 5 : infinity ": {5, math.Inf(1), ""},
	} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "5:4", "-1", "1:", "M"} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestDefaultLimit(t *testing.T) {
	u, err := New(machine.Mounted(t, map[string]string{
		lib + "p.service":                        "[Service]\n",
		"/etc/systemd/system.conf":               "[Manager]\nDefaultLimitNOFILE=5\n",
		"/etc/systemd/system.conf.d/10.conf":     "[Manager]\nDefaultLimitNOFILE=6:7\n",
		"/usr/lib/systemd/system.conf.d/10.conf": "[Manager]\nDefaultLimitNOFILE=8\n",
	})).Load("p.service")
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := u.Limit("NOFILE"); !ok || l != (Limit{6, 7, "/etc/systemd/system.conf.d/10.conf:2"}) {
		t.Errorf("%+v, %v", l, ok)
	}
}

const limitsText = "Limit                     Soft Limit           Hard Limit           Units     \nMax cpu time              unlimited            unlimited            seconds   \nMax open files            1024                 524288               files     \n"

func TestRunning(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		lib + "dyn-flow@.service": "[Service]\n",
		lib + "own.service":       "[Service]\nSlice=a-b.slice\n",
		lib + "stopped.service":   "[Service]\n",
		`/sys/fs/cgroup/system.slice/system-dyn\x2dflow.slice/dyn-flow@w.service/cgroup.procs`: "1200\n300\n",
		"/sys/fs/cgroup/systemd/a.slice/a-b.slice/own.service/cgroup.procs":                    "300\n",
		"/proc/300/limits": limitsText,
	})
	r := New(h)
	for _, name := range []string{"dyn-flow@w.service", "own.service"} {
		u, err := r.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if l, ok, err := u.Running("Max open files"); err != nil || !ok || l != (Limit{1024, 524288, "/proc/300/limits"}) {
			t.Errorf("%s: %+v, %v, %v", name, l, ok, err)
		}
		if l, ok, err := u.Running("Max cpu time"); err != nil || !ok || !math.IsInf(l.Hard, 1) {
			t.Errorf("%s: %+v, %v, %v", name, l, ok, err)
		}
	}
	u, err := r.Load("stopped.service")
	if err != nil {
		t.Fatal(err)
	}
	if l, ok, err := u.Running("Max open files"); ok || err != nil {
		t.Errorf("of a unit that does not run: %+v, %v", l, err)
	}
}

func TestEnabled(t *testing.T) {
	r := New(machine.Mounted(t, map[string]string{
		etc + "multi-user.target.wants/d@worker-1.service": "-> " + lib + "d@.service",
		etc + "multi-user.target.wants/d@worker-2.service": "-> " + lib + "d@.service",
		etc + "x.target.requires/d@worker-1.service":       "-> " + lib + "d@.service",
		etc + "multi-user.target.wants/e.service":          "-> " + lib + "e.service",
	}))
	got, err := r.Enabled("d@worker-*.service")
	if want := []string{"d@worker-1.service", "d@worker-2.service"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v: want %v", got, err, want)
	}
}
