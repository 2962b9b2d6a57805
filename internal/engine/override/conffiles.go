package override

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// confFile is one file of a drop-in directory.
type confFile struct {
	path     string // the file to edit, links followed
	via      string // the name in the directory, where that is a link
	admin    bool
	shadowed string // the file of this name in a directory that goes before
	masked   bool   // a link to /dev/null: hides files of its name, holds nothing
}

// dropInDirs are the directories of one kind of drop-in file, the first one
// going before the others (systemd's CONF_PATHS; kmod and udev have the same).
var dropInDirs = []struct {
	dir   string
	admin bool
}{
	{"/etc", true}, {"/run", true}, {"/usr/local/lib", true}, {"/usr/lib", false}, {"/lib", false},
}

// confFiles lists the files of sub ("sysctl.d") with a suffix, as systemd does
// (src/basic/conf-files.c): all directories together sorted by file name, one
// name taken from the first directory that has it. Files hidden by another of
// their name stand just before it, marked as shadowed.
func (r *reader) confFiles(sub, suffix string) []confFile {
	type named struct {
		name string
		confFile
	}
	var found []named
	first := map[string]string{}
	for _, d := range dropInDirs {
		if d.dir == "/lib" {
			// On a merged /usr it is /usr/lib again.
			if real, err := r.host.Files.Resolve("/lib"); err != nil || real != "/lib" {
				continue
			}
		}
		dir := d.dir + "/" + sub
		entries, err := r.host.Files.ReadDir(dir)
		if err != nil {
			r.unreadable(dir, err)
			continue
		}
		for _, e := range entries {
			name := e.Name()
			if !strings.HasSuffix(name, suffix) || strings.HasPrefix(name, ".") || e.IsDir() {
				continue
			}
			f := confFile{path: path.Join(dir, name), admin: d.admin, shadowed: first[name]}
			if first[name] == "" {
				first[name] = f.path
			}
			if e.Type()&fs.ModeSymlink != 0 {
				if to, err := r.host.Files.Readlink(f.path); err == nil && to == "/dev/null" {
					f.masked = true
				} else if real, err := r.host.Files.Resolve(f.path); err == nil {
					f.path, f.via = real, f.path
					f.masked = real == "/dev/null"
				} else {
					r.problem(f.path, 0, "link that leads nowhere")
					f.masked = true
				}
			}
			found = append(found, named{name, f})
		}
	}
	slices.SortStableFunc(found, func(a, b named) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		// The shadowed first.
		switch {
		case a.shadowed != "" && b.shadowed == "":
			return -1
		case a.shadowed == "" && b.shadowed != "":
			return 1
		}
		return 0
	})
	out := make([]confFile, len(found))
	for i, f := range found {
		out[i] = f.confFile
	}
	return out
}

// claim is the claim that a line of the file makes, without its setting.
func (f confFile) claim(src Source, line int, text string) Claim {
	c := Claim{Source: src, File: f.path, Via: f.via, Line: line, Text: text, Administrator: f.admin, Shadowed: f.shadowed}
	if f.shadowed != "" {
		c.Void = "hidden by " + f.shadowed + ", which has the same name"
	}
	return c
}

// goPattern turns glob(7)'s negation [!a] into Go's [^a].
func goPattern(p string) string { return strings.ReplaceAll(p, "[!", "[^") }
