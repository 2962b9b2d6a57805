// Package packages tells which packages a machine has, as far as its files say
// so as text: dpkg's list, or those that a sosreport has. The data bases of rpm
// are not text.
package packages

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// List is what is installed.
type List struct {
	Versions map[string]string // by name; without release, revision and epoch
	At       string            // the file that says so
	// Cut is true where the list is too short for a whole machine: what it has not
	// may have been lost with its end.
	Cut bool
}

// Lacks says why nobody knows whether a package is installed that the list has
// not; "" where it is not.
func (l List) Lacks(name string) (unknown string) {
	if l.Versions[name] == "" && l.Cut {
		return l.At + " is no list of a whole machine's packages"
	}
	return ""
}

// lists are a sosreport's.
var lists = []struct {
	path string
	take func(line string) (name, version string)
}{
	{"/installed-rpms", rpmLine},
	{"/sos_commands/rpm/package-data", rpmLine},
	{"/installed-debs", dpkgLine},
}

const dpkg = "/var/lib/dpkg/status"

// few is how many packages no whole machine has: a list that is as short was cut
// off as it was made, as is one that ends within a line.
const few = 20

// Version is that of the first of some packages that is installed, as far as it
// consists of numbers and dots, and where it says so; "" where no list names one.
func Version(h *host.Host, names ...string) (version, at string) {
	list, err := Read(h)
	if err != nil {
		return "", ""
	}
	for _, name := range names {
		if v := Upstream(list.Versions[name]); v != "" {
			return v, list.At
		}
	}
	return "", ""
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

// Read reads the first list that there is. The error says why there is none.
func Read(h *host.Host) (List, error) {
	var cut List
	for _, l := range lists {
		if h.Live {
			break
		}
		text, err := h.Files.ReadFile(l.path)
		if err != nil {
			continue
		}
		versions := map[string]string{}
		for row := range strings.Lines(string(text)) {
			if name, version := l.take(row); name != "" {
				versions[name] = version
			}
		}
		if len(versions) > few && strings.HasSuffix(string(text), "\n") {
			return List{Versions: versions, At: l.path}, nil
		}
		if len(versions) > len(cut.Versions) || cut.At == "" {
			cut = List{versions, l.path, true}
		}
	}
	text, err := h.Files.ReadFile(dpkg)
	if err == nil {
		if versions := dpkgStatus(string(text)); len(versions) > 0 {
			return List{Versions: versions, At: dpkg}, nil
		}
	}
	switch {
	case len(cut.Versions) > 0:
		return cut, nil
	case cut.At != "":
		return List{}, fmt.Errorf("%s is no list of a whole machine's packages", cut.At)
	case errors.Is(err, host.ErrNotRecorded):
		return List{}, errors.New("the list of its packages (/installed-rpms, " + dpkg + ") is not in this copy")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return List{}, err
	}
	return List{}, errors.New("its list of packages is not text")
}

// rpmLine takes a line of "rpm -qa" apart: NAME-VERSION-RELEASE.ARCH first.
func rpmLine(text string) (name, version string) {
	w, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
	w, _, _ = strings.Cut(w, " ")
	release := strings.LastIndexByte(w, '-')
	if release < 1 {
		return "", ""
	}
	v := strings.LastIndexByte(w[:release], '-')
	if v < 1 || v+1 == release {
		return "", ""
	}
	return w[:v], w[v+1 : release]
}

// dpkgLine takes a line of "dpkg -l" apart.
func dpkgLine(text string) (name, version string) {
	w := strings.Fields(text)
	if len(w) < 3 || w[0] != "ii" {
		return "", ""
	}
	name, _, _ = strings.Cut(w[1], ":")
	return name, debVersion(w[2])
}

// debVersion is a Debian version without epoch and revision (deb-version(7)).
func debVersion(v string) string {
	if _, after, ok := strings.Cut(v, ":"); ok {
		v = after
	}
	if i := strings.LastIndexByte(v, '-'); i > 0 {
		v = v[:i]
	}
	return v
}

// dpkgStatus reads dpkg's own list (deb822(5)).
func dpkgStatus(text string) map[string]string {
	versions := map[string]string{}
	name, installed := "", false
	for row := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(row, "\n"), ": ")
		switch key {
		case "Package":
			name, installed = value, false
		case "Status":
			installed = strings.HasSuffix(value, " installed")
		case "Version":
			if installed && name != "" {
				versions[name] = debVersion(value)
			}
		}
	}
	return versions
}
