package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

type initSystem string

const (
	serviceSystemd initSystem = "systemd"
	openRC         initSystem = "OpenRC"
	sysV           initSystem = "System V init"
	noneSeen       initSystem = ""
)

// initOf returns the machine's init system, by directories in /run and /etc. It runs no programs.
func initOf(h *host.Host) initSystem {
	switch {
	case host.HasSystemd(h):
		return serviceSystemd
	case plugin.IsDir(h, "/run/openrc"):
		return openRC
	case plugin.IsDir(h, "/etc/init.d") && h.Live:
		return sysV
	case plugin.IsDir(h, "/etc/systemd/system"):
		return serviceSystemd // a copied machine without /run
	}
	return noneSeen
}

// handler queries and changes services of one init system.
type handler interface {
	active(ctx context.Context, name string) (setting.Value, error)
	enabled(ctx context.Context, name string) (setting.Value, error)
	frozen(ctx context.Context, name string) (setting.Value, error)
	set(ctx context.Context, name, aspect, value string) error
}

func (i initSystem) handler(h *host.Host) handler {
	switch i {
	case serviceSystemd:
		return systemdHandler{h}
	case openRC:
		return openRCHandler{h}
	case sysV:
		return sysVHandler{h}
	}
	return nil
}

// systemdHandler uses systemctl(1), whose property output is a stable interface.
type systemdHandler struct{ host *host.Host }

func (k systemdHandler) show(ctx context.Context, name string, properties ...string) (map[string]string, error) {
	out, err := host.Run(ctx, k.host, "systemctl", "show", "--property="+strings.Join(properties, ","), "--", name)
	if err != nil {
		return nil, err
	}
	p := map[string]string{}
	for line := range strings.Lines(out) {
		if key, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			p[key] = v
		}
	}
	return p, nil
}

func (k systemdHandler) active(ctx context.Context, name string) (setting.Value, error) {
	p, err := k.show(ctx, name, "LoadState", "ActiveState")
	if err != nil {
		return setting.Value{}, err
	}
	switch p["ActiveState"] {
	case "active", "reloading", "activating":
		return setting.Text("active"), nil
	case "":
		return setting.Value{}, fmt.Errorf("systemctl show %s: no ActiveState", name)
	}
	if p["LoadState"] == "not-found" {
		return setting.Absent, nil
	}
	return setting.Text("inactive"), nil
}

func (k systemdHandler) enabled(ctx context.Context, name string) (setting.Value, error) {
	p, err := k.show(ctx, name, "LoadState", "UnitFileState", "FragmentPath")
	if err != nil {
		return setting.Value{}, err
	}
	// systemd keeps a running unit after its file is removed, but cannot enable or disable it.
	_, errFile := k.host.Files.Stat(p["FragmentPath"])
	switch {
	case p["LoadState"] == "not-found", p["FragmentPath"] != "" && errors.Is(errFile, fs.ErrNotExist):
		return setting.Absent, nil
	case p["UnitFileState"] == "":
		return setting.Text("without a unit file"), nil
	}
	return setting.Text(p["UnitFileState"]), nil
}

// frozen reads the state of the freezer (systemctl freeze, since systemd 246).
func (k systemdHandler) frozen(ctx context.Context, name string) (setting.Value, error) {
	p, err := k.show(ctx, name, "LoadState", "FreezerState")
	switch {
	case err != nil:
		return setting.Value{}, err
	case p["LoadState"] == "not-found":
		return setting.Absent, nil
	case p["FreezerState"] == "":
		return setting.Value{}, errors.New("systemd cannot freeze units: needs version 246 or later")
	case p["FreezerState"] == "frozen", p["FreezerState"] == "freezing":
		return setting.Text("frozen"), nil
	}
	return setting.Text("running"), nil
}

// errFreezer is the error of init systems that cannot freeze services.
var errFreezer = errors.New("only systemd can freeze a service")

func (openRCHandler) frozen(context.Context, string) (setting.Value, error) {
	return setting.Value{}, errFreezer
}

func (sysVHandler) frozen(context.Context, string) (setting.Value, error) {
	return setting.Value{}, errFreezer
}

func (k systemdHandler) set(ctx context.Context, name, aspect, value string) error {
	verb := map[string]string{"frozen": "freeze", "running": "thaw", "active": "start", "inactive": "stop", "enabled": "enable", "disabled": "disable", "masked": "mask"}[value]
	if aspect == "enabled" && verb != "mask" {
		if now, err := k.enabled(ctx, name); err == nil && now.Text == "masked" { // a link to /dev/null hides the unit's file
			if err := tell(ctx, k.host, "systemctl", "unmask", "--", name); err != nil {
				return err
			}
		}
	}
	return tell(ctx, k.host, "systemctl", verb, "--", name)
}

// parseTimestamp parses systemctl show's format, such as "Sat 2026-11-21 16:01:17 UTC".
func parseTimestamp(text string) (time.Time, error) {
	t, err := time.ParseInLocation("Mon 2006-01-02 15:04:05 MST", text, time.Local)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time from systemd %q: %w", text, err)
	}
	return t, nil
}

