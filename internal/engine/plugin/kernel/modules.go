// modules is the plug-in for options of kernel modules. It writes a line in /etc/modprobe.d, and
// loads or reloads the module if the profile requests that.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Modules turns [modules] sections into changes.
var Modules = plugin.Plugin{
	Name: "modules",
	Doc:  "sets options of kernel modules in " + confFile + "; +r loads or reloads the module at once",
	Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{
			Name: name,
			Doc:  "MODULE=[+r[,] ]OPTION=VALUE ...: the module's options (modprobe.d(5)); +r loads or reloads the module now",
			Plan: planModules,
		}, true
	},
}

// confFile is fettle's own file, because TuneD empties its tuned.conf at each start. modprobe
// joins the options of all files sorted by name, and the last of two values wins: Debian's
// systemd.conf has "options dummy numdummies=0".
const confFile = "/etc/modprobe.d/zz-fettle.conf"

var (
	moduleName = text.LazyRegexp(`^[A-Za-z0-9_-]+$`)
	reload     = text.LazyRegexp(`^\s*\+r\s*,?\s*`)
)

func planModules(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
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
	case unlisted:
		return []plugin.Item{plugin.Refuse(line, o, plugin.Unknown, "unknown whether this kernel has the module %s: the copy lacks module lists", name)}, nil
	case nowhere:
		return []plugin.Item{plugin.Refuse(line, o, plugin.Unsupported, "this kernel has no module %s", name)}, nil
	case builtin:
		verdict, why := compiledIn(r.Host, name, opts)
		return []plugin.Item{plugin.Refuse(line, o, verdict, "%s", why)}, nil
	}
	var items []plugin.Item
	if opts != "" {
		items = plugin.WantDir(r.Host, path.Dir(confFile), o)
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
		// TuneD does not write here either, but verifies that the module is loaded.
		it := plugin.Refuse(setting.Setting{Kind: "module", Name: name}, o, plugin.OK, "loaded")
		switch now, err := state(r.Host, name); {
		case err != nil:
			it.Verdict, it.Why = plugin.Unknown, host.NotRecorded("whether it is loaded").Error()
		case now == "unloaded":
			it.Verdict, it.Why = plugin.Drifted, "not loaded, and fettle loads it only with +r"
		}
		items = append(items, it)
	}
	return items, nil
}

// compiledIn returns the verdict for options of a built-in module, which only the kernel command
// line can set.
func compiledIn(h *host.Host, name, opts string) (plugin.Verdict, string) {
	if opts == "" {
		return plugin.OK, "built into this kernel"
	}
	differ, hidden := differing(h, name, opts)
	line, err := h.Files.ReadFile("/proc/cmdline")
	for _, opt := range hidden {
		if err == nil && !onCommandLine(string(line), name, opt) {
			differ = append(differ, opt)
		}
	}
	switch {
	case len(differ) > 0:
		return plugin.Unsupported, fmt.Sprintf("%s is built into this kernel, so modprobe.d has no effect; put %s.%s on the kernel command line",
			name, name, strings.Join(differ, " "+name+"."))
	case err != nil && len(hidden) > 0:
		return plugin.Unknown, fmt.Sprintf("%s is built into this kernel; its option %s is not shown, and /proc/cmdline cannot be read", name, strings.Join(hidden, " "))
	case len(hidden) > 0:
		return plugin.OK, "built into this kernel, with these options on its command line"
	}
	return plugin.OK, "built into this kernel, with these options"
}

// onCommandLine reports whether the last NAME.OPTION on the kernel command line has the value in
// opt (kernel/params.c parse_args; "-" and "_" are equal).
func onCommandLine(line, name, opt string) bool {
	wantKey, want, _ := strings.Cut(opt, "=")
	found := false
	for _, word := range strings.Fields(line) {
		if word == "--" {
			break // the rest is for init
		}
		key, value, _ := strings.Cut(word, "=")
		if canonical(key) == canonical(name+"."+wantKey) {
			found = equalParameter(unquote(value), unquote(want))
		}
	}
	return found
}

// canonical returns the kernel's form of a module name, with "_" for "-".
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

type presence int

const (
	unsure presence = iota // no list of modules
	nowhere
	loadable
	builtin
	unlisted // not in the copy's lists, but some lists are missing
)

// kernelHas searches for a module in depmod(8)'s lists and in /sys/module.
func kernelHas(h *host.Host, name string) presence {
	dir := "/sys/module/" + name
	if _, err := h.Files.Stat(dir); err == nil {
		if _, err := h.Files.Stat(dir + "/initstate"); errors.Is(err, fs.ErrNotExist) {
			return builtin
		}
		return loadable
	}
	if loaded, err := h.Files.ReadFile("/proc/modules"); err == nil && slices.ContainsFunc(strings.Split(string(loaded), "\n"), func(l string) bool { return strings.HasPrefix(l, name+" ") }) {
		return loadable // a copied machine may lack /sys/module
	}
	release, err := h.Files.ReadFile("/proc/sys/kernel/osrelease")
	if host.Unknown(err) {
		return unlisted
	}
	if err != nil {
		return unsure
	}
	lib := "/lib/modules/" + strings.TrimSpace(string(release)) + "/"
	// A built-in module without parameters has no directory in /sys/module.
	list, missing := h.Files.ReadFile(lib + "modules.builtin")
	if missing == nil && plugin.ListsModule(list, name) {
		return builtin
	}
	dep, err := h.Files.ReadFile(lib + "modules.dep")
	if errors.Is(err, fs.ErrNotExist) {
		return nowhere // without the list modprobe(8) finds no module
	}
	if host.Unknown(err) {
		return unlisted
	}
	if err != nil {
		return unsure
	}
	if plugin.ListsModule(dep, name) {
		return loadable
	}
	alias, err := h.Files.ReadFile(lib + "modules.alias")
	for line := range strings.Lines(string(alias)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" && canonical(f[1]) == name {
			return loadable
		}
	}
	if host.Unknown(missing) || host.Unknown(err) {
		return unlisted
	}
	return nowhere
}

// differing returns the options for which the running module shows other values, and those that it
// does not show (parameters with permission 0).
func differing(h *host.Host, name, opts string) (differ, hidden []string) {
	for _, opt := range strings.Fields(opts) {
		key, want, ok := strings.Cut(opt, "=")
		if !ok {
			want = "1" // a boolean without a value is true (kernel/params.c param_set_bool)
		}
		if strings.Contains(key, "/") {
			hidden = append(hidden, opt)
			continue
		}
		b, err := h.Files.ReadFile("/sys/module/" + name + "/parameters/" + canonical(key))
		if err != nil {
			hidden = append(hidden, opt)
		} else if !equalParameter(strings.TrimSpace(string(b)), unquote(want)) {
			differ = append(differ, opt)
		}
	}
	return differ, hidden
}
