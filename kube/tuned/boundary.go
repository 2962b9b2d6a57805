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

// boundary defines what a profile from a cluster must not do. A writer of a Tuned object tunes
// nodes as root; without these limits that would include running any program on them.

// Kind is a category of actions that are refused unless allowed.
type Kind string

// The kinds.
const (
	Script     Kind = "script"
	BootLoader Kind = "bootloader"
	Service    Kind = "service"
	Systemd    Kind = "systemd"
	Modules    Kind = "modules"
	Exec       Kind = "exec"
)

// Kinds lists them all, with what they mean in a profile.
var Kinds = []struct {
	Kind Kind
	Doc  string
}{
	{Script, "`[script]`, and `script_pre` and `script_post` of any section: programs of the profile's choice"},
	{BootLoader, "`[bootloader]`: what the node boots with"},
	{Service, "`[service]`: which services run, with which files"},
	{Systemd, "`[systemd]`: the configuration of systemd"},
	{Modules, "`[modules]`: which kernel modules are loaded, with which options"},
	{Exec, "`${f:exec:...}`, and kernel variables that name a program: programs of the profile's choice"},
}

// Allow is the set of allowed kinds.
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

// Refusal is a refused line of a profile.
type Refusal struct {
	// Object is the name of the Tuned object, Profile that of the profile in it.
	Object  string `json:"object"`
	Profile string `json:"profile"`
	Line    int    `json:"line"` // of the profile's text, from 1
	// Kind is what has to be allowed; empty if it cannot be allowed.
	Kind Kind   `json:"kind,omitempty"`
	Text string `json:"text"`
}

func (r Refusal) String() string { return "Tuned " + r.Object + ", " + r.Reason("operator") }

// Reason returns which line is refused and why, and what who, the operator or the agent, would
// have to allow.
func (r Refusal) Reason(who string) string {
	text := fmt.Sprintf("profile %s, line %d: %s", r.Profile, r.Line, r.Text)
	if r.Kind != "" {
		text += fmt.Sprintf("; to allow it, start the %s with --allow=%s", who, r.Kind)
	}
	return text
}

// sections are the plug-ins that need permission.
var sections = map[string]Kind{
	"script": Script, "bootloader": BootLoader, "service": Service, "systemd": Systemd, "modules": Modules,
}

// fixed are the functions that run a program that profiles cannot choose.
var fixed = []string{"virt_check", "lscpu_check"}

// Check checks a profile's text as it is written, before includes and expansion, and returns
// what is refused in order of lines. It suffices to check every text from the cluster: a call
// that would only be composed on the node, from variables, is refused as well. Profiles
// included from the node's own directories are trusted.
func Check(object, name string, all []profile.Section, allow Allow) []Refusal {
	c := &checker{object: object, name: name, allow: allow}
	for i := range all {
		c.section(&all[i])
	}
	slices.SortStableFunc(c.out, func(a, b Refusal) int { return a.Line - b.Line })
	return c.out
}

type checker struct {
	object, name string
	allow        Allow
	out          []Refusal
}

func (c *checker) refuse(kind Kind, pos profile.Pos, format string, args ...any) {
	if !c.allow[kind] {
		c.out = append(c.out, Refusal{c.object, c.name, pos.Line, kind, legible(fmt.Sprintf(format, args...))})
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

// switchesOff reports whether a section only disables what an included profile has.
func switchesOff(s *profile.Section) bool {
	for _, l := range s.Lines {
		if l.Name != "enabled" && l.Name != "type" {
			return false
		}
	}
	return !s.Enabled
}

func (c *checker) line(s *profile.Section, l profile.Line) {
	// By its name: [x] with type=main is an ordinary section.
	if s.Name == "main" {
		if l.Name == "include" {
			c.text(l.Value, l.Pos, false) // the rest is never expanded
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

// text refuses calls of functions that run programs, and what could become one on the node.
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
		// A "$" in a value may begin a call if something that begins with "{" can follow it. Any text
		// can follow a variable.
		if !variable && !strings.HasPrefix(rest, "${") && !strings.HasPrefix(rest, "$$") {
			continue
		}
		if variable && rest[0] == '}' {
			continue // closes a call at the most, and begins none
		}
		c.refuse(Exec, pos, "%s could become a function call on the node; write only complete references, ${name} and ${f:name:...}", internaltext.Truncate(rest, 60))
		return
	}
}

// runs reports whether a function runs a program of the profile's choice.
func runs(name string) bool {
	i := slices.IndexFunc(profile.Functions, func(f profile.Function) bool { return f.Name == name })
	return i >= 0 && profile.Functions[i].Executes && !slices.Contains(fixed, name)
}

// programs are the sysctls that name a program which the kernel runs as root
// (Documentation/admin-guide/sysctl/kernel.rst; binfmt-misc.rst).
var programs = []string{"kernel.core_pattern", "kernel.modprobe", "kernel.hotplug", "kernel.poweroff_cmd", "fs.binfmt_misc.register"}

// NamesProgram reports whether a setting, in its resolved form, with this value names a program
// that the kernel runs as root. It is for applying a profile: the text that Check reads may be
// composed only then.
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
		return false // no kernel variable
	}
	name := setting.SysctlName(file)
	if name == "kernel.core_pattern" {
		return strings.ContainsAny(l.Value, "|$") // else it names a file
	}
	return slices.Contains(programs, name)
}

// inSysfs are such attributes in sysfs (Documentation/core-api/kobject.rst;
// admin-guide/cgroup-v1/cgroups.rst). The last element may be further down.
var inSysfs = [][]string{{"sys", "kernel", "uevent_helper"}, {"sys", "fs", "cgroup", "release_agent"}}

// namesProgramInSysfs reports whether a path, or a pattern of paths, matches such an attribute.
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

// legible replaces characters of an untrusted text that are not printable.
func legible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// readsElsewhere reports whether a line of [variables] reads a file outside the profile
// directories: its content would be readable by all who may read a Profile object. The
// directories are the default ones: only the node knows those of its own configuration. Links
// in them are the node's. References are not expanded here, nor by TuneD, except the directory
// of the profile itself, in which a text from the cluster has no second file.
func readsElsewhere(l profile.Line) bool {
	if l.Name != "include" {
		return false
	}
	file := path.Clean("/" + l.Value)
	return !slices.ContainsFunc(profile.DefaultDirs, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}
