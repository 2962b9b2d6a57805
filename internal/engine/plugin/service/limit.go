package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// A limit of a service (systemd.exec(5), "Process properties") is a line in fettle's own drop-in,
// which sorts after common names: 90-limits.conf, override.conf. If that file has no such line,
// the limit is absent, whatever other files set.

// limits maps the supported limits to the kernel's names (proc_pid_limits(5)).
var limits = map[string]string{
	"LimitNOFILE": "Max open files", "LimitNPROC": "Max processes", "LimitMEMLOCK": "Max locked memory", "LimitCORE": "Max core file size",
}

const (
	limitFile = "zz-fettle.conf"
	limitHead = "# Written by fettle; fettle undo removes it.\n"
	// limitDir is the file's second line if fettle also created the directory.
	limitDir = "# fettle also created the directory.\n"
)

var limitValue = text.LazyRegexp(`^(infinity|[0-9]{1,19}[KMGTPE]?)(:(infinity|[0-9]{1,19}[KMGTPE]?))?$`)

// readLimit returns the value in fettle's own line, or Absent.
func (k unit) readLimit(name, limit string) (setting.Value, error) {
	lines, err := k.limitLines(name)
	if err != nil {
		return setting.Value{}, err
	}
	for _, l := range slices.Backward(lines) {
		if v, ok := strings.CutPrefix(l, limit+"="); ok {
			return setting.Text(strings.TrimSuffix(v, "\n")), nil
		}
	}
	return setting.Absent, nil
}

// limitLines returns the lines of fettle's drop-in, or none if it does not exist.
func (k unit) limitLines(name string) ([]string, error) {
	b, err := k.host.Files.ReadFile(path.Join(dropInDir(name), limitFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.Collect(strings.Lines(string(b))), nil
}

// writeLimit sets or removes fettle's line. After the last line it removes the file, and the
// directory if fettle created it.
func (k unit) writeLimit(ctx context.Context, name, limit string, v setting.Value) error {
	dir := dropInDir(name)
	lines, err := k.limitLines(name)
	if err != nil {
		return err
	}
	if lines == nil {
		if v.Absent {
			return nil
		}
		lines = []string{limitHead}
		switch err := k.host.Files.Mkdir(dir, 0o755); {
		case err == nil:
			lines = append(lines, limitDir)
		case !errors.Is(err, fs.ErrExist):
			return err
		}
		lines = append(lines, "[Service]\n")
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, limit+"=") })
	if !v.Absent {
		lines = append(lines, limit+"="+v.Text+"\n")
	}
	file, text := dropInFile(name, limitFile), setting.Absent
	if slices.ContainsFunc(lines, func(l string) bool { return l != limitHead && l != limitDir && l != "[Service]\n" }) {
		text = setting.Text(strings.Join(lines, ""))
	}
	if err := setting.NewFile(k.host, setting.Restart).Write(ctx, file, text); err != nil {
		return err
	}
	if text.Absent && slices.Contains(lines, limitDir) {
		if err := (setting.Kernel(k.host)["dir"]).Write(ctx, setting.Setting{Kind: "dir", Name: dir}, setting.Absent); err != nil {
			return err
		}
	}
	if initOf(k.host) != serviceSystemd || !host.HasSystemd(k.host) {
		return nil
	}
	_, err = host.Run(ctx, k.host, "systemctl", "daemon-reload")
	return err
}

// mayLimit returns an error for a limit that users may not request, or nil.
func (k unit) mayLimit(s setting.Setting, name, limit string, want setting.Value) error {
	switch {
	case want.Absent:
		return nil
	case !limitValue().MatchString(want.Text):
		return fmt.Errorf("%s: %w: %q is not a limit: want N, SOFT:HARD or infinity", s, setting.ErrNotSettable, want.Text)
	case limit == "LimitNOFILE" && strings.Contains(want.Text, "infinity"):
		return fmt.Errorf("%s: %w: the kernel does not allow unlimited open files: want a number up to fs.nr_open", s, setting.ErrNotSettable)
	case path.Ext(name) != ".service":
		return fmt.Errorf("%s: %w: only services have process limits", s, setting.ErrNotSettable)
	case strings.HasPrefix(name, "systemd-") || strings.HasPrefix(name, "dbus"):
		return fmt.Errorf("%s: %w: restarting this service would disrupt the machine", s, setting.ErrNotSettable)
	}
	soft, hard, two := strings.Cut(want.Text, ":")
	if a, b := limitNumber(soft), limitNumber(hard); two && a > b {
		return fmt.Errorf("%s: %w: the soft limit %s is above the hard one %s", s, setting.ErrNotSettable, soft, hard)
	}
	if !k.host.Live || !host.HasSystemd(k.host) {
		return nil
	}
	out, err := host.Run(context.Background(), k.host, "systemctl", "show", "--property=LoadState,Type", "--", name)
	switch {
	case err != nil:
		return err
	case strings.Contains(out, "LoadState=not-found\n"):
		return fmt.Errorf("%s: %w: service %s not found on this machine", s, setting.ErrNotSettable, name)
	case strings.Contains(out, "Type=oneshot\n"):
		return fmt.Errorf("%s: %w: %s has no long-running process (Type=oneshot); find the right unit with systemctl status", s, setting.ErrNotSettable, name)
	}
	return nil
}

