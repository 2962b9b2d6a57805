package compliance

import (
	"regexp"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// ofText returns the requirements of a test of a text file: of a kernel module if the test searches
// for its line in modprobe.d, of a kernel argument if it searches a boot loader's configuration.
func (w *walk) ofText(t test) []Requirement {
	o := w.objects[t.object]
	pattern, ok := w.valueOf(o["pattern"])
	if !ok {
		return nil
	}
	if line := moduleLine().FindStringSubmatch(pattern); line != nil && w.isAbout(o, modprobeFiles) {
		return w.ofModule(line[2], line[1] == "options")
	}
	if !w.isAbout(o, bootFiles) {
		return nil
	}
	if absent := absentArgument().FindStringSubmatch(pattern); absent != nil {
		return []Requirement{w.requirement(argumentKind, plainArgument(absent[1]), nil)}
	}
	for _, id := range t.states {
		for _, part := range []string{"subexpression", "text"} {
			e, ok := w.states[id][part]
			if value, known := w.valueOf(e); ok && known {
				pattern = value
			}
		}
	}
	name, value, ok := argumentOf(pattern)
	if !ok || len(t.states) > 1 {
		return nil
	}
	var allowed []string
	if plain(value) {
		allowed = []string{value}
	}
	return []Requirement{w.requirement(argumentKind, name, allowed)}
}

// argumentKind is the kind of the settings that are kernel arguments.
const argumentKind = "cmdline"

// ofModule returns the settings of a module. A module that must not be loaded gets no options: with
// them a profile can load it.
func (w *walk) ofModule(name string, options bool) []Requirement {
	name = strings.ReplaceAll(name, "-", "_")
	line := w.requirement("modprobe", name, nil)
	if options {
		return []Requirement{line}
	}
	return []Requirement{w.requirement("module", name, []string{"unloaded"}), line}
}

// The files of kernel modules and of boot loaders, as parts of a path or pattern.
var (
	modprobeFiles = []string{"modprobe", "modules-load"}
	bootFiles     = []string{"/etc/default/grub", "/boot/", "/proc/cmdline", "/etc/kernel/cmdline", "/etc/zipl.conf"}
)

// isAbout reports whether the path of a text object has one of these parts. A path that a variable
// lists counts by its first value.
func (w *walk) isAbout(o entities, parts []string) bool {
	for _, name := range []string{"filepath", "path"} {
		e := o[name]
		paths := []entity{e}
		if v, ok := w.variables[e.variable]; ok {
			paths = v.values
		}
		for _, p := range paths {
			for _, part := range parts {
				if strings.Contains(strings.ReplaceAll(p.value, `\`, ""), part) {
					return true
				}
			}
		}
	}
	return false
}

var (
	moduleLine     = text.LazyRegexp(`(?:^|[\^ *+])(install|blacklist|options)(?:\\s|\[[^\]]*\]| )[+*]?([A-Za-z0-9_-]+)`)
	absentArgument = text.LazyRegexp(`\(\?!\.\*\\b([A-Za-z0-9_.-]+)\\b`)
	// An argument between the beginning or a space, and the end or a space. The value of the
	// pattern is literal.
	wantedArgument = text.LazyRegexp(`(?:^|\\s|\\b|[ )?+*"^])([A-Za-z][A-Za-z0-9_]*(?:\\?[.-][A-Za-z0-9_]+)*)(=(?:\\[.,:-]|[A-Za-z0-9_.,:-])*)?(?:\\b|\\s|[ ($"]|$)`)
)

// argumentOf returns the kernel argument that a pattern searches for. The value is "" if the argument
// has none, or if the pattern also fits other values.
func argumentOf(pattern string) (name, value string, ok bool) {
	m := wantedArgument().FindStringSubmatch(pattern)
	if m == nil {
		return "", "", false
	}
	unescape := strings.NewReplacer(`\`, "")
	name, value = plainArgument(unescape.Replace(m[1])), strings.TrimPrefix(unescape.Replace(m[2]), "=")
	// Try the pattern: the result must be what it finds, and nothing else.
	re, err := regexp.Compile(pattern)
	word := unescape.Replace(m[1] + m[2])
	if err != nil || !re.MatchString("ro "+word+" quiet") || re.MatchString("ro quiet") {
		return "", "", false
	}
	if value != "" && (re.MatchString("ro "+word+"0 quiet") || re.MatchString("ro "+unescape.Replace(m[1])+" quiet")) {
		value = ""
	}
	return name, value, true
}

// plainArgument returns the name of a kernel argument with underscores: the kernel does not
// distinguish them from hyphens.
func plainArgument(name string) string { return strings.ReplaceAll(name, "-", "_") }
