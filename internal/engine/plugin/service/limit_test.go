package service

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// limited is a machine whose web.service runs as process 7 with a limit, and that has the units in
// show.
func limited(t *testing.T, runs string) (*host.Host, *plugin.Programs) {
	h := machine.Mounted(t, map[string]string{
		"/run/systemd/system/": "", "/etc/systemd/system/": "", "/usr/lib/systemd/system/": "",
		"/etc/systemd/system/own.service.d/override.conf": "[Service]\nNice=1\n", "/etc/systemd/system/empty.service.d/": "",
		"/proc/7/limits": "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 " + runs + "               files\n",
	})
	p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": func(c host.Command) host.Result {
		switch name := c.Argv[len(c.Argv)-1]; {
		case c.Argv[1] != "show":
			return host.Result{}
		case name == "web.service":
			return host.Result{Stdout: []byte("LoadState=loaded\nType=simple\nActiveState=active\nMainPID=7\n")}
		case name == "meta.service":
			return host.Result{Stdout: []byte("LoadState=loaded\nType=oneshot\nActiveState=active\nMainPID=0\n")}
		case name == "none.service":
			return host.Result{Stdout: []byte("LoadState=not-found\nActiveState=inactive\nMainPID=0\n")}
		}
		return host.Result{Stdout: []byte("LoadState=loaded\nActiveState=inactive\nMainPID=0\n")}
	}}}
	h.Exec = p
	return h, p
}

func limitOf(name, limit string) setting.Setting {
	return setting.Setting{Kind: "unit", Name: name + ".service/" + limit}
}

// TestLimit tests that a limit is a line of a drop-in. The file is removed with its last line, and
// the directory if fettle created it.
func TestLimit(t *testing.T) {
	for _, unitName := range []string{"web", "own", "empty"} {
		h, p := limited(t, "1024")
		k := Kinds(h)["unit"]
		before := plugin.Snapshot(t, h)
		write := func(limit string, v setting.Value) {
			t.Helper()
			if err := k.Write(t.Context(), limitOf(unitName, limit), v); err != nil {
				t.Fatal(err)
			}
			if now, err := k.Read(t.Context(), limitOf(unitName, limit)); err != nil || now != v {
				t.Errorf("%s %s: %v, %v", unitName, limit, now, err)
			}
		}
		write("LimitNOFILE", setting.Text("4096"))
		write("LimitNPROC", setting.Text("10:20"))
		write("LimitNOFILE", setting.Text("8192"))
		b, err := h.Files.ReadFile("/etc/systemd/system/" + unitName + ".service.d/zz-fettle.conf")
		if want := "[Service]\nLimitNPROC=10:20\nLimitNOFILE=8192\n"; err != nil || !strings.HasSuffix(string(b), want) {
			t.Errorf("%s: %v\n%s", unitName, err, b)
		}
		if !strings.Contains(strings.Join(p.Taken(), "\n"), "systemctl daemon-reload") {
			t.Error("systemd was told nothing")
		}
		write("LimitNOFILE", setting.Absent)
		write("LimitNPROC", setting.Absent)
		write("LimitNPROC", setting.Absent)
		if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
			t.Errorf("%s: %s", unitName, d)
		}
	}
}

