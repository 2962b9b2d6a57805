package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Kinds returns the setting kinds that this plug-in adds:
//
//	unit:NAME/active               "active" or "inactive"
//	unit:NAME/frozen               "frozen" or "running": whether systemd has stopped its processes
//	unit:NAME/enabled              "enabled", "disabled", "masked", or another word of systemctl is-enabled
//	unit:NAME/dropin/FILE          a drop-in of a systemd unit, which is reloaded
//	unit:NAME/dropin+restart/FILE  the same, and a running service is restarted with it
//	unit:NAME/LimitNOFILE          a limit of a service's processes, in a drop-in of fettle's own
func Kinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{"unit": unit{h}}
}

type unit struct{ host *host.Host }

// parts splits "NAME/aspect" or "NAME/dropin/FILE".
func parts(s setting.Setting) (name, aspect, file string, err error) {
	f := strings.Split(s.Name, "/")
	switch {
	case len(f) < 2 || !unitName().MatchString(f[0]):
	case len(f) == 2 && (f[1] == "active" || f[1] == "enabled" || f[1] == "frozen" || limits[f[1]] != ""):
		return f[0], f[1], "", nil
	case len(f) == 3 && (f[1] == "dropin" || f[1] == "dropin+restart") && f[2] != "" && f[2] != ".." && f[2] != ".":
		return f[0], f[1], f[2], nil
	}
	return "", "", "", fmt.Errorf("%s: want unit:NAME/active, unit:NAME/enabled, unit:NAME/frozen, unit:NAME/dropin/FILE or unit:NAME/LimitNOFILE (LimitNPROC, LimitMEMLOCK, LimitCORE)", s)
}

func dropInDir(name string) string { return "/etc/systemd/system/" + name + ".d" }

// Files returns the path of a drop-in's or limit's file.
func (unit) Files(s setting.Setting) []string {
	name, aspect, file, err := parts(s)
	if limits[aspect] != "" {
		file = limitFile
	}
	if err != nil || file == "" {
		return nil
	}
	return []string{path.Join(dropInDir(name), file)}
}

// Resolve replaces a unit's alias by its name (dbus-org.freedesktop.resolve1.service is a link to
// systemd-resolved.service).
func (k unit) Resolve(s setting.Setting) (setting.Setting, error) {
	name, aspect, file, err := parts(s)
	if err != nil {
		return setting.Setting{}, err
	}
	if initOf(k.host) == serviceSystemd {
		name = withSuffix(name)
		for _, dir := range []string{"/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/"} {
			if to, err := k.host.Files.Readlink(dir + name); err == nil && to != "/dev/null" {
				name = path.Base(to)
				break
			}
		}
	}
	s.Name = path.Join(name, aspect, file)
	return s, nil
}

func (k unit) Read(ctx context.Context, s setting.Setting) (setting.Value, error) {
	name, aspect, file, err := parts(s)
	if err != nil {
		return setting.Value{}, err
	}
	if file != "" {
		return setting.NewFile(k.host, setting.Restart).Read(ctx, dropInFile(name, file))
	}
	if limits[aspect] != "" {
		return k.readLimit(name, aspect)
	}
	h := initOf(k.host).handler(k.host)
	if h == nil {
		return setting.Value{}, host.NotRecorded(s.String() + ": services")
	}
	switch aspect {
	case "active":
		return h.active(ctx, name)
	case "frozen":
		return h.frozen(ctx, name)
	}
	return h.enabled(ctx, name)
}

func dropInFile(name, file string) setting.Setting {
	return setting.Setting{Kind: "file", Name: dropInDir(name) + "/" + file}
}

func (k unit) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	name, aspect, file, err := parts(s)
	if err != nil {
		return err
	}
	h := initOf(k.host).handler(k.host)
	if h == nil {
		return fmt.Errorf("%s: this machine runs no supported init system", s)
	}
	if limits[aspect] != "" {
		return k.writeLimit(ctx, name, aspect, v)
	}
	if file != "" {
		return k.writeDropIn(ctx, name, aspect, file, v)
	}
	if v.Absent {
		// The unit's file is about to be removed, so restore the state without it.
		v.Text = map[string]string{"active": "inactive", "enabled": "disabled"}[aspect]
	}
	switch v.Text {
	case "masked":
		if initOf(k.host) == serviceSystemd {
			return h.set(ctx, name, aspect, v.Text)
		}
	case "active", "inactive", "enabled", "disabled", "frozen", "running":
		return h.set(ctx, name, aspect, v.Text)
	}
	return fmt.Errorf("%s: %q cannot be written", s, v.Text)
}

func (k unit) writeDropIn(ctx context.Context, name, aspect, file string, v setting.Value) error {
	if err := k.host.Files.Mkdir(dropInDir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := setting.NewFile(k.host, setting.Restart).Write(ctx, dropInFile(name, file), v); err != nil {
		return err
	}
	if _, err := host.Run(ctx, k.host, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if aspect != "dropin+restart" {
		return nil
	}
	return tell(ctx, k.host, "systemctl", "try-restart", name)
}

// Effect reports whether a running service was started with its drop-in.
func (k unit) Effect(ctx context.Context, s setting.Setting, want setting.Value) (plugin.Verdict, string) {
	name, aspect, file, err := parts(s)
	if limits[aspect] != "" && !want.Absent {
		return k.limitEffect(ctx, name, aspect, want.Text)
	}
	if err != nil || file == "" {
		return plugin.OK, ""
	}
	p, err := systemdHandler{k.host}.show(ctx, name, "ActiveState", "ActiveEnterTimestamp")
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	if p["ActiveState"] != "active" {
		return plugin.OK, "in force after the next start of the service"
	}
	st, err := k.host.Files.Stat(dropInFile(name, file).Name)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	since, err := parseTimestamp(p["ActiveEnterTimestamp"])
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	// The timestamp is in whole seconds.
	if since.Before(st.ModTime().Truncate(1e9)) {
		return plugin.NeedsRestart, name + " was started before the drop-in was written; run systemctl restart " + name
	}
	return plugin.OK, ""
}

func (k unit) Equal(a, b setting.Value) bool {
	return setting.NewFile(k.host, setting.Restart).Equal(a, b)
}

func (unit) Coupled(setting.Setting) []setting.Setting { return nil }

// Lifetime returns File. A started service ends with the boot, but files decide whether it runs
// afterwards, so undo must read it.
func (unit) Lifetime() setting.Lifetime { return setting.File }
