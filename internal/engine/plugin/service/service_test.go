package service

import (
	"context"
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
	"fettle.dev/fettle/internal/testkit/root"
)

// fakeSystemd simulates systemctl for units given as "active enabled".
func fakeSystemd(units map[string]string) *plugin.Programs {
	return &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": func(c host.Command) host.Result {
		name := c.Argv[len(c.Argv)-1]
		active, enabled, known := strings.Cut(units[name], " ")
		switch c.Argv[1] {
		case "show":
			load := "loaded"
			if !known {
				load, active = "not-found", "inactive"
			}
			return host.Result{Stdout: []byte("LoadState=" + load + "\nActiveState=" + active + "\nUnitFileState=" + enabled +
				"\nActiveEnterTimestamp=" + time.Now().Add(-time.Hour).Format("Mon 2006-01-02 15:04:05 MST") + "\n")}
		case "start":
			active = "active"
		case "stop":
			active = "inactive"
		case "enable":
			enabled = "enabled"
		case "disable":
			enabled = "disabled"
		}
		if c.Argv[1] != "daemon-reload" {
			units[name] = active + " " + enabled
		}
		return host.Result{}
	}}}
}

var systemdTree = map[string]string{
	"/run/systemd/system/": "", "/etc/systemd/system/": "", "/usr/lib/systemd/system/": "",
	"/usr/lib/tuned/p/mail.conf":                      "[Service]\nNice=5\n",
	"/etc/systemd/system/dbus-org.mail.service":       "-> /usr/lib/systemd/system/mail.service",
	"/usr/lib/systemd/system/mail.service":            "[Service]\n",
	"/usr/lib/tuned/p/mail.txt":                       "x",
	"/etc/systemd/system/masked-by-hand.service":      "-> /dev/null",
	"/etc/systemd/system/web.service.d/override.conf": "[Service]\nNice=1\n",
}

