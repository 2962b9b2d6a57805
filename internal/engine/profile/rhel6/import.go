// Package rhel6 converts a profile of RHEL 6's tuned and ktune to a profile directory in the
// current language. Input is /etc/tune-profiles/NAME with tuned.conf, ktune.sysconfig,
// sysctl.ktune and ktune.sh. It executes nothing: shell texts are parsed as data.
package rhel6

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// The files of a RHEL 6 profile (Red Hat Enterprise Linux 6, Performance Tuning
// Guide and tuned-adm(1)).
const (
	confFile      = "tuned.conf"
	sysconfigFile = "ktune.sysconfig"
	sysctlFile    = "sysctl.ktune"
	scriptFile    = "ktune.sh"
)

// maxFileSize is the maximum size of a profile's file in bytes; real ones have a few kilobytes.
const maxFileSize = 1 << 20

// Result is the new profile with its origins and warnings.
type Result struct {
	// Name is the profile's name, taken from the directory.
	Name string `json:"name"`
	// Files are the new profile's files, tuned.conf first.
	Files []File `json:"files"`
	// Translated lists the old lines that became lines of the new profile.
	Translated []Translation `json:"translated"`
	// Warnings lists, by file and line, the lines that were not converted, or not exactly.
	Warnings []Warning `json:"warnings"`
}

// File is one file of the new profile.
type File struct {
	Path string      `json:"path"` // relative to the profile's directory
	Mode fs.FileMode `json:"mode"`
	Data string      `json:"data"`
}

// Translation is an old line with its new line.
type Translation struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
	To   string `json:"to"` // such as "[cpu] governor=performance"
}

// Warning is a line that was not imported, or not exactly as written.
type Warning struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the file as a whole
	Text string `json:"text,omitempty"`
	Why  string `json:"why"`
	// Refused is the id of the refusal (package profiles) if the line was ignored because it is
	// harmful.
	Refused string `json:"refused,omitempty"`
}

// String returns "file:line: why: text". A refusal has "refused (ID)" before the reason.
func (w Warning) String() string {
	s := w.File
	if w.Line > 0 {
		s += fmt.Sprintf(":%d", w.Line)
	}
	if w.Refused != "" {
		s += ": refused (" + w.Refused + ")"
	}
	s += ": " + w.Why
	if w.Text != "" {
		s += ": " + w.Text
	}
	return s
}

var profileName = text.LazyRegexp(`^[A-Za-z0-9_.-]+$`)

// Import reads the RHEL 6 profile in the directory dir of h. It returns the profile for h's
// kernel, with a warning for each sysctl that /proc/sys of h lacks. It writes nothing.
func Import(ctx context.Context, h *host.Host, dir string) (Result, error) {
	dir = path.Clean(dir)
	im := &importer{host: h, dir: dir, name: path.Base(dir), out: newBuilder()}
	if !profileName().MatchString(im.name) || strings.Trim(im.name, ".") == "" {
		return Result{}, fmt.Errorf("%s: %q is not a profile name; want letters, digits, \"_\", \".\" and \"-\"", dir, im.name)
	}
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return Result{}, err
	}
	im.release, _ = kernelRelease(h)

	// In ktune's order: elevators, sysctls, the script. The daemon is last.
	steps := []struct {
		file string
		read func(text string) error
	}{
		{sysconfigFile, im.sysconfig},
		{sysctlFile, func(text string) error { return im.sysctls(sysctlFile, text) }},
		{scriptFile, im.script},
		{confFile, im.conf},
	}
	var known []string
	for _, s := range steps {
		known = append(known, s.file)
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		text, err := im.read(s.file)
		if host.NotFound(err) {
			im.missing = append(im.missing, s.file)
			continue
		}
		if err != nil {
			return Result{}, err
		}
		im.there++
		if err := s.read(text); err != nil {
			var at *syntaxError
			if errors.As(err, &at) {
				return Result{}, fmt.Errorf("%s:%d: %s; correct this line and import again", path.Join(dir, s.file), at.line, at.what)
			}
			return Result{}, fmt.Errorf("%s: %w", path.Join(dir, s.file), err)
		}
	}
	if im.there == 0 {
		return Result{}, fmt.Errorf("%s: not a RHEL 6 profile: none of %s, %s, %s and %s found", dir, confFile, sysconfigFile, sysctlFile, scriptFile)
	}
	for _, f := range im.missing {
		im.warn(f, 0, "", "not found: nothing to import")
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) && !slices.Contains(im.used, e.Name()) {
			im.warn(e.Name(), 0, "", "not one of a profile's four files: not imported")
		}
	}
	im.warnScheduler()
	return im.result(), nil
}

