// selinux is the plug-in for the size of SELinux's access vector cache.

package kernel

import (
	"context"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
)

// SELinux turns [selinux] sections into changes.
var SELinux = plugin.Plugin{
	Name: "selinux",
	Doc:  "sets the size of SELinux's access vector cache",
	Options: []plugin.Option{{
		Name: "avc_cache_threshold",
		Doc:  "entries of the access vector cache, 0 or more; the kernel's default is 512 (security/selinux/avc.c)",
		Plan: planSELinux,
	}},
}

// threshold is the file with the cache size; it exists if selinuxfs is mounted (selinuxfs.c).
const threshold = "/sys/fs/selinux/avc/cache_threshold"

func planSELinux(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(o.Value), 10, 32)
	if err != nil || n < 0 {
		return nil, plugin.Invalid("%q: want a whole number of entries, 0 or more", o.Value)
	}
	if _, err := r.Host.Files.Stat(threshold); err != nil {
		return plugin.Lacks(r.Host, plugin.Sysfs(threshold), o, "SELinux is not enabled on this machine"), nil
	}
	return []plugin.Item{plugin.Want(plugin.Sysfs(threshold), strconv.FormatInt(n, 10), o)}, nil
}
