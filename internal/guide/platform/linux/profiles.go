package linux

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Directories of an administrator's and of packaged profiles (profile.DefaultDirs), in order of
// precedence.
var (
	ownProfiles    = []string{"/etc/tuned/profiles", "/etc/tuned"}
	vendorProfiles = []string{"/usr/lib/tuned/profiles", "/usr/lib/tuned"}
)

// basis returns the packaged profiles on which the active profiles are based: it replaces an
// administrator's profile by those it includes. A profile without includes, or an unreadable one,
// stays.
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
	for name := range strings.FieldsSeq(names) {
		follow(name, 0)
	}
	return strings.Join(out, " ")
}

// firstOf returns the tuned.conf of a profile in the first directory that has it.
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

// included returns the profiles that a file includes, without names that contain variables. It
// returns none for a file that replaces a packaged profile.
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
