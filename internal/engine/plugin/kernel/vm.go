// vm is the plug-in for write-back limits and transparent huge pages.

package kernel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// VM is the plug-in for [vm] sections.
var VM = plugin.Plugin{
	Name: "vm",
	Doc:  "sets the write-back limits of the page cache and transparent huge pages",
	Options: []plugin.Option{
		{Name: "transparent_hugepages", Plan: planTHP,
			Doc: "when anonymous memory gets huge pages: always, madvise or never; not written if the kernel command line sets transparent_hugepage="},
		{Name: "transparent_hugepage", Plan: planTHP,
			Doc: "another name of transparent_hugepages: always, madvise or never; takes precedence if a section has both"},
		{Name: "transparent_hugepage.defrag", Plan: planDefrag,
			Doc: "effort of a page fault to get a huge page: always, defer, defer+madvise, madvise or never"},
		{Name: "dirty_bytes", Plan: planDirty,
			Doc: "size of the dirty page cache at which writers wait: bytes (at least two pages), or N% of available memory (0 to 100)"},
		{Name: "dirty_ratio", Plan: planDirty,
			Doc: "size of the dirty page cache at which writers wait, in percent of available memory (0 to 100); TuneD has replaced it with dirty_bytes=N%; takes precedence if a section has both"},
		{Name: "dirty_background_bytes", Plan: planDirty,
			Doc: "size of the dirty page cache at which background write-back starts: bytes (at least 1), or N% of available memory (0 to 100)"},
		{Name: "dirty_background_ratio", Plan: planDirty,
			Doc: "size of the dirty page cache at which background write-back starts, in percent of available memory (0 to 100); TuneD has replaced it with dirty_background_bytes=N%; takes precedence if a section has both"},
	},
}

// thpDir returns the directory of transparent huge pages; RHEL 6 has a different one.
func thpDir(h *host.Host) string {
	const dir, rhel6 = "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/redhat_transparent_hugepage"
	if !plugin.Exists(h, dir) && plugin.Exists(h, rhel6) {
		return rhel6
	}
	return dir
}

func planTHP(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := plugin.Sysfs(thpDir(r.Host) + "/enabled")
	if other, ok := r.Option("transparent_hugepage"); ok && other.Name != o.Name {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Overridden, "%s: overridden by %s=%s, applied later in the same section", other.Pos, other.Name, other.Value)}, nil
	}
	if !slices.Contains([]string{"always", "madvise", "never"}, o.Value) {
		return plugin.BadValue(s, o, "always, madvise or never"), nil
	}
	if !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "this kernel is built without transparent huge pages"), nil
	}
	if arg, ok := commandLine(r.Host, "transparent_hugepage="); ok {
		if now, err := r.Kinds.Read(ctx, s); err != nil || now.Text != o.Value {
			return []plugin.Item{plugin.Refuse(s, o, plugin.Overridden, "not written, because the kernel command line sets %s", arg)}, nil
		}
	}
	return []plugin.Item{plugin.Want(s, o.Value, o)}, nil
}

func commandLine(h *host.Host, prefix string) (string, bool) {
	text, _ := plugin.Attribute(h, "/proc/cmdline")
	last, found := "", false
	for _, arg := range strings.Fields(text) {
		if strings.HasPrefix(arg, prefix) {
			last, found = arg, true
		}
	}
	return last, found
}

func planDefrag(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := plugin.Sysfs(thpDir(r.Host) + "/defrag")
	known := []string{"always", "defer", "defer+madvise", "madvise", "never"}
	if !slices.Contains(known, o.Value) {
		return plugin.BadValue(s, o, "always, defer, defer+madvise, madvise or never"), nil
	}
	if !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "this kernel is built without transparent huge pages"), nil
	}
	if offered := plugin.Choices(r.Host, s.Name); len(offered) > 1 && !slices.Contains(offered, o.Value) {
		return plugin.Lacks(r.Host, s, o, "this kernel offers %s", strings.Join(offered, ", ")), nil
	}
	return []plugin.Item{plugin.Want(s, o.Value, o)}, nil
}

// planDirty plans one of the four limits. The kernel has two spellings of each limit and sets one
// to zero when the other is written (mm/page-writeback.c).
func planDirty(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	name, value := o.Name, strings.TrimSpace(o.Value)
	if percent, ok := strings.CutSuffix(value, "%"); ok && strings.HasSuffix(name, "_bytes") {
		name, value = strings.TrimSuffix(name, "bytes")+"ratio", percent
	}
	s := plugin.Sysctl("vm." + name)
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch page := r.Host.PageSize(); {
	case strings.HasSuffix(name, "_ratio") && (err != nil || n < 0 || n > 100):
		return plugin.BadValue(s, o, "0 to 100 percent"), nil
	case err == nil && n == 0: // "not this spelling": the plan settles the two spellings
	case name == "dirty_bytes" && (err != nil || n < 2*page):
		return plugin.BadValue(s, o, fmt.Sprintf("bytes, at least two pages (%d), or a percentage such as 40%%", 2*page)), nil
	case name == "dirty_background_bytes" && (err != nil || n < 1):
		return plugin.BadValue(s, o, "bytes, at least 1, or a percentage such as 10%"), nil
	}
	return []plugin.Item{plugin.Want(s, strconv.FormatInt(n, 10), o)}, nil
}
