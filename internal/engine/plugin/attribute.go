package plugin

import (
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Lacks returns an item for a setting that this machine or kernel lacks. If a copied machine does
// not record whether the setting exists, the verdict is unknown.
func Lacks(h *host.Host, s setting.Setting, o profile.Option, format string, args ...any) []Item {
	if s.Kind == "sysfs" && Unrecorded(h, s.Name) {
		return []Item{NotRecorded(s, o)}
	}
	return []Item{Refuse(s, o, Unsupported, format, args...)}
}

// LacksFiles returns an item for a setting that this machine lacks because the files are missing.
// If a copied machine does not record whether they exist, the verdict is unknown.
func LacksFiles(h *host.Host, s setting.Setting, o profile.Option, files []string, format string, args ...any) []Item {
	if Unrecorded(h, files...) {
		return []Item{NotRecorded(s, o)}
	}
	return []Item{Refuse(s, o, Unsupported, format, args...)}
}

// NotRecorded returns an item for a setting that a copied machine does not record.
func NotRecorded(s setting.Setting, o profile.Option) Item {
	return Refuse(s, o, Unknown, "%v", host.ErrNotRecorded)
}

// Unrecorded reports whether a copied machine does not record the existence of one of the files.
func Unrecorded(h *host.Host, files ...string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		_, err := h.Files.Stat(file)
		return host.Unknown(err)
	})
}

// BadValue returns an item for an invalid value of an option. want describes valid values, with
// the unit: "a number of KiB".
func BadValue(s setting.Setting, o profile.Option, want string) []Item {
	return []Item{Refuse(s, o, Rejected, "%q is not a value for %s: want %s", o.Value, o.Name, want)}
}

// Exists reports whether the machine has the path; it returns false if that is unknown.
func Exists(h *host.Host, path string) bool {
	_, err := h.Files.Stat(path)
	return err == nil
}

// IsDir reports whether a path is a directory, also if reached through a link.
func IsDir(h *host.Host, path string) bool {
	st, err := h.Files.Stat(path)
	return err == nil && st.IsDir()
}

// WantDir returns the item that creates a directory; none if it exists.
func WantDir(h *host.Host, dir string, o profile.Option) []Item {
	if IsDir(h, dir) {
		return nil
	}
	return []Item{Want(setting.Setting{Kind: "dir", Name: dir}, "directory", o)}
}

// FirstFile returns the first of the paths that is a regular file, or "".
func FirstFile(h *host.Host, paths []string) string {
	for _, p := range paths {
		if st, err := h.Files.Stat(p); err == nil && st.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// Attribute reads a kernel attribute and trims white space. ok is false if the attribute is
// missing or unreadable.
func Attribute(h *host.Host, path string) (text string, ok bool) {
	b, err := h.Files.ReadFile(path)
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(b)), true
}

// Choices returns the words of an attribute that marks the active word with brackets, such as an
// I/O scheduler list.
func Choices(h *host.Host, path string) []string {
	text, _ := Attribute(h, path)
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = strings.TrimSuffix(strings.TrimPrefix(w, "["), "]")
	}
	return words
}

// Modifier splits a leading ">" (only raise) or "<" (only lower) from a value. A value of one
// character has no modifier.
func Modifier(value string) (setting.Op, string) {
	value = strings.TrimSpace(value)
	if len(value) > 1 {
		switch op := setting.Op(value[:1]); op {
		case setting.Raise, setting.Lower:
			return op, strings.TrimSpace(value[1:])
		}
	}
	return setting.Set, value
}

// Number returns the item for a whole number from lo to hi, with modifiers. want describes the
// range.
func Number(s setting.Setting, o profile.Option, lo, hi int64, want string) []Item {
	op, text := Modifier(o.Value)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lo || n > hi {
		return BadValue(s, o, want)
	}
	it := Want(s, strconv.FormatInt(n, 10), o)
	it.Change.Op = op
	return []Item{it}
}

// Alternatives splits "a|b|c". ok is false if an alternative is empty.
func Alternatives(value string) (words []string, ok bool) {
	words = strings.Split(value, "|")
	for i, w := range words {
		words[i] = strings.TrimSpace(w)
		if words[i] == "" {
			return nil, false
		}
	}
	return words, true
}

// IsGuest reports whether the machine is a virtual machine, by the CPU's hypervisor flag.
func IsGuest(h *host.Host) bool {
	text, _ := Attribute(h, "/proc/cpuinfo")
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "flags" {
			return slices.Contains(strings.Fields(v), "hypervisor")
		}
	}
	// Other architectures: the device tree, or files of the Xen and KVM drivers.
	name, _ := h.DeviceTreeHypervisor()
	return Exists(h, "/sys/hypervisor/type") || name != ""
}

// HasModule reports whether the running kernel has a module with one of these names, loaded or
// not (modules.dep of depmod(8)).
func HasModule(h *host.Host, names ...string) bool {
	release, ok := Attribute(h, "/proc/sys/kernel/osrelease")
	if !ok {
		return false
	}
	dep, err := h.Files.ReadFile("/lib/modules/" + release + "/modules.dep")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool { return ListsModule(dep, name) })
}

// ListsModule reports whether a list of module files contains a module. The list is modules.dep,
// with dependencies after a colon, or modules.builtin. "-" and "_" are equal in names.
func ListsModule(files []byte, name string) bool {
	for line := range strings.Lines(string(files)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base, _, _ := strings.Cut(file[strings.LastIndexByte(file, '/')+1:], ".ko")
		if strings.ReplaceAll(base, "-", "_") == strings.ReplaceAll(name, "-", "_") {
			return true
		}
	}
	return false
}
