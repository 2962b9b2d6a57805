package override

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Limits: setting files are short, and a copy's files may come from strangers. A file beyond these
// limits is not read, and its claims are reported as unknown.
const (
	// maxFile and maxUdevFile are maximum file sizes in bytes. udev rules that list every known
	// scanner or music player have several hundred KiB.
	maxFile, maxUdevFile = 256 << 10, 1 << 20
	// maxPatterns is the maximum number of patterns in one source's files: each is compared with
	// every path.
	maxPatterns = 256
	// maxMatches is the maximum number of paths that a pattern may match.
	maxMatches = 4096
	// maxProblems is the maximum number of a file's lines that are reported individually.
	maxProblems = 5
)

// reader collects the claims of one machine.
type reader struct {
	host     *host.Host
	claims   *Claims
	problems []Problem
	seq      int
	source   Source            // source being read
	patterns int               // path patterns in the source's files so far
	release  *string           // kernel release; nil until read
	wanted   map[string]string // maps a unit to the link that enables it; nil until listed
	unlisted bool              // a copy does not record which units are enabled
}

func (r *reader) problem(file string, line int, what string) {
	r.problems = append(r.problems, Problem{file, line, what})
}

// invalid records the problems that a parser found in a file.
func (r *reader) invalid(file string, problems []Problem) {
	for _, p := range problems {
		r.problem(file, p.Line, p.What)
	}
}

// fewer keeps the first problems of each file and replaces the others by their number.
func fewer(problems []Problem) []Problem {
	var out []Problem
	of := map[string]int{}
	var files []string // files with more problems than are reported
	for _, p := range problems {
		if p.Line > 0 {
			if of[p.File]++; of[p.File] > maxProblems {
				if of[p.File] == maxProblems+1 {
					files = append(files, p.File)
				}
				continue
			}
		}
		out = append(out, p)
	}
	for _, f := range files {
		out = append(out, Problem{File: f, What: fmt.Sprintf("and %d more invalid lines", of[f]-maxProblems)})
	}
	return out
}

// file reads a file. It returns false if the file is missing or cannot be read.
func (r *reader) file(p string) (string, bool) {
	b, err := r.host.Files.ReadFile(p)
	if err != nil {
		r.unreadable(p, err)
		return "", false
	}
	most := maxFile
	if r.source == Udev {
		most = maxUdevFile
	}
	if len(b) > most {
		r.unread(p, fmt.Sprintf("not read: the file has %s, but a settings file may have at most %s", unit.Size(len(b)).Human(), unit.Size(most).Human()))
		return "", false
	}
	return string(b), true
}

// unread records an existing file whose claims are unknown.
func (r *reader) unread(p, what string) {
	r.problem(p, 0, what)
	if r.claims.unread != nil {
		r.claims.unread[r.source] = append(r.claims.unread[r.source], Problem{File: p, What: what})
	}
}

// unreadable records why a file or directory could not be read. A missing one has no claims. If a
// copy lacks it, its claims are unknown.
func (r *reader) unreadable(p string, err error) {
	switch {
	case host.Unknown(err):
		r.notRecorded(p)
	case !errors.Is(err, fs.ErrNotExist):
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		r.unread(p, "cannot be read: "+err.Error())
	}
}

// notRecorded records a file that a copied machine lacks.
func (r *reader) notRecorded(p string) {
	if of := r.claims.unknown; of != nil && !slices.Contains(of[r.source], p) {
		of[r.source] = append(of[r.source], p)
	}
}

// pattern counts n more patterns of the source. It returns false if there are too many, and
// reports that once.
func (r *reader) pattern(file string, n int) bool {
	before := r.patterns
	r.patterns += n
	if before <= maxPatterns && r.patterns > maxPatterns {
		r.unread(file, fmt.Sprintf("more than %d patterns in %s; the rest was not read", maxPatterns, r.source))
	}
	return r.patterns <= maxPatterns
}

func (r *reader) exists(p string) bool {
	_, err := r.host.Files.Lstat(p)
	return err == nil
}

// next returns the claim with the next order in its source.
func (r *reader) next(c Claim, rank int) Claim {
	r.seq++
	c.order = order{stages[c.Source], rank, r.seq}
	return c
}

// add resolves a claim's setting and adds the claim.
func (r *reader) add(c Claim, rank int) {
	id, err := r.claims.kinds.Resolve(c.Setting)
	if err != nil {
		r.problem(c.File, c.Line, err.Error())
		return
	}
	c.Setting = id
	c = r.next(c, rank)
	r.claims.direct[id] = append(r.claims.direct[id], c)
}

// addPath adds a claim for each existing file below /proc/sys or /sys that matches a pattern; it
// ignores other paths. A path without wildcards need not exist.
func (r *reader) addPath(c Claim, pattern string, rank int) {
	paths := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		if !r.pattern(c.File, 1) {
			return
		}
		found, err := host.Glob(r.host.Files, goPattern(pattern))
		if err != nil {
			r.problem(c.File, c.Line, fmt.Sprintf("pattern %q: %v", pattern, err))
			return
		}
		paths = found[:min(len(found), maxMatches)]
	}
	for _, p := range paths {
		switch {
		case strings.HasPrefix(p, "/proc/sys/"):
			c.Setting = setting.Setting{Kind: "sysctl", Name: setting.SysctlName(p)}
		case strings.HasPrefix(p, "/sys/"):
			c.Setting = setting.Setting{Kind: "sysfs", Name: p}
		default:
			continue
		}
		r.add(c, rank)
	}
}

// confFile is one file of a drop-in directory.
type confFile struct {
	path     string // the file to edit, links followed
	via      string // path in the drop-in directory, if that is a link
	admin    bool
	shadowed string // the file with this name in a directory of higher precedence
	masked   bool   // a link to /dev/null: hides files with its name and has no lines
}

// dropInDirs are the directories of a kind of drop-in file, in order of precedence (systemd's
// CONF_PATHS; kmod and udev use the same).
var dropInDirs = []struct {
	dir   string
	admin bool
}{
	{"/etc", true}, {"/run", true}, {"/usr/local/lib", true}, {"/usr/lib", false}, {"/lib", false},
}

// confFiles lists the files of sub ("sysctl.d") with a suffix, as systemd does
// (src/basic/conf-files.c): from all directories, sorted by file name. Among files with the same
// name the first directory's is used. The others precede it in the list, marked as shadowed.
func (r *reader) confFiles(sub, suffix string) []confFile {
	type named struct {
		name string
		confFile
	}
	var found []named
	first := map[string]string{}
	for _, d := range dropInDirs {
		if d.dir == "/lib" {
			// On a merged /usr it is /usr/lib.
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
					r.problem(f.path, 0, "dangling link")
					f.masked = true
				}
			}
			found = append(found, named{name, f})
		}
	}
	slices.SortStableFunc(found, func(a, b named) int {
		// Shadowed files first, the ones that they shadow last.
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(b.shadowed, a.shadowed))
	})
	out := make([]confFile, len(found))
	for i, f := range found {
		out[i] = f.confFile
	}
	return out
}

// claim returns a claim for a line of the file, with the setting still empty.
func (f confFile) claim(src Source, line int, text string) Claim {
	c := Claim{Source: src, File: f.path, Via: f.via, Line: line, Text: text, Administrator: f.admin, Shadowed: f.shadowed}
	if f.shadowed != "" {
		c.Void = "hidden by " + f.shadowed + ", which has the same name"
	}
	return c
}

// goPattern converts glob(7)'s negation [!a] to Go's [^a].
func goPattern(p string) string { return strings.ReplaceAll(p, "[!", "[^") }
