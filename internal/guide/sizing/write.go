package sizing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// Written is the result of writing the files.
type Written struct {
	Dir   string        `json:"dir"`
	Files []WrittenFile `json:"files"`
}

// WrittenFile is a file of this plan or of an earlier one.
type WrittenFile struct {
	Name string `json:"name"`
	// State is "new", "replaced" or "as it was" (unchanged). For a file that only the earlier plan
	// had, it is "removed", or "kept" if the file was changed since.
	State string `json:"state"`
}

// ForeignError lists existing files that prevent a write.
type ForeignError struct {
	Names []string // not written by Write, or changed since
	Taken []string // of another plan, with its name in brackets
}

func (e *ForeignError) Error() string {
	var all []string
	if len(e.Names) > 0 {
		all = append(all, "not written by fettle, or edited since: "+strings.Join(e.Names, ", "))
	}
	if len(e.Taken) > 0 {
		all = append(all, "written for another plan: "+strings.Join(e.Taken, ", "))
	}
	return strings.Join(all, "; ")
}

// HalfError is an error after which files written earlier could not be restored.
type HalfError struct{ Err, Back error }

func (e *HalfError) Error() string {
	return fmt.Sprintf("%v; and the files written before could not be restored: %v", e.Err, e.Back)
}

// Write writes the files of a plan below the root of files, each atomically. It removes files that
// only an earlier plan of the same owner has; with owner "" it removes none. If files of another
// origin or plan exist and force is false, it writes nothing and returns a ForeignError. After any
// other error except a HalfError the directory is unchanged.
func Write(files host.Files, owner string, artefacts []Artefact, force bool) ([]WrittenFile, error) {
	led, err := readLedger(files)
	if err != nil {
		return nil, err
	}
	w := &writer{files: files, owner: owner, led: led}
	if err := w.survey(artefacts); err != nil {
		return nil, err
	}
	if (len(w.foreign.Names) > 0 || len(w.foreign.Taken) > 0) && !force {
		return nil, &w.foreign
	}
	if err := w.put(artefacts); err != nil {
		if back := w.rollBack(); back != nil {
			return nil, &HalfError{err, back}
		}
		return nil, err
	}
	return w.out, nil
}

// writer is a Write in progress.
type writer struct {
	files   host.Files
	owner   string
	led     *ledger
	names   []string // of the files, beginning with "/"
	shared  [][]string
	out     []WrittenFile
	foreign ForeignError
	undo    []func() error
}

// survey inspects the existing files without writing.
func (w *writer) survey(artefacts []Artefact) error {
	for _, a := range artefacts {
		name, err := inside(a.Name)
		if err != nil {
			return err
		}
		if err := w.way(path.Dir(name)); err != nil {
			return err
		}
		others := w.led.others(name, w.owner)
		state := "replaced"
		info, err := w.files.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			state, others = "new", nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := w.files.Readlink(name)
			return fmt.Errorf("%s is a link to %s; links are not replaced. Move it away", a.Name, to)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a regular file; move it away", a.Name)
		default:
			old, err := w.files.ReadFile(name)
			if err != nil {
				return err
			}
			switch {
			case string(old) == a.Content:
				state = "as it was"
			case !w.led.knows(name, old):
				w.foreign.Names = append(w.foreign.Names, a.Name)
				others = nil
			case len(others) > 0:
				w.foreign.Taken = append(w.foreign.Taken, fmt.Sprintf("%s (%s)", a.Name, strings.Join(others, ", ")))
				others = nil
			}
		}
		w.names, w.shared = append(w.names, name), append(w.shared, others)
		w.out = append(w.out, WrittenFile{Name: a.Name, State: state})
	}
	return nil
}

// way checks, before anything is written, that a directory exists or can be created.
func (w *writer) way(dir string) error {
	if dir == "/" {
		return nil
	}
	if err := w.way(path.Dir(dir)); err != nil {
		return err
	}
	info, err := w.files.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		to, _ := w.files.Readlink(dir)
		link = fmt.Sprintf("is a link to %s, which is not a subdirectory", to)
		if info, err = w.files.Stat(dir); err != nil {
			return fmt.Errorf("%s %s; move the link away, or create its target", dir[1:], link)
		}
	}
	if !info.IsDir() {
		if link == "" {
			link = "is not a directory"
		}
		return fmt.Errorf("%s %s; move it away", dir[1:], link)
	}
	return nil
}