func TestPlan(t *testing.T) {
	root.Rights(t)
	h := machine.Mounted(t, systemdTree)
	h.Exec = fakeSystemd(map[string]string{"mail.service": "inactive disabled", "web.service": "active enabled", "s.socket": "failed static"})
	kinds := plugin.Kinds(h, Kinds(h))
	for _, c := range []struct {
		line string
		want []string
	}{
		{"service.mail=start,enable", []string{"unit:mail.service/active = active", "unit:mail.service/enabled = enabled"}},
		{"service.mail=stop ; disable", []string{"unit:mail.service/active = inactive", "unit:mail.service/enabled = disabled"}},
		{"service.mail=start,stop,disable,enable", []string{"unit:mail.service/active = inactive", "unit:mail.service/enabled = enabled"}},
		{"service.s.socket=enable", []string{"unit:s.socket/enabled unsupported: the unit file is static, so the service can be neither enabled nor disabled"}},
		{"service.none=start", []string{"unit:none.service/active unsupported: no such service: none.service"}},
		{"service.mail=file:/usr/lib/tuned/p/mail.conf", []string{"dir:/etc/systemd/system/mail.service.d = directory", "unit:mail.service/dropin/mail.conf = [Service]\nNice=5\n"}},
		{"service.web=start,file:/usr/lib/tuned/p/mail.conf", []string{"unit:web.service/dropin+restart/mail.conf = [Service]\nNice=5\n", "unit:web.service/active = active"}},
		{"service.web=file:mail.conf", []string{"unit:web.service/dropin/mail.conf rejected: mail.conf: not an absolute path; write file:${i:PROFILE_DIR}/mail.conf"}},
		{"service.web=file:/usr/lib/tuned/p/mail.txt", []string{"unit:web.service/dropin/mail.txt rejected: /usr/lib/tuned/p/mail.txt: systemd reads only drop-ins whose name ends in .conf"}},
		{"priority=1", nil},
	} {
		if d := cmp.Diff(c.want, plugin.Lines(plugin.PlanUndotest(t, &Service, h, kinds, c.line))); d != "" {
			t.Errorf("%s: %s", c.line, d)
		}
	}
	for _, bad := range []string{"service.mail=restart", "service.../x=start", "service.-n=start", "service.a b=start"} {
		if _, err := plugin.TryPlan(&Service, h, kinds, bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestResolve(t *testing.T) {
	h := machine.Mounted(t, systemdTree)
	k := Kinds(h)["unit"]
	for name, want := range map[string]string{
		"dbus-org.mail.service/active": "mail.service/active", "mail/enabled": "mail.service/enabled",
		"masked-by-hand/active": "masked-by-hand.service/active", "a/dropin/b.conf": "a.service/dropin/b.conf",
	} {
		got, err := k.Resolve(setting.Setting{Kind: "unit", Name: name})
		if err != nil || got.Name != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"a", "a/b", "a/dropin/..", "a/dropin/b/c", "/active", "a/../active"} {
		if got, err := k.Resolve(setting.Setting{Kind: "unit", Name: bad}); err == nil {
			t.Errorf("%s resolved to %s", bad, got)
		}
	}
}

// TestFiles tests Files, with which why finds the file of a drop-in.
func TestFiles(t *testing.T) {
	f := Kinds(machine.Mounted(t, systemdTree))["unit"].(setting.FileLister)
	for name, want := range map[string][]string{
		"web.service/dropin/90-fettle.conf":         {"/etc/systemd/system/web.service.d/90-fettle.conf"},
		"web.service/dropin+restart/90-fettle.conf": {"/etc/systemd/system/web.service.d/90-fettle.conf"},
		"web.service/active":                        nil,
		"web.service/dropin/../x":                   nil,
	} {
		if got := f.Files(setting.Setting{Kind: "unit", Name: name}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestApplyAndUndo(t *testing.T) {
	root.Rights(t)
	h := machine.Mounted(t, systemdTree)
	units := map[string]string{"mail.service": "inactive disabled", "web.service": "active enabled"}
	p := fakeSystemd(units)
	h.Exec = p
	kinds := plugin.Kinds(h, Kinds(h))
	before := plugin.Snapshot(t, h)
	lines := []string{"service.mail=start,enable,file:/usr/lib/tuned/p/mail.conf", "service.web=stop,disable"}
	images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Service, h, kinds, lines...))
	if units["mail.service"] != "active enabled" || units["web.service"] != "inactive disabled" {
		t.Errorf("applied: %v", units)
	}
	var did []string
	for _, c := range p.Taken() {
		if !strings.HasPrefix(c, "systemctl show") {
			did = append(did, c)
		}
	}
	want := []string{"systemctl daemon-reload", "systemctl try-restart mail.service", "systemctl start -- mail.service",
		"systemctl enable -- mail.service", "systemctl stop -- web.service", "systemctl disable -- web.service"}
	if d := cmp.Diff(want, did); d != "" {
		t.Error(d)
	}
	plugin.Undo(t, kinds, images)
	if units["mail.service"] != "inactive disabled" || units["web.service"] != "active enabled" {
		t.Errorf("undone: %v", units)
	}
	if !slices.Contains(p.Calls, "systemctl daemon-reload") {
		t.Error("systemd was not told that the drop-in is gone")
	}
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
}

// TestFileOfRunningUnitHasGone tests a running unit whose file was removed: it stays in systemd's
// memory, and there is nothing left to disable.
func TestFileOfRunningUnitHasGone(t *testing.T) {
	h := machine.Mounted(t, systemdTree)
	h.Exec = &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": func(c host.Command) host.Result {
		name := c.Argv[len(c.Argv)-1]
		return host.Result{Stdout: []byte("LoadState=loaded\nActiveState=active\nUnitFileState=disabled\nFragmentPath=/usr/lib/systemd/system/" + name + "\n")}
	}}}
	k := Kinds(h)["unit"]
	for name, want := range map[string]setting.Value{"mail.service": setting.Text("disabled"), "gone.service": setting.Absent} {
		if v, err := k.Read(t.Context(), setting.Setting{Kind: "unit", Name: name + "/enabled"}); err != nil || v != want {
			t.Errorf("%s: %v, %v; want %v", name, v, err, want)
		}
	}
}

func TestDropInEffect(t *testing.T) {
	h := machine.Mounted(t, systemdTree)
	h.Exec = fakeSystemd(map[string]string{"web.service": "active enabled"})
	k := Kinds(h)["unit"].(unit)
	s := setting.Setting{Kind: "unit", Name: "web.service/dropin/override.conf"}
	if v, why := k.Effect(context.Background(), s, setting.Value{}); v != engineplugin.NeedsRestart {
		t.Error(v, why)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(h.Name, "/etc/systemd/system/web.service.d/override.conf"), old, old); err != nil {
		t.Fatal(err)
	}
	if v, why := k.Effect(context.Background(), s, setting.Value{}); v != engineplugin.OK {
		t.Error(v, why)
	}
}

// TestOtherInits checks the calls for the other init systems.
func TestOtherInits(t *testing.T) {
	yes := func(host.Command) host.Result { return host.Result{} }
	status := func(c host.Command) host.Result {
		if c.Argv[len(c.Argv)-1] == "status" {
			return host.Result{ExitCode: 3}
		}
		return host.Result{}
	}
	level := func(host.Command) host.Result { return host.Result{Stdout: []byte("N 3\n")} }
	for _, c := range []struct {
		name     string
		tree     map[string]string
		programs map[string]func(host.Command) host.Result
		enabled  string
		want     []string
	}{
		{"OpenRC", map[string]string{"/run/openrc/softlevel": "default\n", "/etc/init.d/sshd": "#!/sbin/openrc-run\n", "/etc/runlevels/default/sshd": "-> /etc/init.d/sshd"},
			map[string]func(host.Command) host.Result{"rc-service": status, "rc-update": yes}, "enabled",
			[]string{"rc-service sshd start", "rc-service sshd stop", "rc-update add sshd default", "rc-update del sshd default"}},
		{"Red Hat", map[string]string{"/etc/init.d/sshd": "#!/bin/sh\n", "/etc/rc.d/rc3.d/S55sshd": "-> ../init.d/sshd"},
			map[string]func(host.Command) host.Result{"service": status, "runlevel": level, "chkconfig": yes}, "enabled",
			[]string{"service sshd start", "service sshd stop", "chkconfig --level 3 sshd on", "chkconfig --level 3 sshd off"}},
		{"Debian", map[string]string{"/etc/init.d/sshd": "#!/bin/sh\n", "/etc/rc3.d/K01sshd": "-> ../init.d/sshd"},
			map[string]func(host.Command) host.Result{"service": status, "runlevel": level, "update-rc.d": yes}, "disabled",
			[]string{"service sshd start", "service sshd stop", "update-rc.d sshd enable 3", "update-rc.d sshd disable 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := machine.Mounted(t, c.tree)
			p := &plugin.Programs{Answer: c.programs}
			h.Exec = p
			k := Kinds(h)["unit"]
			ctx := context.Background()
			at := func(aspect string) setting.Setting { return setting.Setting{Kind: "unit", Name: "sshd/" + aspect} }
			if v, err := k.Read(ctx, at("active")); err != nil || v.Text != "inactive" {
				t.Errorf("active: %q, %v", v.Text, err)
			}
			if v, err := k.Read(ctx, at("enabled")); err != nil || v.Text != c.enabled {
				t.Errorf("enabled: %q, %v", v.Text, err)
			}
			if v, err := k.Read(ctx, setting.Setting{Kind: "unit", Name: "nosuch/enabled"}); err != nil || !v.Absent {
				t.Errorf("a service that is not there: %v, %v", v, err)
			}
			p.Taken()
			for _, v := range []string{"active", "inactive"} {
				if err := k.Write(ctx, at("active"), setting.Text(v)); err != nil {
					t.Error(err)
				}
			}
			for _, v := range []string{"enabled", "disabled"} {
				if err := k.Write(ctx, at("enabled"), setting.Text(v)); err != nil {
					t.Error(err)
				}
			}
			did := slices.DeleteFunc(p.Taken(), func(c string) bool { return c == "runlevel" })
			if d := cmp.Diff(c.want, did); d != "" {
				t.Error(d)
			}
		})
	}
}