// limitNumber returns a limit as a number in the limit's own unit. infinity is 2^63.
func limitNumber(s string) float64 {
	if s == "infinity" {
		return 1 << 63
	}
	factor := 1.0
	if i := strings.IndexAny(s, "KMGTPE"); i >= 0 {
		for range strings.IndexByte("KMGTPE", s[i]) + 1 {
			factor *= 1024
		}
		s = s[:i]
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n * factor
}

// limitOf returns a process's hard limit as limitNumber does.
func (k unit) limitOf(pid int, limit string) (float64, error) {
	b, err := k.host.Files.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(strings.TrimPrefix(line, limits[limit])); strings.HasPrefix(line, limits[limit]+" ") && len(f) > 1 {
			if f[1] == "unlimited" {
				return limitNumber("infinity"), nil
			}
			return limitNumber(f[1]), nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/limits has no line %q", pid, limits[limit])
}

// limitEffect reports whether the running service has the limit.
func (k unit) limitEffect(ctx context.Context, name, limit, want string) (plugin.Verdict, string) {
	if !host.HasSystemd(k.host) {
		return plugin.OK, "in force after the next start of the service"
	}
	s, err := systemd.Show(ctx, k.host, name)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	if s.MainPID == 0 {
		return plugin.OK, "in force after the next start of the service"
	}
	runs, err := k.limitOf(s.MainPID, limit)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	_, hard, two := strings.Cut(want, ":")
	if !two {
		hard = want
	}
	if runs == limitNumber(hard) {
		return plugin.OK, ""
	}
	return k.otherLimit(ctx, name, limit, limitNumber(hard), runs)
}

// otherLimit returns why a service runs with a limit other than fettle's. A restart helps only a
// service that started before fettle's line was written.
func (k unit) otherLimit(ctx context.Context, name, limit string, want, runs float64) (plugin.Verdict, string) {
	p, err := systemdHandler{k.host}.show(ctx, name, limit, "NeedDaemonReload", "ExecMainStartTimestamp")
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	file := path.Join(dropInDir(name), limitFile)
	switch given := min(limitNumber(p[limit]), limitNumber("infinity")); { // old releases print infinity as 2^64-1
	case p["NeedDaemonReload"] == "yes":
		return plugin.NeedsRestart, "systemd has not loaded " + file + " yet: systemctl daemon-reload, then systemctl restart " + name
	case p[limit] != "" && given != want:
		return plugin.Overridden, fmt.Sprintf("a drop-in that systemd reads after %s overrides the limit with %s; see systemctl cat %s", limitFile, p[limit], name)
	}
	st, err := k.host.Files.Stat(file)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	since, err := parseTimestamp(p["ExecMainStartTimestamp"])
	switch {
	case err != nil:
		return plugin.Unknown, fmt.Sprintf("%s runs with %s=%s; unknown whether the service was started after %s was written: %v", name, limit, limitText(runs), file, err)
	case since.Before(st.ModTime().Truncate(time.Second)): // the timestamp is in whole seconds
		return plugin.NeedsRestart, fmt.Sprintf("%s runs with the limit %s until it is restarted", name, limitText(runs))
	}
	why := fmt.Sprintf("%s was started after %s was written, but its start script sets its own limit, %s; see ExecStart= in systemctl cat %s", name, file, limitText(runs), name)
	if limit == "LimitNOFILE" && strings.HasPrefix(name, "apache2") {
		why += "; Debian's apachectl uses APACHE_ULIMIT_MAX_FILES in /etc/apache2/envvars, default 8192"
	}
	return plugin.Overridden, why
}

// limitText is the inverse of limitNumber.
func limitText(n float64) string {
	if n == limitNumber("infinity") {
		return "infinity"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// Activation implements setting.Activator: a service gets its limits only at its start. For a
// drop-in, the aspect decides whether the service is restarted.
func (k unit) Activation(ctx context.Context, s setting.Setting) (setting.Activation, bool) {
	name, aspect, _, err := parts(s)
	if err != nil || limits[aspect] == "" || !k.host.Live || !host.HasSystemd(k.host) {
		return setting.Activation{}, false
	}
	now, err := systemd.Show(ctx, k.host, name)
	if err != nil || now.MainPID == 0 || now.Active == "deactivating" || now.Load != "loaded" {
		return setting.Activation{}, false
	}
	return setting.Activation{Program: name, Restart: true}, true
}

// The time limit for a service's start, and the time that a service without readiness notification
// must stay running.
const (
	limitPatience = 5 * time.Minute
	limitStays    = time.Second
)

// Activate implements setting.Activator: it restarts the service, and waits until the service runs
// and stays running.
func (k unit) Activate(ctx context.Context, a setting.Activation) error {
	ctx, cancel := context.WithTimeout(ctx, limitPatience)
	defer cancel()
	began := k.host.Clock.Now()
	before, err := systemd.Show(ctx, k.host, a.Program)
	if err != nil {
		return err
	}
	if before.Load != "loaded" && before.MainPID == 0 {
		return nil // cannot be started
	}
	if err := systemd.RunJob(ctx, k.host, "restart", a.Program, limitPatience, nil); err != nil {
		return err
	}
	seen, since := 0, began
	for {
		s, err := systemd.Show(ctx, k.host, a.Program)
		now := k.host.Clock.Now()
		switch {
		case err != nil:
			return err
		case s.Active != "active" || s.MainPID == 0 || s.MainPID != seen:
			seen, since = s.MainPID, now
		case now.Sub(since) >= limitStays:
			return nil
		}
		if err := systemd.FailureOf(ctx, k.host, a.Program, began, nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not active after %v; see systemctl status %s", a.Program, limitPatience, a.Program)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// CheckRequest implements setting.RequestChecker.
func (k unit) CheckRequest(s setting.Setting, want setting.Value, _ []string) error {
	name, aspect, _, err := parts(s)
	if err != nil || limits[aspect] == "" {
		return err
	}
	return k.mayLimit(s, name, aspect, want)
}
