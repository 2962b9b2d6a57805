package sizing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// WriteDir writes the files of a plan below a directory, and creates a missing directory. After an
// error the directory is unchanged. owner names the plan; with owner "" files of earlier plans
// remain.
func WriteDir(dir, owner string, artefacts []Artefact, force bool) (*Written, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	made, err := makeDirectory(dir)
	if err != nil {
		return nil, err
	}
	files, err := Write(host.Mounted(dir).Files, owner, artefacts, force)
	if err == nil {
		return &Written{Dir: dir, Files: files}, nil
	}
	for _, d := range slices.Backward(made) {
		_ = os.Remove(d)
	}
	var foreign *ForeignError
	if errors.As(err, &foreign) {
		slices.Sort(foreign.Names)
		slices.Sort(foreign.Taken)
		return nil, ui.Retry(ui.Refused, fmt.Errorf("%s: %w", dir, err), "nothing written; name another directory, or overwrite the files with --force", "--force")
	}
	var half *HalfError
	if errors.As(err, &half) {
		return nil, ui.Hinted(ui.Incomplete, fmt.Errorf("--write: %s: %w", dir, err), "check the files in "+dir+" before they are used")
	}
	path := dir
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		path = filepath.Join(dir, at.Path) // is below dir
	}
	return nil, notWritten(path, err)
}

// makeDirectory creates a directory and its missing parents. It returns the created ones,
// outermost first.
func makeDirectory(dir string) ([]string, error) {
	// The existing part of the path must be a directory.
	at := dir
	for ; at != "/"; at = filepath.Dir(at) {
		if _, err := host.Live().Files.Lstat(at); err == nil {
			break
		}
	}
	switch info, err := host.Live().Files.Stat(at); {
	case errors.Is(err, fs.ErrNotExist):
		to, _ := host.Live().Files.Readlink(at)
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--write: %s is a link to %s, which does not exist", at, to), "name the directory itself")
	case err != nil:
		return nil, notWritten(at, err)
	case !info.IsDir():
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--write: %s is not a directory", at), "name a directory; it is made if it is missing")
	}
	var made []string
	for _, d := range host.MissingDirs(dir) {
		if err := host.Live().Files.Mkdir(d, 0o755); err != nil {
			for _, d := range slices.Backward(made) {
				_ = os.Remove(d)
			}
			return nil, notWritten(d, err)
		}
		made = append(made, d)
	}
	return made, nil
}

// notWritten returns the error of a write to a path, with a hint.
func notWritten(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	hint := "nothing is written"
	switch {
	case errors.Is(err, syscall.EROFS):
		hint += ": the file system is mounted read-only; name a directory on another"
	case errors.Is(err, fs.ErrPermission):
		hint += fmt.Sprintf(": user %d may not write there; name a directory of your own", os.Geteuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint += ": make room, or name a directory on another file system"
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("--write: %s: %w", path, err), hint)
}
