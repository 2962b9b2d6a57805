package eject

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// sort is a sort of native file.
type sort string

const (
	sysctlFile   sort = "sysctl.d"
	tmpfilesFile sort = "tmpfiles.d"
	udevFile     sort = "udev rules"
	modprobeFile sort = "modprobe.d"
)

// named lists the sorts of file whose name decides which file wins, with the names to try in
// order. An administrator's file with a later name shall win, so the first choice sorts before 99
// and after the files of packages. systemd-tmpfiles uses the first line of a path; the others use
// the last one.
var named = map[sort]struct {
	dir, suffix, what string
	names             []string
}{
	sysctlFile:   {"/etc/sysctl.d/", ".conf", "kernel variables, by systemd-sysctl at boot", []string{"90-tuning", "zz-tuning"}},
	tmpfilesFile: {"/etc/tmpfiles.d/", ".conf", "attributes below /sys, by systemd-tmpfiles at boot", []string{"90-tuning", "00-tuning"}},
	udevFile:     {"/etc/udev/rules.d/", ".rules", "attributes of devices, when the device appears", []string{"90-tuning", "zz-tuning"}},
	modprobeFile: {"/etc/modprobe.d/", ".conf", "module parameters, when the module is loaded", []string{"90-tuning", "zz-tuning"}},
}

func firstNames() map[sort]int {
	return map[sort]int{sysctlFile: 0, tmpfilesFile: 0, udevFile: 0, modprobeFile: 0}
}

// Other files. Their names sort after those of packages' files. Once copied, they no longer belong
// to fettle.
const (
	modulesFile  = "/etc/modules-load.d/90-tuning.conf"
	tmpfilesUnit = "/etc/systemd/system/systemd-tmpfiles-setup.service.d/90-tuning.conf"
	systemFile   = "/etc/systemd/system.conf.d/90-tuning.conf"
	dropInFile   = "zz-tuning.conf"
)

const head = "# Written by fettle eject."

// builder makes the files of one choice of names.
type builder struct {
	host     *host.Host
	kinds    setting.Kinds
	names    map[sort]int
	sections map[string]profile.DeviceMatcher
	again    map[setting.Setting]bool // kernel variables that an attribute changes, too

	out   *Result
	at    *Value // the value that is converted
	lines map[string]*lines
	order []string
	rules []*rule
	// attributes are the lines of tmpfiles.d, in the order of writing.
	attributes []attribute
	unnamed    []string // disks whose serial number is not recorded
	after      []string // units after which systemd-tmpfiles-setup starts
}

// lines is a file that is being collected.
type lines struct {
	what   string
	text   []string
	values int
}

func (b *builder) path(s sort) string {
	n := named[s]
	return n.dir + n.names[b.names[s]] + n.suffix
}

// rename chooses the next name for each sort of file that lost. It returns false if no file has
// another name.
func (b *builder) rename(losers []Refused) (did bool) {
	for _, l := range losers {
		for s := range named {
			n := named[s]
			if b.out.keeps(l.Setting, b.path(s)) && b.names[s]+1 < len(n.names) {
				b.names[s]++
				did = true
			}
		}
	}
	return did
}

// keeps reports whether a file or command keeps a setting.
func (r *Result) keeps(s setting.Setting, by string) bool {
	return slices.ContainsFunc(r.Values, func(v Value) bool { return v.Setting == s && slices.Contains(v.By, by) })
}

// build converts values to files.
func (b *builder) build(values []Value) *Result {
	b.out = &Result{Values: []Value{}, Refused: []Refused{}, Files: []File{}, Commands: []Command{}, Notes: []string{}}
	b.lines, b.order, b.rules, b.after, b.attributes, b.unnamed = map[string]*lines{}, nil, nil, nil, nil, nil
	for _, v := range values {
		v.By = nil
		b.at = &v
		convert, ok := permanent[v.Setting.Kind]
		if !ok {
			convert = (*builder).product
		}
		switch err := convert(b); {
		case errors.Is(err, errCovered):
		case err != nil:
			b.out.Refused = append(b.out.Refused, Refused{v.Setting, v.Want, err.Error()})
		default:
			b.out.Values = append(b.out.Values, v)
		}
	}
	b.writeAttributes()
	b.writeRules()
	if len(b.unnamed) > 0 {
		b.note("no serial number recorded, and the kernel may give the name to another disk: %s", strings.Join(b.unnamed, ", "))
	}
	if len(b.after) > 0 {
		b.file(tmpfilesUnit, "the drivers are loaded before the attributes are written", head, "[Unit]", "After="+strings.Join(b.after, " "))
	}
	for _, p := range b.order {
		l := b.lines[p]
		b.out.Files = append(b.out.Files, File{p, l.what, strings.Join(l.text, "\n") + "\n", l.values})
	}
	return b.out
}

// file returns the file of a path. text is its beginning.
func (b *builder) file(path, what string, text ...string) *lines {
	l, ok := b.lines[path]
	if !ok {
		l = &lines{what: what, text: text}
		b.lines[path] = l
		b.order = append(b.order, path)
	}
	return l
}

// keep adds lines of the current value to a file.
func (b *builder) keep(path, what string, begin []string, text ...string) {
	l := b.file(path, what, begin...)
	l.text = append(l.text, text...)
	if !slices.Contains(b.at.By, path) {
		l.values++
		b.at.By = append(b.at.By, path)
	}
}

// line adds a line to a file whose name decides.
func (b *builder) line(s sort, text ...string) {
	b.keep(b.path(s), named[s].what, []string{head}, text...)
}

// command adds a command that keeps the current value, once.
func (b *builder) command(why string, argv ...string) {
	text := strings.Join(argv, " ")
	if !slices.ContainsFunc(b.out.Commands, func(c Command) bool { return slices.Equal(c.Argv, argv) }) {
		b.out.Commands = append(b.out.Commands, Command{argv, why})
	}
	b.at.By = append(b.at.By, text)
}

func (b *builder) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.out.Notes, text) {
		b.out.Notes = append(b.out.Notes, text)
	}
}

// load lists a module for systemd-modules-load.
func (b *builder) load(module string) {
	l := b.file(modulesFile, "modules that have the kernel variables and attributes", head)
	if !slices.Contains(l.text, module) {
		l.text = append(l.text, module)
	}
	if !slices.Contains(b.at.By, modulesFile) {
		l.values++
		b.at.By = append(b.at.By, modulesFile)
	}
}

// startAfter makes systemd-tmpfiles-setup wait for a unit.
func (b *builder) startAfter(unit string) {
	if !slices.Contains(b.after, unit) {
		b.after = append(b.after, unit)
	}
	b.at.By = append(b.at.By, tmpfilesUnit)
}
