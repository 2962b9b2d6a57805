package program

import (
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Version is that of the first of some packages that is installed, without what
// the distribution adds, and where it says so; "" where no list of packages names
// one.
func Version(h *host.Host, names ...string) (version, at string) {
	for _, list := range []struct {
		file string
		find func(text, name string) string
	}{{"/var/lib/dpkg/status", dpkgVersion}, {"/installed-rpms", rpmVersion}} {
		text, err := h.Files.ReadFile(list.file)
		if err != nil {
			continue
		}
		for _, name := range names {
			if v := list.find("\n"+string(text), name); v != "" {
				return v, list.file
			}
		}
	}
	return "", ""
}

// dpkgVersion is EPOCH:VERSION-REVISION without the first and the last
// (deb-version(7)).
func dpkgVersion(status, name string) string {
	_, rest, ok := strings.Cut(status, "\nPackage: "+name+"\n")
	if !ok {
		return ""
	}
	entry, _, _ := strings.Cut(rest, "\n\n")
	_, rest, ok = strings.Cut("\n"+entry, "\nVersion: ")
	if !ok || !strings.Contains("\n"+entry, " installed\n") {
		return ""
	}
	v, _, _ := strings.Cut(rest, "\n")
	if _, after, ok := strings.Cut(v, ":"); ok {
		v = after
	}
	if i := strings.LastIndexByte(v, '-'); i > 0 {
		v = v[:i]
	}
	return Upstream(v)
}

// rpmVersion is of a line NAME-VERSION-RELEASE.ARCH, as a sosreport has them.
func rpmVersion(list, name string) string {
	for at := 0; ; {
		i := strings.Index(list[at:], "\n"+name+"-")
		if i < 0 {
			return ""
		}
		at += i + len(name) + 2
		rest, _, _ := strings.Cut(list[at:], "-")
		if rest != "" && rest[0] >= '0' && rest[0] <= '9' && len(rest) < 40 {
			return Upstream(rest)
		}
	}
}

// Upstream is the part of a version that consists of numbers and dots.
func Upstream(v string) string {
	for i, c := range v {
		if c != '.' && (c < '0' || c > '9') {
			return strings.TrimRight(v[:i], ".")
		}
	}
	return v
}
