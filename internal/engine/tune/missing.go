package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// maxNames is the maximum number of kernel variables searched for a suggestion.
const maxNames = 50_000

// Missing returns the error for a kernel variable that this machine lacks, with a suggestion. It
// returns nil for settings that may be absent, such as files.
func (m *Machine) Missing(ctx context.Context, s setting.Setting) error {
	var near string
	h := m.Host
	switch s.Kind {
	case "sysctl":
		if near = m.asOption(ctx, s.Name); near == "" {
			near = nearSysctl(h, s.Name)
		}
	case "sysfs":
		near = nearAttribute(h, s.Name)
	default:
		return nil
	}
	name := s.String()
	if s.Kind == "sysfs" {
		name = s.Name
	}
	hint := "fettle facts --details lists what fettle reads from it"
	switch {
	case near != "":
		hint = ""
	case h.Live && s.Kind == "sysctl":
		hint = "sysctl -N -a lists all names"
	}
	return ui.Hinted(ui.Failed, errors.New(h.Name+" has no "+name+near), hint)
}

// asOption returns a hint that name is a plug-in's option, with the setting that it changes on this
// machine. It returns "" if no plug-in has such an option.
func (m *Machine) asOption(ctx context.Context, name string) string {
	for i := range m.Plugins {
		p := &m.Plugins[i]
		for _, o := range p.Options {
			if o.Name == name && !o.Control {
				at := ""
				if s, ok := m.placeOf(ctx, p, o); ok {
					at = fmt.Sprintf(" and sets %s on this machine", SettingWords(s))
				}
				return fmt.Sprintf("; %q is an option of the plug-in %s%s", name, p.Name, at)
			}
		}
	}
	return ""
}

// placeOf returns the first setting that an option of a plug-in sets.
func (m *Machine) placeOf(ctx context.Context, p *plugin.Plugin, o plugin.Option) (setting.Setting, bool) {
	device, devices := "", []string(nil)
	if o.PerDevice && p.Devices != nil {
		var err error
		if devices, err = p.Devices(ctx, m.Host); err != nil || len(devices) == 0 {
			return setting.Setting{}, false
		}
		device = devices[0]
	}
	value := profile.Option{Name: o.Name, Value: cmp.Or(o.Default, "1")}
	r := &plugin.Request{
		Host: m.Host, Kinds: m.Kinds, Devices: devices, ProfileDirs: m.Loader.Dirs,
		Unit:     profile.Unit{Name: p.Name, Type: p.Name, Options: []profile.Option{value}},
		Original: func(s setting.Setting) (setting.Value, error) { return m.Kinds.Read(ctx, s) },
	}
	items, err := o.Plan(ctx, r, value, device)
	if err != nil || len(items) == 0 {
		return setting.Setting{}, false
	}
	// Suggest only settings that the command line accepts.
	s, err := m.Kinds.Resolve(items[0].Change.Setting)
	return s, err == nil
}

// nearSysctl suggests a sysctl: the most similar name, or the only one that ends in name's last
// word.
func nearSysctl(h *host.Host, name string) string {
	var names []string
	walkNames(h, "/proc/sys", func(p string) { names = append(names, setting.SysctlName(p)) })
	if near := text.Suggest(name, names); near != "" {
		return near
	}
	last := name[strings.LastIndexAny(name, "./")+1:]
	var found []string
	for _, n := range names {
		if strings.HasSuffix(n, "."+last) {
			found = append(found, n)
		}
	}
	if len(found) == 1 {
		return fmt.Sprintf(" (did you mean %q?)", found[0])
	}
	return ""
}

// nearAttribute suggests a path below /sys. It compares the path's first missing part with
// existing siblings.
func nearAttribute(h *host.Host, p string) string {
	dir, rest := "/sys", strings.TrimPrefix(p, "/sys/")
	for {
		part, more, _ := strings.Cut(rest, "/")
		next := path.Join(dir, part)
		if _, err := h.Files.Stat(next); err == nil && more != "" {
			dir, rest = next, more
			continue
		}
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			return ""
		}
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = path.Join(dir, e.Name(), more)
		}
		return text.Suggest(path.Join(next, more), names)
	}
}

// walkNames calls f with every file below a directory, without following links.
func walkNames(h *host.Host, root string, f func(string)) {
	pending, seen := []string{root}, 0
	for len(pending) > 0 && seen < maxNames {
		dir := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			continue // removed meanwhile, or unreadable
		}
		seen += len(entries)
		for _, e := range entries {
			if p := path.Join(dir, e.Name()); e.IsDir() {
				pending = append(pending, p)
			} else {
				f(p)
			}
		}
	}
}