// openRCHandler is for OpenRC, where a service in a runlevel is a link in /etc/runlevels/LEVEL.
type openRCHandler struct{ host *host.Host }

func (k openRCHandler) known(name string) bool {
	_, err := k.host.Files.Stat("/etc/init.d/" + name)
	return err == nil
}

func (k openRCHandler) active(ctx context.Context, name string) (setting.Value, error) {
	return statusOf(ctx, k.host, k.known(name), "rc-service", name, "status")
}

func (k openRCHandler) level() (string, error) {
	b, err := k.host.Files.ReadFile("/run/openrc/softlevel")
	return strings.TrimSpace(string(b)), err
}

func (k openRCHandler) enabled(_ context.Context, name string) (setting.Value, error) {
	level, err := k.level()
	if err != nil {
		return setting.Value{}, err
	}
	if !k.known(name) {
		return setting.Absent, nil
	}
	_, err = k.host.Files.Lstat("/etc/runlevels/" + level + "/" + name)
	return enabledIf(err)
}

func (k openRCHandler) set(ctx context.Context, name, _ string, value string) error {
	level, err := k.level()
	if err != nil {
		return err
	}
	argv := map[string][]string{
		"active": {"rc-service", name, "start"}, "inactive": {"rc-service", name, "stop"},
		"enabled": {"rc-update", "add", name, level}, "disabled": {"rc-update", "del", name, level},
	}[value]
	return tell(ctx, k.host, argv...)
}

// sysVHandler is for System V init, where a service in a runlevel is a link S??NAME in the
// runlevel's rc directory.
type sysVHandler struct{ host *host.Host }

func (k sysVHandler) known(name string) bool { return openRCHandler(k).known(name) }

func (k sysVHandler) active(ctx context.Context, name string) (setting.Value, error) {
	return statusOf(ctx, k.host, k.known(name), "service", name, "status")
}

// level returns the current runlevel, the second word that runlevel(8) prints.
func (k sysVHandler) level(ctx context.Context) (string, error) {
	out, err := host.Run(ctx, k.host, "runlevel")
	if err != nil {
		return "", err
	}
	f := strings.Fields(out)
	if len(f) != 2 || len(f[1]) != 1 {
		return "", fmt.Errorf("current runlevel unknown: runlevel printed %q", strings.TrimSpace(out))
	}
	return f[1], nil
}

func (k sysVHandler) enabled(ctx context.Context, name string) (setting.Value, error) {
	if !k.known(name) {
		return setting.Absent, nil
	}
	level, err := k.level(ctx)
	if err != nil {
		return setting.Value{}, err
	}
	err = fs.ErrNotExist
	for _, dir := range []string{"/etc/rc" + level + ".d", "/etc/rc.d/rc" + level + ".d"} {
		if links, _ := host.Glob(k.host.Files, dir+"/S[0-9][0-9]"+name); len(links) > 0 {
			err = nil
		}
	}
	return enabledIf(err)
}

func (k sysVHandler) set(ctx context.Context, name, aspect, value string) error {
	if aspect == "active" {
		verb := map[string]string{"active": "start", "inactive": "stop"}[value]
		return tell(ctx, k.host, "service", name, verb)
	}
	level, err := k.level(ctx)
	if err != nil {
		return err
	}
	onOff := map[string]string{"enabled": "on", "disabled": "off"}[value]
	verb := map[string]string{"enabled": "enable", "disabled": "disable"}[value]
	for _, argv := range [][]string{
		{"chkconfig", "--level", level, name, onOff},    // Red Hat, SUSE
		{"update-rc.d", name, verb, level},              // Debian
		{"sysv-rc-conf", "--level", level, name, onOff}, // older Debian
	} {
		if host.HasProgram(k.host, argv[0]) {
			return tell(ctx, k.host, argv...)
		}
	}
	return errors.New("none of chkconfig, update-rc.d or sysv-rc-conf is installed")
}

// tell runs a program that changes a service. Its time limit is long, because some services need
// minutes to start and init systems have limits of their own (systemd's is 90 s each way).
func tell(ctx context.Context, h *host.Host, argv ...string) error {
	_, err := host.RunCommand(ctx, h, host.Command{Argv: argv, Timeout: 5 * time.Minute})
	return err
}

// statusOf runs an init script's status. By LSB exit code 0 means running, 1 to 3 not running.
func statusOf(ctx context.Context, h *host.Host, known bool, argv ...string) (setting.Value, error) {
	if !known {
		return setting.Absent, nil
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: argv})
	if err != nil {
		return setting.Value{}, err
	}
	if res.ExitCode == 0 {
		return setting.Text("active"), nil
	}
	return setting.Text("inactive"), nil
}

func enabledIf(err error) (setting.Value, error) {
	switch {
	case err == nil:
		return setting.Text("enabled"), nil
	case errors.Is(err, fs.ErrNotExist):
		return setting.Text("disabled"), nil
	}
	return setting.Value{}, err
}
