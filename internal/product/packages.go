package product

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// List lists a machine's packages: from dpkg's status file, from rpm, or, in a copy, from a
// sosreport or foreman-debug.
type List struct {
	Versions map[string]string // version by name, without release, revision and epoch
	At       string            // file or command with the list
	// Cut is true if packages may be missing, because the list is too short for a whole machine.
	Cut bool
}

// Lacks returns why it is unknown whether a package missing from the list is installed; "" if it is
// certainly not.
func (l List) Lacks(name string) (unknown string) {
	if l.Versions[name] == "" && l.Cut {
		return l.At + " is not a list of a whole machine's packages"
	}
	return ""
}

// lists are the package lists of a sosreport (sos/report/plugins/rpm.py, dpkg.py; those in the top
// directory are links) and of a foreman-debug (script/foreman-debug).
var lists = []struct {
	pattern string // pattern for host.Glob
	read    func(text string) map[string]string
}{
	{"/installed-rpms", ofLines(rpmLine)},
	{"/sos_commands/rpm/sh_-c_rpm*_-qa*", ofLines(rpmLine)},
	{"/sos_commands/rpm/package-data", ofLines(rpmLine)},
	{"/installed-debs", ofLines(dpkgLine)},
	{"/sos_commands/dpkg/dpkg_-l", ofLines(dpkgLine)},
	{"/installed_packages", debugged},
}

const dpkg = "/var/lib/dpkg/status"

// dpkgList is the list of dpkg, or why it cannot be read.
type dpkgList struct {
	versions map[string]string
	err      error
}

// readDpkg reads dpkg's list, which may have megabytes, once for all rules.
func readDpkg(h *host.Host) dpkgList {
	return host.Remember(h, dpkg, func() dpkgList {
		text, err := h.Files.ReadFile(dpkg)
		return dpkgList{dpkgStatus(string(text)), err}
	})
}

// few is the minimum length of a whole machine's list. A shorter list is incomplete, like one that
// ends within a line.
const few = 20

// Version returns the upstream version of the first installed package among names, and the list's
// path; "" if none is installed.
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

// Upstream returns the leading digits and dots of a version.
func Upstream(v string) string {
	for i, c := range v {
		if c != '.' && (c < '0' || c > '9') {
			return strings.TrimRight(v[:i], ".")
		}
	}
	return v
}

// Read reads the first list that exists, or returns an error that says why it is missing. On a
// machine with RPM packages it runs rpm, which may take seconds.
func Read(h *host.Host) (List, error) {
	cut, found := List{}, false
	if !h.Live {
		if cut, found = readLists(h.Files); found {
			return cut, nil
		}
	}
	status := readDpkg(h)
	err := status.err
	if len(status.versions) > 0 {
		return List{Versions: status.versions, At: dpkg}, nil
	}
	switch {
	case len(cut.Versions) > 0:
		return cut, nil
	case cut.At != "":
		return List{}, fmt.Errorf("%s does not list all packages of a machine", cut.At)
	}
	if db := rpmDatabase(h.Files); db != "" {
		return askRPM(h, db)
	}
	switch {
	case host.Unknown(err):
		return List{}, errors.New("this copy has no list of packages: neither /installed-rpms nor " + dpkg)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return List{}, err
	}
	return List{}, errors.New("no package database of dpkg or rpm found")
}

// readLists reads the first complete list of a copy, or else the longest one; whole says which.
func readLists(f host.Files) (list List, whole bool) {
	for _, l := range lists {
		names, _ := host.Glob(f, l.pattern)
		for _, name := range names {
			text, err := f.ReadFile(name)
			if err != nil {
				continue
			}
			versions := l.read(string(text))
			if len(versions) > few && strings.HasSuffix(string(text), "\n") {
				return List{Versions: versions, At: name}, true
			}
			if len(versions) > len(list.Versions) || list.At == "" {
				list = List{versions, name, true}
			}
		}
	}
	return list, false
}
