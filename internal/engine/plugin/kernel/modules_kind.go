package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// ModulesKinds returns the setting kinds that this plug-in adds:
//
//	modprobe:MODULE  its options in /etc/modprobe.d/zz-fettle.conf; "+r " before
//	                 them loads the module again when the line changes
//	module:MODULE    "unloaded", "builtin", or "loaded" and the parameters that
//	                 the kernel shows
func ModulesKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{"modprobe": options{h}, "module": module{h}}
}

func (options) Files(setting.Setting) []string { return []string{confFile} }

type options struct{ host *host.Host }

func (options) Resolve(s setting.Setting) (setting.Setting, error) { return resolve(s) }

func resolve(s setting.Setting) (setting.Setting, error) {
	if !moduleName().MatchString(s.Name) {
		return setting.Setting{}, fmt.Errorf("%s: not a kernel module name", s)
	}
	s.Name = canonical(s.Name)
	return s, nil
}

func (k options) text() (string, bool, error) {
	b, err := k.host.Files.ReadFile(confFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(b), err == nil, err
}

func (k options) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	text, _, err := k.text()
	if err != nil {
		return setting.Value{}, err
	}
	if opts, ok := lineOf(text, s.Name); ok {
		return setting.Text(opts), nil
	}
	return setting.Absent, nil
}

func (k options) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	text, there, err := k.text()
	if err != nil {
		return err
	}
	again := reload().MatchString(v.Text)
	if v.Absent {
		text = dropLine(text, s.Name)
	} else {
		opts := reload().ReplaceAllString(v.Text, "")
		if strings.ContainsAny(opts, "\n\\#") || strings.TrimSpace(opts) == "" {
			return fmt.Errorf("%s: %q cannot be written as module options", s, opts)
		}
		text = setLine(text, s.Name, opts)
	}
	switch {
	case text == "" && !there:
		return nil
	case text == "":
		err = k.host.Files.Remove(confFile)
	default:
		attr := host.Attr{Mode: 0o644}
		if st, serr := k.host.Files.Stat(confFile); serr == nil {
			attr = host.AttrOf(st)
		}
		err = k.host.Files.Replace(confFile, []byte(text), attr)
	}
	if err != nil || !again {
		return err
	}
	// Reload the module here too, because the kernel does not show every parameter. module:NAME
	// shows whether that succeeded.
	_ = load(ctx, k.host, s.Name, "")
	return nil
}

// Effect reports whether the loaded module's parameters have the options' values.
func (k options) Effect(_ context.Context, s setting.Setting, want setting.Value) (plugin.Verdict, string) {
	now, err := state(k.host, s.Name)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	if now == "unloaded" {
		return plugin.NeedsRestart, "module not loaded; the options take effect when it is loaded"
	}
	if differ, _ := differing(k.host, s.Name, reload().ReplaceAllString(want.Text, "")); len(differ) > 0 {
		return plugin.NeedsReboot, "loaded without " + strings.Join(differ, " ") + "; takes effect when the module is loaded again"
	}
	return plugin.OK, ""
}

func (options) Equal(a, b setting.Value) bool {
	strip := func(v setting.Value) string {
		return strings.Join(strings.Fields(reload().ReplaceAllString(v.Text, "")), " ")
	}
	return strip(a) == strip(b)
}

func (options) Coupled(setting.Setting) []setting.Setting { return nil }
func (options) Lifetime() setting.Lifetime                { return setting.Reboot }

const header = "# Options of kernel modules from the active profile; fettle undo removes them.\n"

// lineOf returns the options in a module's line, and false if the text has no such line.
func lineOf(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if opts, ok := optionsLine(line, name); ok {
			return opts, true
		}
	}
	return "", false
}

func optionsLine(line, name string) (string, bool) {
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != "options" || canonical(f[1]) != name {
		return "", false
	}
	return strings.Join(f[2:], " "), true
}

// setLine sets a module's options in the text. It replaces an existing line.
func setLine(text, name, opts string) string {
	line := "options " + name + " " + opts + "\n"
	var out strings.Builder
	done := false
	for l := range strings.Lines(text) {
		if _, ok := optionsLine(l, name); ok {
			if done {
				continue
			}
			l, done = line, true
		}
		out.WriteString(l)
	}
	if done {
		return out.String()
	}
	switch {
	case text == "":
		return header + line
	case !strings.HasSuffix(text, "\n"):
		// If the text lacked a final line feed, it still does: removing the line then restores the
		// same bytes.
		return text + "\n" + strings.TrimSuffix(line, "\n")
	}
	return text + line
}

// dropLine removes a module's options. Without other lines the text becomes "".
func dropLine(text, name string) string {
	var kept []string
	dropped, last := false, false
	for l := range strings.Lines(text) {
		if _, ok := optionsLine(l, name); ok {
			dropped, last = true, !strings.HasSuffix(l, "\n")
			continue
		}
		kept = append(kept, l)
	}
	if !dropped {
		return text
	}
	out := strings.Join(kept, "")
	if last {
		out = strings.TrimSuffix(out, "\n")
	}
	if out == header || out == strings.TrimSuffix(header, "\n") {
		return ""
	}
	return out
}

