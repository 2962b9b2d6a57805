package tuned

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
)

// boundary defines what profiles from a cluster must not do. Tuned objects tune nodes as root;
// without these limits their writers could run any program on the nodes.

// Kind is a category of actions that need permission.
type Kind string

// Kinds of actions.
const (
	Script     Kind = "script"
	BootLoader Kind = "bootloader"
	Service    Kind = "service"
	Systemd    Kind = "systemd"
	Modules    Kind = "modules"
	Exec       Kind = "exec"
)

// Kinds lists all kinds with their meaning in a profile.
var Kinds = []struct {
	Kind Kind
	Doc  string
}{
	{Script, "`[script]`, and `script_pre` and `script_post` of any section: run programs that the profile names"},
	{BootLoader, "`[bootloader]`: change the boot configuration of the node"},
	{Service, "`[service]`: start and stop services, and change their files"},
	{Systemd, "`[systemd]`: change the configuration of systemd"},
	{Modules, "`[modules]`: load kernel modules, and set their options"},
	{Exec, "`${f:exec:...}`, and kernel variables that name a program: run programs that the profile names"},
}

// Allow is the set of permitted kinds.
type Allow map[Kind]bool

// ParseAllow parses a comma-separated list of kinds.
func ParseAllow(list string) (Allow, error) {
	var names []string
	for _, k := range Kinds {
		names = append(names, string(k.Kind))
	}
	allow := Allow{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown word %q; want one or more of %s%s", name, strings.Join(names, ", "), internaltext.Suggest(name, names))
		}
		allow[Kind(name)] = true
	}
	return allow, nil
}

// Refusal is a rejected line of a profile.
type Refusal struct {
	Profile string
	Line    int // line of the profile's text, from 1
	// Kind is the missing permission; "" if none would help.
	Kind Kind
	Text string
}

// Reason returns the rejected line and why. It names the permission that who, the operator or the
// agent, would have to give.
func (r Refusal) Reason(who string) string {
	text := fmt.Sprintf("profile %s, line %d: %s", r.Profile, r.Line, r.Text)
	if r.Kind != "" {
		text += fmt.Sprintf("; to allow it, start the %s with --allow=%s", who, r.Kind)
	}
	return text
}

// sections maps the plug-ins that need permission to the kind.
var sections = map[string]Kind{
	"script": Script, "bootloader": BootLoader, "service": Service, "systemd": Systemd, "modules": Modules,
}

// fixed are the functions that run a program which profiles cannot choose.
var fixed = []string{"virt_check", "lscpu_check"}

// Check returns the rejected lines of a profile's text, in order. It checks the text as written,
// before includes and expansion. This suffices, because it also rejects text that could compose a
// call on the node from variables. Profiles from the node's own directories are trusted.
func Check(name string, all []profile.Section, allow Allow) []Refusal {
	c := &checker{name: name, allow: allow}
	for i := range all {
		c.section(&all[i])
	}
	slices.SortStableFunc(c.out, func(a, b Refusal) int { return a.Line - b.Line })
	return c.out
}

type checker struct {
	name  string
	allow Allow
	out   []Refusal
}

func (c *checker) refuse(kind Kind, pos profile.Pos, format string, args ...any) {
	if !c.allow[kind] {
		c.out = append(c.out, Refusal{c.name, pos.Line, kind, legible(fmt.Sprintf(format, args...))})
	}
}

func (c *checker) section(s *profile.Section) {
	if kind, ok := sections[s.Type]; ok && !switchesOff(s) {
		is := ""
		if s.Name != s.Type {
			is = " (type=" + s.Type + ")"
		}
		c.refuse(kind, s.Pos, "[%s]%s is refused", s.Name, is)
	}
	for _, line := range s.Lines {
		c.line(s, line)
	}
}

// switchesOff reports whether a section only disables a section of an included profile.
func switchesOff(s *profile.Section) bool {
	for _, l := range s.Lines {
		if l.Name != "enabled" && l.Name != "type" {
			return false
		}
	}
	return !s.Enabled
}

