package linux

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Directories of the profiles that an administrator wrote, and of those of a package
// (profile.DefaultDirs), the later ones first.
var (
	ownProfiles    = []string{"/etc/tuned/profiles", "/etc/tuned"}
	vendorProfiles = []string{"/usr/lib/tuned/profiles", "/usr/lib/tuned"}
)

// basis are the packaged profiles that the profiles in force are, or are made of: an
// administrator's own one counts as those that it includes, and as itself where it
// includes none. What cannot be read counts as itself.
func basis(h *host.Host, names string) string {
	var out []string
	seen := map[string]bool{}
	var follow func(name string, depth int)
	follow = func(name string, depth int) {
		if seen[name] || depth > 20 {
			return
		}
		seen[name] = true
		var includes []string
		if own := firstOf(h, ownProfiles, name); own != "" {
			includes = included(h, own, name, firstOf(h, vendorProfiles, name) != "")
		}
		for _, i := range includes {
			follow(i, depth+1)
		}
		if len(includes) == 0 && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, name := range strings.Fields(names) {
		follow(name, 0)
	}
	return strings.Join(out, " ")
}

// firstOf is the tuned.conf of a profile in the first of some directories that has it.
func firstOf(h *host.Host, dirs []string, name string) string {
	if strings.ContainsAny(name, "/$") {
		return ""
	}
	for _, dir := range dirs {
		p := dir + "/" + name + "/tuned.conf"
		if _, err := h.Files.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// included are the profiles that a file includes, but those whose names are known when
// it is loaded only. A file in place of a packaged one of its name is a profile of that
// name.
func included(h *host.Host, file, name string, replaces bool) []string {
	if replaces {
		return nil
	}
	b, err := h.Files.ReadFile(file)
	if err != nil {
		return nil
	}
	sections, err := profile.Sections(file, b)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range sections {
		if l := s.Line("include"); s.Name == "main" && l != nil {
			for _, i := range profile.SplitList(l.Value) {
				if i = strings.TrimPrefix(i, "-"); i != name && i != "" && !strings.Contains(i, "$") {
					out = append(out, i)
				}
			}
		}
	}
	return out
}
