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

// Written says what became of the artefacts.
type Written struct {
	Dir   string        `json:"dir"`
	Files []WrittenFile `json:"files"`
}

// WrittenFile is one of them, or one of an earlier plan.
type WrittenFile struct {
	Name string `json:"name"`
	// State is "new", "replaced" or "as it was"; of a file that the plan has no more,
	// "removed", or "kept" where somebody has changed it since.
	State string `json:"state"`
}

// ForeignError is files in the way.
type ForeignError struct {
	// Names are those that Write did not write, or that somebody has changed since.
	Names []string
	// Taken are those of another plan, with its name in brackets.
	Taken []string
}

func (e *ForeignError) Error() string {
	var all []string
	if len(e.Names) > 0 {
		all = append(all, "not written by fettle, or changed since: "+strings.Join(e.Names, ", "))
	}
	if len(e.Taken) > 0 {
		all = append(all, "of another plan: "+strings.Join(e.Taken, ", "))
	}
	return strings.Join(all, "; ")
}

// HalfError is files that are written in part: what was written before the error
// could not be taken back.
type HalfError struct{ Err, Back error }

func (e *HalfError) Error() string {
	return fmt.Sprintf("%v; and what was written before could not be taken back: %v", e.Err, e.Back)
}

// Write puts the artefacts of a plan below a directory (files is the machine whose
// root that is), each atomically, and takes away what an earlier plan of the same
// owner has put there and this one does not have. An owner of "" takes nothing
// away. What Write did not write itself, and what is another plan's, stays unless
// force is set: then nothing is written at all, and the error is a ForeignError.
// After any other error but a HalfError
// the directory is as it was.
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
		if back := w.takeBack(); back != nil {
			return nil, &HalfError{err, back}
		}
		return nil, err
	}
	return w.out, nil
}

// writer is a Write that is under way.
type writer struct {
	files   host.Files
	owner   string
	led     *ledger
	names   []string // of the artefacts, from "/" on
	shared  [][]string
	out     []WrittenFile
	foreign ForeignError
	undo    []func() error
}

// survey looks at what is there, and writes nothing.
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
			return fmt.Errorf("%s is a link to %s: files are put in no link's place; move it away", a.Name, to)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no regular file: move it away", a.Name)
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

// way checks that a directory is there, or can be made: what is in its way is said
// before anything is written.
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
		link = fmt.Sprintf("is a link to %s, which leads to no directory in here", to)
		if info, err = w.files.Stat(dir); err != nil {
			return fmt.Errorf("%s %s: move it away, or make what it leads to", dir[1:], link)
		}
	}
	if !info.IsDir() {
		if link == "" {
			link = "is no directory"
		}
		return fmt.Errorf("%s %s: move it away", dir[1:], link)
	}
	return nil
}

// put writes.
func (w *writer) put(artefacts []Artefact) error {
	// First what is going to be there: a run that is cut off leaves no file that the
	// next one does not know.
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
		if err := w.leave(name); err != nil {
			return err
		}
	}
	return w.putLedger()
}

// leave takes away a file that the plan has no more, unless it is another plan's
// too, or somebody has changed it.
func (w *writer) leave(name string) error {
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

// replace writes a file, and remembers what was there.
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
				return nil // it is this write that has failed
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

// takeBack undoes what has been written, the last first.
func (w *writer) takeBack() error {
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

// attrOf is what a file has beside its content.
func attrOf(info fs.FileInfo) host.Attr {
	a := host.Attr{Mode: info.Mode().Perm(), UID: os.Geteuid(), GID: os.Getegid()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.UID, a.GID = int(st.Uid), int(st.Gid)
	}
	return a
}

// inside is the path of an artefact below the directory.
func inside(name string) (string, error) {
	if !isInside(name) {
		return "", fmt.Errorf("%q is no name for an artefact", name)
	}
	return "/" + name, nil
}

func isInside(name string) bool {
	return name != "" && !strings.HasPrefix(name, "/") && path.Clean("/"+name) == "/"+name && "/"+name != ledgerName
}