func (c *checker) line(s *profile.Section, l profile.Line) {
	// The name decides: [x] with type=main is an ordinary section.
	if s.Name == "main" {
		if l.Name == "include" {
			c.text(l.Value, l.Pos, false) // later text is never expanded
		}
		return
	}
	variable := s.Type == "variables"
	switch {
	case variable && readsElsewhere(l):
		c.refuse("", l.Pos, "include=%s in [%s]: a cluster profile may read only files below the node's profile directories (%s)",
			internaltext.Truncate(l.Value, 60), s.Name, strings.Join(profile.DefaultDirs, ", "))
	case variable:
	case l.Name == "script_pre" || l.Name == "script_post":
		c.refuse(Script, l.Pos, "%s in [%s] is refused", l.Name, s.Name)
	case s.Type == "sysctl" && namesProgram(l):
		c.refuse(Exec, l.Pos, "%s names a program that the kernel runs", l.Name)
	case s.Type == "sysfs" && namesProgramInSysfs(l.Name):
		c.refuse(Exec, l.Pos, "%s names a program that the kernel runs", l.Name)
	}
	c.text(l.Name, l.Pos, variable)
	c.text(l.Value, l.Pos, variable)
}

// text rejects calls of functions that run programs, and text that could become such a call on the
// node.
func (c *checker) text(text string, pos profile.Pos, variable bool) {
	found := profile.References(text)
	for _, r := range found.Refs {
		if r.Call && runs(r.Name) {
			c.refuse(Exec, pos, "%s runs a program", internaltext.Truncate(r.Text, 60))
			return
		}
	}
	for _, at := range found.Loose {
		rest := text[at:]
		// A "$" in a value may begin a call if "{" can follow, which any variable may contain.
		if !variable && !strings.HasPrefix(rest, "${") && !strings.HasPrefix(rest, "$$") {
			continue
		}
		if variable && rest[0] == '}' {
			continue // can only close a call, not begin one
		}
		c.refuse(Exec, pos, "%s could become a function call on the node; write only complete references, ${name} and ${f:name:...}", internaltext.Truncate(rest, 60))
		return
	}
}

// runs reports whether a function runs a program that the profile chooses.
func runs(name string) bool {
	i := slices.IndexFunc(profile.Functions, func(f profile.Function) bool { return f.Name == name })
	return i >= 0 && profile.Functions[i].Executes && !slices.Contains(fixed, name)
}

// programs are the sysctls that name a program which the kernel runs as root
// (Documentation/admin-guide/sysctl/kernel.rst; binfmt-misc.rst).
var programs = []string{"kernel.core_pattern", "kernel.modprobe", "kernel.hotplug", "kernel.poweroff_cmd", "fs.binfmt_misc.register"}

// NamesProgram reports whether a setting in resolved form, with this value, names a program that
// the kernel runs as root. Use it when a profile is applied, because Check sees the text before
// expansion.
func NamesProgram(s setting.Setting, value string) bool {
	switch s.Kind {
	case "sysctl":
		return namesProgram(profile.Line{Name: s.Name, Value: value})
	case "sysfs":
		return namesProgramInSysfs(s.Name)
	}
	return false
}

func namesProgram(l profile.Line) bool {
	file, err := setting.SysctlPath(l.Name)
	if err != nil {
		return false // not a kernel variable
	}
	name := setting.SysctlName(file)
	if name == "kernel.core_pattern" {
		return strings.ContainsAny(l.Value, "|$") // other values name a file
	}
	return slices.Contains(programs, name)
}

// inSysfs are sysfs attributes that name a program for the kernel
// (Documentation/core-api/kobject.rst; admin-guide/cgroup-v1/cgroups.rst). The last element may be
// deeper in the tree.
var inSysfs = [][]string{{"sys", "kernel", "uevent_helper"}, {"sys", "fs", "cgroup", "release_agent"}}

// namesProgramInSysfs reports whether a path or pattern matches an attribute of inSysfs.
func namesProgramInSysfs(name string) bool {
	elements := strings.Split(strings.TrimPrefix(path.Clean(name), "/"), "/")
	return slices.ContainsFunc(inSysfs, func(attribute []string) bool {
		above := len(attribute) - 1
		if len(elements) <= above || !profile.Fnmatch(elements[len(elements)-1], attribute[above]) {
			return false
		}
		for i, e := range attribute[:above] {
			if !profile.Fnmatch(elements[i], e) {
				return false
			}
		}
		return true
	})
}

// legible replaces unprintable characters of an untrusted text.
func legible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// readsElsewhere reports whether a line of [variables] reads a file outside the profile
// directories. Such content would be visible to readers of Profile objects. It knows only the
// default directories, not those of a node's configuration, and does not follow links. It expands
// no references, because TuneD expands only the reference to the profile's own directory, and a
// profile from the cluster has no other file there.
func readsElsewhere(l profile.Line) bool {
	if l.Name != "include" {
		return false
	}
	file := path.Clean("/" + l.Value)
	return !slices.ContainsFunc(profile.DefaultDirs, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}
