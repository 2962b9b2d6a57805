// This file finds a unit's file and the drop-ins that modify it.

package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// dirs are the directories of system units, highest precedence first (systemd.unit(5), "Unit
// File Load Path").
var dirs = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
	"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
	"/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
	"/run/systemd/generator.late",
}

// Reader reads the units of one machine. It lists each directory only once.
type Reader struct {
	host  *host.Host
	lists map[string]dirListing
	alias map[string][]string // names of links, by the name of their target
}

type dirListing struct {
	entries []fs.DirEntry
	err     error
}

// New returns a reader for a machine's units.
func New(h *host.Host) *Reader { return &Reader{host: h, lists: map[string]dirListing{}} }

// Value is the value of one assignment, with its location FILE:LINE.
type Value struct {
	Text string
	At   string
}

// Unit is a unit with its drop-ins applied.
type Unit struct {
	Name string
	// Files are the files that were read, in order.
	Files []string
	// Masked reports whether the unit cannot be started.
	Masked bool
	// Partial reports whether a copy lacks the unit's own file. Settings that the drop-ins do
	// not set are then unknown.
	Partial bool

	lines  []line
	reader *Reader
}

// Load reads a unit. The error is fs.ErrNotExist if the machine has no such unit, and
// satisfies host.Unknown if a copy does not record that. If a copy lacks the unit's own file
// but has drop-ins or a process, the unit is Partial.
func (r *Reader) Load(name string) (*Unit, error) {
	u := &Unit{Name: name, reader: r}
	fragment, err := r.fragment(name)
	if host.Unknown(err) {
		u.Partial = true
		if err := u.addDropIns([]string{name}); err != nil {
			return nil, err
		}
		if pids, _ := u.Processes(); len(u.Files) == 0 && len(pids) == 0 {
			return nil, host.NotRecorded("unit " + name)
		}
		return u, nil
	}
	if err != nil {
		return nil, err
	}
	target, err := r.host.Files.Resolve(fragment)
	if target == "/dev/null" || err != nil && r.readlink(fragment) == "/dev/null" {
		u.Masked = true
		return u, nil
	}
	text, err := r.host.Files.ReadFile(fragment)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) == 0 {
		u.Masked = true
		return u, nil
	}
	u.add(fragment, text)
	if err := u.addDropIns(r.names(name, fragment)); err != nil {
		return nil, err
	}
	return u, nil
}

// addDropIns reads the drop-ins for all names of the unit.
func (u *Unit) addDropIns(names []string) error {
	dropIns, err := u.reader.dropIns(names)
	if err != nil {
		return fmt.Errorf("%s: %w", u.Name, err)
	}
	for _, p := range dropIns {
		text, err := u.reader.host.Files.ReadFile(p)
		if u.reader.readlink(p) == "/dev/null" {
			continue // masks a drop-in of the same name
		}
		if err != nil {
			return fmt.Errorf("%s: %w", u.Name, err)
		}
		u.add(p, text)
	}
	return nil
}

func (u *Unit) add(file string, text []byte) {
	u.Files = append(u.Files, file)
	u.lines = append(u.lines, parse(file, text)...)
}

func (r *Reader) readlink(p string) string {
	to, err := r.host.Files.Readlink(p)
	if err != nil {
		return ""
	}
	return to
}

func (r *Reader) list(dir string) dirListing {
	l, ok := r.lists[dir]
	if !ok {
		l.entries, l.err = r.host.Files.ReadDir(dir)
		r.lists[dir] = l
	}
	return l
}

// has reports whether a directory contains a name. A copy may have files of a directory but
// not its listing.
func (r *Reader) has(dir, name string) (bool, error) {
	l := r.list(dir)
	if errors.Is(l.err, fs.ErrPermission) {
		return false, l.err
	}
	if host.Unknown(l.err) {
		_, err := r.host.Files.Lstat(path.Join(dir, name))
		return err == nil, nil
	}
	return slices.ContainsFunc(l.entries, func(e fs.DirEntry) bool { return e.Name() == name }), nil
}

// vendorDirs are the directories of packaged units. Whether a machine has a unit is only known
// if one of them was listed, or both are missing.
var vendorDirs = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}

func (r *Reader) vendorKnown() bool {
	unrecorded := false
	for _, d := range vendorDirs {
		switch err := r.list(d).err; {
		case err == nil:
			return true
		case host.Unknown(err):
			unrecorded = true
		}
	}
	return !unrecorded
}

// fragment returns the path of a unit's file, or of its template's.
func (r *Reader) fragment(name string) (string, error) {
	for _, n := range []string{name, template(name)} {
		if n == "" {
			continue
		}
		for _, d := range dirs {
			ok, err := r.has(d, n)
			if err != nil {
				return "", err
			}
			if ok {
				return path.Join(d, n), nil
			}
		}
	}
	if !r.vendorKnown() {
		return "", host.NotRecorded("unit " + name)
	}
	return "", fmt.Errorf("unit %s: %w", name, fs.ErrNotExist)
}

// template returns the template name of an instance, or "" for other units.
func template(name string) string {
	at := strings.Index(name, "@")
	dot := strings.LastIndex(name, ".")
	if at < 1 || dot <= at+1 {
		return ""
	}
	return name[:at+1] + name[dot:]
}