// put writes the files.
func (w *writer) put(artefacts []Artefact) error {
	// Write the ledger first: if this run is interrupted, the next one knows all files.
	for i, a := range artefacts {
		name := w.names[i]
		if s := sum([]byte(a.Content)); !slices.Contains(w.led.Files[name], s) {
			w.led.Files[name] = append(w.led.Files[name], s)
		}
		w.led.own(name, w.owner, w.shared[i])
	}
	if err := w.putLedger(); err != nil {
		return err
	}
	for i, a := range artefacts {
		if w.out[i].State == "as it was" {
			continue
		}
		if err := w.makeDirs(path.Dir(w.names[i])); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if a.Executable {
			mode = 0o755
		}
		if err := w.replace(w.names[i], []byte(a.Content), mode); err != nil {
			return err
		}
	}
	for i, a := range artefacts {
		w.led.Files[w.names[i]] = []string{sum([]byte(a.Content))}
	}
	for _, name := range w.led.former(w.owner, w.names) {
		if err := w.drop(name); err != nil {
			return err
		}
	}
	return w.putLedger()
}

// drop removes a file that the plan no longer has, unless it also belongs to another plan or was
// changed.
func (w *writer) drop(name string) error {
	if others := w.led.others(name, w.owner); len(others) > 0 {
		w.led.own(name, "", others)
		return nil
	}
	info, err := w.files.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		w.led.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	state := "kept"
	if info.Mode().IsRegular() {
		text, err := w.files.ReadFile(name)
		if err != nil {
			return err
		}
		if w.led.knows(name, text) {
			w.undo = append(w.undo, func() error { return w.files.Replace(name, text, attrOf(info)) })
			if err := w.files.Remove(name); err != nil {
				return err
			}
			state = "removed"
			w.led.forget(name)
		}
	}
	w.out = append(w.out, WrittenFile{Name: name[1:], State: state})
	return nil
}

// replace writes a file, and records how to restore the previous one.
func (w *writer) replace(name string, text []byte, mode fs.FileMode) error {
	back := func() error { return ignoreMissing(w.files.Remove(name)) }
	attr := host.Attr{Mode: mode, UID: os.Geteuid(), GID: os.Getegid()}
	if info, err := w.files.Lstat(name); err == nil {
		old, err := w.files.ReadFile(name)
		if err != nil {
			return err
		}
		back = func() error {
			if now, err := w.files.ReadFile(name); err == nil && string(now) == string(old) {
				return nil // the write itself failed
			}
			return w.files.Replace(name, old, attrOf(info))
		}
	}
	w.undo = append(w.undo, back)
	return w.files.Replace(name, text, attr)
}

func (w *writer) putLedger() error {
	text, err := w.led.text()
	if err != nil {
		return err
	}
	return w.replace(ledgerName, text, 0o644)
}

func (w *writer) makeDirs(dir string) error {
	if dir == "/" {
		return nil
	}
	if err := w.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	err := w.files.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		w.undo = append(w.undo, func() error { return ignoreMissing(w.files.Remove(dir)) })
	}
	return err
}

// rollBack undoes the writes, the last first.
func (w *writer) rollBack() error {
	var problems []error
	for _, back := range slices.Backward(w.undo) {
		problems = append(problems, back())
	}
	return errors.Join(problems...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// attrOf returns mode and owner of a file.
func attrOf(info fs.FileInfo) host.Attr {
	a := host.Attr{Mode: info.Mode().Perm(), UID: os.Geteuid(), GID: os.Getegid()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.UID, a.GID = int(st.Uid), int(st.Gid)
	}
	return a
}

// inside returns the path of a file below the directory.
func inside(name string) (string, error) {
	if !isInside(name) {
		return "", fmt.Errorf("invalid file name %q", name)
	}
	return "/" + name, nil
}

func isInside(name string) bool {
	return name != "" && !strings.HasPrefix(name, "/") && path.Clean("/"+name) == "/"+name && "/"+name != ledgerName
}
