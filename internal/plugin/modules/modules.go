// Package modules is the plug-in for options of kernel modules: a line in
// /etc/modprobe.d, and the module loaded (again) where the profile wants that.
package modules

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/lazyregexp"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
)

// Plugin turns [modules] sections into changes.
var Plugin = plugin.Plugin{
	Name: "modules",
	Doc:  "sets options of kernel modules in " + confFile + "; +r loads the module (again) at once",
	Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{
			Name: name,
			Doc:  "MODULE=[+r[,] ]OPTION=VALUE ...: the module's options (modprobe.d(5)); +r loads it now, again if it is loaded",
			Plan: plan,
		}, true
	},
}

// confFile is fettle's own file: TuneD empties its tuned.conf whenever it
// starts. modprobe joins the options of all files by name, and the last of two
// values holds: Debian's systemd.conf has "options dummy numdummies=0".
const confFile = "/etc/modprobe.d/zz-fettle.conf"

var (
	moduleName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)
	reload     = lazyregexp.New(`^\s*\+r\s*,?\s*`)
)

func plan(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	name := o.Name
	if o.ExpandedName != "" {
		name = o.ExpandedName
	}
	if !moduleName().MatchString(name) {
		return nil, plugin.Invalid("%q is not the name of a kernel module", name)
	}
	name = canonical(name)
	again := reload().MatchString(o.Value)
	opts := strings.Join(strings.Fields(reload().ReplaceAllString(o.Value, "")), " ")
	line := setting.Setting{Kind: "modprobe", Name: name}
	switch kernelHas(r.Host, name) {
	case nowhere:
		return []plugin.Item{plugin.Refuse(line, o, plugin.Unsupported, "this kernel has no module %s", name)}, nil
	case builtin:
		if differ := differing(r.Host, name, opts); len(differ) > 0 {
			return []plugin.Item{plugin.Refuse(line, o, plugin.Unsupported,
				"%s is built into this kernel: modprobe.d does not reach it; put %s.%s on the kernel command line",
				name, name, strings.Join(differ, " "+name+"."))}, nil
		}
		it := plugin.Refuse(line, o, plugin.OK, "built into this kernel, with these options")
		return []plugin.Item{it}, nil
	}
	var items []plugin.Item
	if opts != "" {
		if st, err := r.Host.Files.Stat(path.Dir(confFile)); err != nil || !st.IsDir() {
			items = append(items, plugin.Want(setting.Setting{Kind: "dir", Name: path.Dir(confFile)}, "directory", o))
		}
		text := opts
		if again {
			text = "+r " + opts
		}
		items = append(items, plugin.Want(line, text, o))
	}
	if again {
		items = append(items, plugin.Want(setting.Setting{Kind: "module", Name: name}, strings.TrimSpace("loaded "+opts), o))
	}
	if len(items) == 0 {
		// TuneD writes nothing here either, but verifies that it is loaded.
		it := plugin.Refuse(setting.Setting{Kind: "module", Name: name}, o, plugin.OK, "loaded")
		if state(r.Host, name) == "unloaded" {
			it.Verdict, it.Why = plugin.Drifted, "not loaded, and without +r nothing loads it"
		}
		items = append(items, it)
	}
	return items, nil
}

// canonical spells a module's name as the kernel does: modprobe takes "-" and
// "_" for the same.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

type presence int

const (
	unsure presence = iota // no list of modules to look into
	nowhere
	loadable
	builtin
)

// kernelHas looks into the lists that depmod(8) makes, and into /sys/module.
func kernelHas(h *host.Host, name string) presence {
	dir := "/sys/module/" + name
	if _, err := h.Files.Stat(dir); err == nil {
		if _, err := h.Files.Stat(dir + "/initstate"); err != nil {
			return builtin
		}
		return loadable
	}
	release, err := h.Files.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return unsure
	}
	lib := "/lib/modules/" + strings.TrimSpace(string(release)) + "/"
	// A built-in module without parameters has no directory below /sys/module.
	if list, err := h.Files.ReadFile(lib + "modules.builtin"); err == nil && lists(list, name) {
		return builtin
	}
	dep, err := h.Files.ReadFile(lib + "modules.dep")
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrNotRecorded) {
		return nowhere // modprobe(8) finds none without it
	}
	if err != nil {
		return unsure
	}
	if lists(dep, name) {
		return loadable
	}
	alias, _ := h.Files.ReadFile(lib + "modules.alias")
	for line := range strings.Lines(string(alias)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" && canonical(f[1]) == name {
			return loadable
		}
	}
	return nowhere
}

// lists reports whether a list of module files has a module: modules.dep with what
// each needs after a colon, or modules.builtin.
func lists(files []byte, name string) bool {
	for line := range strings.Lines(string(files)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base, _, _ := strings.Cut(path.Base(file), ".ko")
		if canonical(base) == name {
			return true
		}
	}
	return false
}

// differing are the options that the running module shows with other values.
// What it does not show (a parameter with permission 0) is not listed.
func differing(h *host.Host, name, opts string) []string {
	var out []string
	for _, opt := range strings.Fields(opts) {
		key, want, ok := strings.Cut(opt, "=")
		if !ok || strings.Contains(key, "/") {
			continue
		}
		b, err := h.Files.ReadFile("/sys/module/" + name + "/parameters/" + canonical(key))
		if err != nil {
			continue
		}
		if !equalParameter(strings.TrimSpace(string(b)), unquote(want)) {
			out = append(out, opt)
		}
	}
	return out
}