type importer struct {
	host    *host.Host
	dir     string
	name    string
	release string // uname -r of the host; "" if not recorded
	out     *builder
	there   int
	missing []string
	used    []string // other files read from the directory

	own         ownScript
	warnings    []Warning
	translated  []Translation
	noProcSys   bool
	refusedAt   int       // first line of ktune.sh that disables barriers, which is refused
	schedulerAt []Warning // lines converted to [scheduler]; one warning covers them at the end
}

func (im *importer) read(name string) (string, error) {
	p := path.Join(im.dir, name)
	at, err := im.inside(p)
	if err != nil {
		return "", err
	}
	b, err := im.host.Files.ReadFile(at)
	if err != nil {
		return "", err
	}
	if len(b) > maxFileSize {
		return "", fmt.Errorf("%s: larger than %d KiB; not a profile file", p, maxFileSize>>10)
	}
	if i := strings.IndexByte(string(b), 0); i >= 0 {
		return "", fmt.Errorf("%s:%d: zero byte; not a text file", p, 1+strings.Count(string(b[:i]), "\n"))
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n"), nil
}

// inside resolves the links of p, a file of the profile. It returns an error for anything but a
// regular file in the directory. A link out of it would copy another user's file into a
// world-readable profile; a pipe would read as an empty file.
func (im *importer) inside(p string) (string, error) {
	dir, err := im.host.Files.Resolve(im.dir)
	if err != nil {
		return "", err
	}
	at, err := im.host.Files.Resolve(p)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
		return "", fmt.Errorf("%s is a link to %s, outside the profile; replace the link with the file", p, at)
	}
	st, err := im.host.Files.Lstat(at)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is %s; want a regular file", p, host.DescribeType(st.Mode()))
	}
	return at, nil
}

func (im *importer) warn(file string, line int, text, format string, args ...any) {
	im.warnings = append(im.warnings, Warning{File: file, Line: line, Text: oneLine(text), Why: fmt.Sprintf(format, args...)})
}

func (im *importer) refuse(file string, line int, text, id, format string, args ...any) {
	im.warnings = append(im.warnings, Warning{File: file, Line: line, Text: oneLine(text), Why: fmt.Sprintf(format, args...), Refused: id})
}

// origin is the old line from which a new line was made.
type origin struct {
	file string
	line int
	text string
}

func (o origin) String() string { return fmt.Sprintf("%s:%d: %s", o.file, o.line, oneLine(o.text)) }

// set sets an option of the new profile and records its origin. A second value for the same option
// wins, because the old tools wrote the values in turn, and gets a warning.
func (im *importer) set(section, option, value string, from origin) {
	if before, ok := im.out.set(section, option, value, from); ok && before.value != value {
		im.warn(from.file, from.line, from.text, "overrides the value %s of %s:%d", before.value, before.from.file, before.from.line)
	}
	im.note(from, "["+section+"] "+option+"="+value)
}

func (im *importer) note(from origin, to string) {
	im.translated = append(im.translated, Translation{from.file, from.line, oneLine(from.text), to})
}

func (im *importer) result() Result {
	r := Result{Name: im.name, Translated: im.translated, Warnings: im.warnings}
	order := []string{confFile, sysconfigFile, sysctlFile, scriptFile}
	place := func(file string) int {
		if i := slices.Index(order, file); i >= 0 {
			return i
		}
		return len(order)
	}
	sort.SliceStable(r.Warnings, func(i, j int) bool {
		a, b := r.Warnings[i], r.Warnings[j]
		if place(a.File) != place(b.File) {
			return place(a.File) < place(b.File)
		}
		if a.File != b.File {
			return a.File < b.File
		}
		return a.Line < b.Line
	})
	sort.SliceStable(r.Translated, func(i, j int) bool {
		a, b := r.Translated[i], r.Translated[j]
		if place(a.File) != place(b.File) {
			return place(a.File) < place(b.File)
		}
		return a.Line < b.Line
	})
	if im.own.needed() {
		im.out.set("script", "script", "${i:PROFILE_DIR}/script.sh", origin{scriptFile, im.own.line, "what no plug-in does"})
	}
	r.Files = append(r.Files, File{"tuned.conf", 0o644, im.out.render(im.name)})
	if im.own.needed() {
		r.Files = append(r.Files, File{"script.sh", 0o755, im.own.render(im.name)}, File{"functions.sh", 0o644, functionsText})
	}
	return r
}

// kernelRelease returns the host's uname -r.
func kernelRelease(h *host.Host) (string, error) {
	b, err := h.Files.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b)), err
}
