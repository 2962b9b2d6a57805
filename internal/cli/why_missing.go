package cli

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// maxNames bounds how many names of kernel variables are looked at for one that
// was perhaps meant.
const maxNames = 50_000

// missing is the error for a variable of the kernel that this machine does not
// have, with the name that was perhaps meant.
func missing(h *host.Host, s setting.Setting) error {
	var near string
	switch s.Kind {
	case "sysctl":
		near = nearSysctl(h, s.Name)
	case "sysfs":
		near = nearAttribute(h, s.Name)
	default:
		return nil // a file that is not there is a state like any other
	}
	name := s.String()
	if s.Kind == "sysfs" {
		name = s.Name
	}
	return ui.Exit(ui.Failed, errors.New(h.Name+" has no "+name+near))
}

// nearSysctl suggests a sysctl: the nearest name, or the only one that ends in
// the word.
func nearSysctl(h *host.Host, name string) string {
	var names []string
	walkNames(h, "/proc/sys", func(p string) { names = append(names, setting.SysctlName(p)) })
	if near := plugin.Suggest(name, names); near != "" {
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

// nearAttribute suggests a path below /sys: the first part that is not there is
// compared with its siblings.
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
		return plugin.Suggest(path.Join(next, more), names)
	}
}

// walkNames calls f with every file below a directory, links not followed.
func walkNames(h *host.Host, root string, f func(string)) {
	pending, seen := []string{root}, 0
	for len(pending) > 0 && seen < maxNames {
		dir := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			continue // gone meanwhile, or not for us
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
