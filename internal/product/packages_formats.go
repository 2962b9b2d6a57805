package product

import "strings"

// ofLines returns a parser that applies take to each line of a list.
func ofLines(take func(line string) (name, version string)) func(string) map[string]string {
	return func(text string) map[string]string {
		versions := map[string]string{}
		for row := range strings.Lines(text) {
			if name, version := take(row); name != "" {
				versions[name] = version
			}
		}
		return versions
	}
}

// debugged parses the list of a foreman-debug; its first line is the command.
func debugged(text string) map[string]string {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(first, "COMMAND> dpkg") {
		return ofLines(dpkgLine)(rest)
	}
	return ofLines(rpmLine)(rest)
}

// rpmLine parses a line of "rpm -qa" that begins with NAME-VERSION-RELEASE.ARCH.
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

// dpkgLine parses a line of "dpkg -l".
func dpkgLine(text string) (name, version string) {
	w := strings.Fields(text)
	if len(w) < 3 || w[0] != "ii" {
		return "", ""
	}
	name, _, _ = strings.Cut(w[1], ":")
	return name, debVersion(w[2])
}

// debVersion returns a Debian version without epoch and revision (deb-version(7)).
func debVersion(v string) string {
	if _, after, ok := strings.Cut(v, ":"); ok {
		v = after
	}
	if i := strings.LastIndexByte(v, '-'); i > 0 {
		v = v[:i]
	}
	return v
}

// dpkgStatus parses dpkg's status file (deb822(5)). The result does not keep the text in memory.
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
				versions[strings.Clone(name)] = strings.Clone(debVersion(value))
			}
		}
	}
	return versions
}