// module is the setting kind of loaded modules. The value is from /sys/module.
type module struct{ host *host.Host }

func (module) Resolve(s setting.Setting) (setting.Setting, error) { return resolve(s) }

func (k module) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	if _, err := k.host.Files.Stat("/sys/module"); err != nil {
		return setting.Value{}, err
	}
	now, err := state(k.host, s.Name)
	return setting.Text(now), err
}

// state returns the state of a module according to /sys/module.
func state(h *host.Host, name string) (string, error) {
	dir := "/sys/module/" + name
	switch _, err := h.Files.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "unloaded", nil
	case err != nil:
		return "", err
	}
	switch _, err := h.Files.Stat(dir + "/initstate"); {
	case errors.Is(err, fs.ErrNotExist):
		return "builtin", nil
	case err != nil:
		return "", err
	}
	out := []string{"loaded"}
	entries, _ := h.Files.ReadDir(dir + "/parameters")
	for _, e := range entries {
		b, err := h.Files.ReadFile(dir + "/parameters/" + e.Name())
		if err != nil {
			continue // write-only parameter
		}
		v := strings.TrimSuffix(string(b), "\n")
		if v == "(null)" || v == "" || strings.ContainsAny(v, " \t\n\"") {
			continue // not set, or not accepted by modprobe
		}
		out = append(out, e.Name()+"="+v)
	}
	sort.Strings(out[1:])
	return strings.Join(out, " "), nil
}

func (k module) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	now, err := state(k.host, s.Name)
	if err != nil {
		return err
	}
	switch word, params, _ := strings.Cut(v.Text, " "); {
	case word == "unloaded" && now == "builtin":
		return fmt.Errorf("%s is built into the kernel and cannot be removed", s.Name)
	case word == "unloaded" && now == "unloaded":
		return nil
	case word == "unloaded":
		_, err := host.Run(ctx, k.host, "modprobe", "-r", s.Name)
		return err
	case word == "loaded":
		return load(ctx, k.host, s.Name, params)
	}
	return fmt.Errorf("%s: want \"loaded\" or \"unloaded\", not %q", s, v.Text)
}

// load loads a module; it first unloads a loaded one. The given parameters come after those of
// modprobe.d, so they win.
func load(ctx context.Context, h *host.Host, name, params string) error {
	now, err := state(h, name)
	if err != nil {
		return err
	}
	if now != "unloaded" {
		if _, err := host.Run(ctx, h, "modprobe", "-r", name); err != nil {
			return fmt.Errorf("module in use, cannot be reloaded; takes effect at the next boot: %w", err)
		}
	}
	argv := append([]string{"modprobe", name}, strings.Fields(params)...)
	_, err = host.Run(ctx, h, argv...)
	if err != nil && params != "" {
		// Rather load the module without its parameters than not at all.
		if _, plain := host.Run(ctx, h, "modprobe", name); plain != nil {
			return plain
		}
	}
	return err
}

// Equal compares the parameters that both values have: a profile names a few, the kernel shows
// most.
func (module) Equal(a, b setting.Value) bool {
	wa, pa := parameters(a.Text)
	wb, pb := parameters(b.Text)
	if wa == "builtin" || wb == "builtin" {
		return wa != "unloaded" && wb != "unloaded"
	}
	if wa != wb {
		return false
	}
	for k, v := range pa {
		if w, ok := pb[k]; ok && !equalParameter(v, w) {
			return false
		}
	}
	return true
}

func parameters(text string) (word string, p map[string]string) {
	word, rest, _ := strings.Cut(text, " ")
	p = map[string]string{}
	for _, f := range strings.Fields(rest) {
		if k, v, ok := strings.Cut(f, "="); ok {
			p[canonical(k)] = unquote(v)
		}
	}
	return word, p
}

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// equalParameter compares parameters in every spelling that the kernel accepts or prints
// (kernel/params.c: bool prints Y and N, numbers have any C base).
func equalParameter(a, b string) bool {
	if a == b {
		return true
	}
	if x, err := strconv.ParseInt(a, 0, 64); err == nil {
		if y, err := strconv.ParseInt(b, 0, 64); err == nil {
			return x == y
		}
	}
	truth := func(s string) string {
		switch strings.ToLower(s) {
		case "y", "1", "yes", "on", "true":
			return "Y"
		case "n", "0", "no", "off", "false":
			return "N"
		}
		return s
	}
	return truth(a) == truth(b)
}

func (module) Coupled(setting.Setting) []setting.Setting { return nil }
func (module) Lifetime() setting.Lifetime                { return setting.Runtime }