// TestLimitBesideAnotherLine tests that lines written into the file by hand stay.
func TestLimitBesideAnotherLine(t *testing.T) {
	h, _ := limited(t, "1024")
	k := Kinds(h)["unit"]
	file := "/etc/systemd/system/own.service.d/zz-fettle.conf"
	if err := k.Write(t.Context(), limitOf("own", "LimitCORE"), setting.Text("0")); err != nil {
		t.Fatal(err)
	}
	b, err := h.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Files.Store(file, append(b, "Nice=3\n"...)); err != nil {
		t.Fatal(err)
	}
	if err := k.Write(t.Context(), limitOf("own", "LimitCORE"), setting.Absent); err != nil {
		t.Fatal(err)
	}
	if b, err := h.Files.ReadFile(file); err != nil || !strings.HasSuffix(string(b), "[Service]\nNice=3\n") {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestLimitMayBeAsked(t *testing.T) {
	h, _ := limited(t, "1024")
	k := setting.Kinds(Kinds(h))
	for _, c := range []struct{ name, value, want string }{
		{"web.service/LimitNOFILE", "65536", ""},
		{"web.service/LimitNOFILE", "1024:64K", ""},
		{"web.service/LimitMEMLOCK", "infinity", ""},
		{"web.service/active", "active", ""},
		{"web.service/LimitNOFILE", "infinity", "does not allow unlimited open files"},
		{"web.service/LimitNOFILE", "many", "is not a limit"},
		{"web.service/LimitNOFILE", "5\nExecStart=/x", "is not a limit"},
		{"web.service/LimitNPROC", "64K:1024", "the soft limit 64K is above the hard one 1024"},
		{"web.socket/LimitNOFILE", "10", ": only services have process limits"},
		{"dbus.service/LimitNOFILE", "10", "would disrupt the machine"},
		{"systemd-logind.service/LimitNOFILE", "10", "would disrupt the machine"},
		{"meta.service/LimitNOFILE", "10", "has no long-running process"},
		{"none.service/LimitNOFILE", "10", "service none.service not found"},
	} {
		h.Live = true
		err := k.CheckRequest(setting.Setting{Kind: "unit", Name: c.name}, setting.Text(c.value), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s = %s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}

// TestLimitOfSomebodyElse tests that only a process that started before the line was written needs
// a restart. One that started later has its limit from another program.
func TestLimitOfSomebodyElse(t *testing.T) {
	written := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(t time.Time) string { return t.Local().Format("Mon 2006-01-02 15:04:05 MST") }
	for _, given := range []struct {
		about, limit, read, started string
		want                        engineplugin.Verdict
		why                         string
	}{
		{"before", "4096", "no", at(written.Add(-time.Second)), engineplugin.NeedsRestart, "runs with the limit 1024 until it is restarted"},
		{"not read", "524288", "yes", at(written.Add(time.Minute)), engineplugin.NeedsRestart, "systemctl daemon-reload"},
		{"another drop-in", "2048", "no", at(written.Add(time.Minute)), engineplugin.Overridden, "a drop-in that systemd reads after zz-fettle.conf overrides the limit with 2048"},
		{"its own", "4096", "no", at(written.Add(time.Minute)), engineplugin.Overridden, "its own limit, 1024"},
		{"in the same second", "4096", "no", at(written), engineplugin.Overridden, "its own limit, 1024"},
		{"none", "18446744073709551615", "no", at(written), engineplugin.Overridden, "overrides the limit with 18446744073709551615"},
		{"nobody knows when", "4096", "no", "", engineplugin.Unknown, "unknown whether"},
	} {
		h, p := limited(t, "1024")
		h.Live = true
		k := Kinds(h)["unit"].(unit)
		if err := k.Write(t.Context(), limitOf("web", "LimitNOFILE"), setting.Text("4096")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(h.Name, "/etc/systemd/system/web.service.d/zz-fettle.conf"), written, written); err != nil {
			t.Fatal(err)
		}
		show := p.Answer["systemctl"]
		p.Answer["systemctl"] = func(c host.Command) host.Result {
			if slices.Contains(c.Argv, "--property=LimitNOFILE,NeedDaemonReload,ExecMainStartTimestamp") {
				return host.Result{Stdout: []byte("LimitNOFILE=" + given.limit + "\nNeedDaemonReload=" + given.read + "\nExecMainStartTimestamp=" + given.started + "\n")}
			}
			return show(c)
		}
		if v, why := k.Effect(t.Context(), limitOf("web", "LimitNOFILE"), setting.Text("4096")); v != given.want || !strings.Contains(why, given.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", given.about, v, why, given.want, given.why)
		}
	}
}

// TestLimitEffect tests that a limit is in force if the process has it, and that a stopped service
// is not started.
func TestLimitEffect(t *testing.T) {
	h, _ := limited(t, "65536")
	h.Live = true
	k := Kinds(h)["unit"].(unit)
	for _, value := range []string{"64K", "1024:65536"} {
		if v, why := k.Effect(t.Context(), limitOf("web", "LimitNOFILE"), setting.Text(value)); v != engineplugin.OK {
			t.Errorf("%s: %s (%s)", value, v, why)
		}
	}
	if v, why := k.Effect(t.Context(), limitOf("own", "LimitNOFILE"), setting.Text("5")); v != engineplugin.OK || !strings.Contains(why, "next start") {
		t.Errorf("stopped: %s (%s)", v, why)
	}
	if a, ok := k.Activation(t.Context(), limitOf("web", "LimitNOFILE")); !ok || a.String() != "restart of web.service" {
		t.Errorf("%v, %v", a, ok)
	}
	for _, name := range []string{"own", "meta", "none"} {
		if a, ok := k.Activation(t.Context(), limitOf(name, "LimitNOFILE")); ok {
			t.Errorf("%v would be told", a)
		}
	}
	if a, ok := k.Activation(t.Context(), setting.Setting{Kind: "unit", Name: "web.service/active"}); ok {
		t.Errorf("%v would be told", a)
	}
}