// names returns all names of a unit: the requested name, the name of its file, and links to
// that file.
func (r *Reader) names(name, fragment string) []string {
	all := []string{name}
	add := func(n string) {
		if !slices.Contains(all, n) && path.Ext(n) == path.Ext(name) {
			all = append(all, n)
		}
	}
	if at, err := r.host.Files.Resolve(fragment); err == nil && slices.Contains(dirs, path.Dir(at)) {
		add(instantiate(path.Base(at), name))
	}
	if r.alias == nil {
		r.alias = map[string][]string{}
		for _, d := range dirs {
			for _, e := range r.list(d).entries {
				if e.Type()&fs.ModeSymlink != 0 {
					to := path.Base(r.readlink(path.Join(d, e.Name())))
					r.alias[to] = append(r.alias[to], e.Name())
				}
			}
		}
	}
	for i := 0; i < len(all) && i < 32; i++ {
		for _, a := range r.alias[all[i]] {
			add(instantiate(a, name))
		}
	}
	return all
}

// instantiate returns the instance of a template that like names: a@c.service for a@.service
// and b@c.service.
func instantiate(name, like string) string {
	before, after, ok := strings.Cut(name, "@.")
	if !ok || template(like) == "" {
		return name
	}
	return before + "@" + Instance(like) + "." + after
}

// Instance returns the part of a unit name between "@" and the suffix, or "".
func Instance(name string) string {
	at, dot := strings.Index(name, "@"), strings.LastIndex(name, ".")
	if at < 0 || dot < at {
		return ""
	}
	return name[at+1 : dot]
}

// maxDropIns is the maximum number of drop-ins of a unit. Exceeding it is an error, because
// the last drop-ins have precedence.
const maxDropIns = 500

// dropIns lists the drop-in files in reading order, that is by name. Of files with the same
// name, only the one in the directory of highest precedence counts. Directories for the whole
// unit type come last.
func (r *Reader) dropIns(names []string) ([]string, error) {
	var order []string
	for _, n := range names {
		for _, d := range dirs {
			for _, variant := range variants(n) {
				order = append(order, path.Join(d, variant+".d"))
			}
		}
	}
	for _, d := range dirs {
		order = append(order, path.Join(d, strings.TrimPrefix(path.Ext(names[0]), ".")+".d"))
	}
	found := map[string]string{} // path by name
	for _, dir := range order {
		ok, err := r.has(path.Dir(dir), path.Base(dir))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		l := r.list(dir)
		if l.err != nil {
			return nil, l.err
		}
		for _, e := range l.entries {
			if _, hidden := found[e.Name()]; !hidden && strings.HasSuffix(e.Name(), ".conf") {
				found[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	if len(found) > maxDropIns {
		return nil, fmt.Errorf("%d drop-ins; at most %d are supported", len(found), maxDropIns)
	}
	var out []string
	for _, p := range found {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return out, nil
}

// variants returns the names whose drop-in directories apply to a unit, most specific first:
// a-b@c.service, a-b@.service, a-.service, a-@c.service, a-@.service.
func variants(name string) []string {
	out := []string{name}
	instance := template(name) != ""
	if instance {
		out = append(out, variants(template(name))...)
	}
	ext := path.Ext(name)
	prefix, rest, _ := strings.Cut(strings.TrimSuffix(name, ext), "@")
	cut := strings.LastIndex(strings.TrimSuffix(prefix, "-"), "-")
	if cut < 1 {
		return out
	}
	shorter := prefix[:cut+1]
	if instance {
		shorter += "@" + rest
	}
	return append(out, variants(shorter+ext)...)
}

// Last returns the value of the last assignment of a key. ok is false if none exists, or if
// it is empty, which resets the key.
func (u *Unit) Last(section, key string) (v Value, ok bool) {
	for _, l := range u.lines {
		if l.section == section && l.key == key {
			v, ok = Value{l.value, l.at()}, l.value != ""
		}
	}
	return v, ok
}

// All returns the values of a list key; an empty value resets the list.
func (u *Unit) All(section, key string) []Value {
	var out []Value
	for _, l := range u.lines {
		switch {
		case l.section != section || l.key != key:
		case l.value == "":
			out = nil
		default:
			out = append(out, Value{l.value, l.at()})
		}
	}
	return out
}

// Enabled lists the units that match a pattern and start at boot. It reads the links in
// *.wants and *.requires.
func (r *Reader) Enabled(pattern string) ([]string, error) {
	var out []string
	known := false
	for _, d := range dirs {
		l := r.list(d)
		if l.err != nil {
			continue
		}
		known = known || d == "/etc/systemd/system"
		for _, e := range l.entries {
			if !strings.HasSuffix(e.Name(), ".wants") && !strings.HasSuffix(e.Name(), ".requires") {
				continue
			}
			for _, link := range r.list(path.Join(d, e.Name())).entries {
				if ok, _ := path.Match(pattern, link.Name()); ok && !slices.Contains(out, link.Name()) {
					out = append(out, link.Name())
				}
			}
		}
	}
	if !known {
		err := r.list("/etc/systemd/system").err
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // a machine without systemd
		}
		return nil, fmt.Errorf("/etc/systemd/system: %w", err)
	}
	slices.Sort(out)
	return out, nil
}
