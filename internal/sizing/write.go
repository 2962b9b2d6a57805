package sizing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Written says what became of the artefacts.
type Written struct {
	Dir   string        `json:"dir"`
	Files []WrittenFile `json:"files"`
}

// WrittenFile is one of them.
type WrittenFile struct {
	Name string `json:"name"`
	// State is "new", "replaced" or "as it was".
	State string `json:"state"`
}

// ledgerName is the file in which Write remembers what it has written, so that a
// later run knows its own files from those of others.
const ledgerName = "/.fettle-size.json"

// ledger is the SHA-256 of every content that Write has put, or was about to put,
// into a file.
type ledger struct {
	Schema string              `json:"schema"` // fettle/size-ledger/v1
	Files  map[string][]string `json:"files"`
}

// ForeignError is a file in the way that Write did not write, or that somebody has
// changed since.
type ForeignError struct{ Names []string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("not written by fettle, or changed since: %s", strings.Join(e.Names, ", "))
}

// Write puts the artefacts below a directory (files is the machine whose root that
// is), each atomically. What it did not write itself stays unless force is set:
// then nothing is written at all, and the error is a ForeignError.
func Write(files host.Files, artefacts []Artefact, force bool) ([]WrittenFile, error) {
	led, err := readLedger(files)
	if err != nil {
		return nil, err
	}
	var out []WrittenFile
	var foreign []string
	for _, a := range artefacts {
		name, err := inside(a.Name)
		if err != nil {
			return nil, err
		}
		w := WrittenFile{Name: a.Name, State: "replaced"}
		info, err := files.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			w.State = "new"
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is no regular file: move it away", a.Name)
		default:
			old, err := files.ReadFile(name)
			if err != nil {
				return nil, err
			}
			switch {
			case string(old) == a.Content:
				w.State = "as it was"
			case !slices.Contains(led.Files[name], sum(old)):
				foreign = append(foreign, a.Name)
			}
		}
		out = append(out, w)
	}
	if len(foreign) > 0 && !force {
		return nil, &ForeignError{foreign}
	}
	// First what is going to be there: a run that is cut off leaves no file that the
	// next one does not know.
	for _, a := range artefacts {
		name, _ := inside(a.Name)
		if s := sum([]byte(a.Content)); !slices.Contains(led.Files[name], s) {
			led.Files[name] = append(led.Files[name], s)
		}
	}
	if err := putLedger(files, led); err != nil {
		return nil, err
	}
	for i, a := range artefacts {
		if out[i].State == "as it was" {
			continue
		}
		name, _ := inside(a.Name)
		if err := makeDirs(files, path.Dir(name)); err != nil {
			return nil, err
		}
		if err := files.Replace(name, []byte(a.Content), ours(0o644)); err != nil {
			return nil, err
		}
	}
	for _, a := range artefacts {
		name, _ := inside(a.Name)
		led.Files[name] = []string{sum([]byte(a.Content))}
	}
	return out, putLedger(files, led)
}

// inside is the path of an artefact below the directory.
func inside(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || path.Clean("/"+name) != "/"+name || "/"+name == ledgerName {
		return "", fmt.Errorf("%q is no name for an artefact", name)
	}
	return "/" + name, nil
}

func ours(mode fs.FileMode) host.Attr {
	return host.Attr{Mode: mode, UID: os.Geteuid(), GID: os.Getegid()}
}

func makeDirs(files host.Files, dir string) error {
	if dir == "/" {
		return nil
	}
	if err := makeDirs(files, path.Dir(dir)); err != nil {
		return err
	}
	if err := files.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

func readLedger(files host.Files) (*ledger, error) {
	led := &ledger{Schema: "fettle/size-ledger/v1", Files: map[string][]string{}}
	text, err := files.ReadFile(ledgerName)
	if errors.Is(err, fs.ErrNotExist) {
		return led, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, led); err != nil {
		return nil, fmt.Errorf("%s: %w: move it away, and the files that fettle wrote with it", path.Base(ledgerName), err)
	}
	if led.Files == nil {
		led.Files = map[string][]string{}
	}
	return led, nil
}

func putLedger(files host.Files, led *ledger) error {
	text, err := json.MarshalIndent(led, "", "  ")
	if err != nil {
		return err
	}
	return files.Replace(ledgerName, append(text, '\n'), ours(0o644))
}
