// sysfs is the plug-in for kernel attributes in /sys, given by path.

package kernel

import (
	"context"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Sysfs is the plug-in for [sysfs] sections.
var Sysfs = plugin.Plugin{
	Name: "sysfs",
	Doc:  "sets kernel attributes below /sys, by path; *, ? and [...] match inside one path element",
	Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{
			Name: name,
			Doc:  "the value of the attribute, in the attribute's own unit",
			Plan: planSysfs,
		}, strings.HasPrefix(name, "/")
	},
}

// planSysfs plans the value unchanged. Here ">" is not a modifier, because some attributes have
// values that begin with it or are not numbers.
func planSysfs(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	pattern := path.Clean(o.Name)
	s := plugin.Sysfs(pattern)
	if !strings.HasPrefix(pattern, "/sys/") {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Refused, "%s is not below /sys; this plug-in writes only below /sys", pattern)}, nil
	}
	if o.Value == "" {
		return plugin.BadValue(s, o, "a value that is not empty"), nil
	}
	paths := glob(r.Host, pattern)
	if len(paths) == 0 {
		why := "this machine has no such attribute"
		if hasMeta(pattern) {
			why = "no attribute on this machine matches this pattern"
		}
		return plugin.Lacks(r.Host, s, o, "%s", why), nil
	}
	items := make([]plugin.Item, 0, len(paths))
	for _, p := range paths {
		items = append(items, plugin.Want(plugin.Sysfs(p), o.Value, o))
	}
	return items, nil
}

func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

// glob expands a pattern as Python's glob does, with the rules of profile.Fnmatch within a path
// element. The result is in the order of SortDevices.
func glob(h *host.Host, pattern string) []string {
	found := []string{"/"}
	for _, element := range strings.Split(strings.TrimPrefix(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !hasMeta(element) {
				if p := path.Join(dir, element); plugin.Exists(h, p) {
					next = append(next, p)
				}
				continue
			}
			entries, err := h.Files.ReadDir(dir)
			if err != nil {
				continue // not a directory, or removed meanwhile
			}
			for _, e := range entries {
				if profile.Fnmatch(element, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	plugin.SortDevices(found)
	return found
}
