package cliutil

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Replace writes a document atomically. It may replace an older one of the same kind, which
// begins with begins. Other files are not overwritten: users easily name the evidence by mistake.
func Replace(name string, text, begins []byte, kind string) error {
	switch special, err := Replaceable(name, begins, kind); {
	case err != nil:
		return err
	case special:
		return os.WriteFile(name, text, 0o644)
	}
	return host.WriteFile(name, text, 0o644)
}

// MayReplace returns an error if the file of an option cannot be written or must not be replaced.
func MayReplace(option, name string, begins []byte, kind string) error {
	if err := Writable(option, name); name == "" || err != nil {
		return err
	}
	_, err := Replaceable(name, begins, kind)
	return err
}

// Replaceable returns an error if a file must not be replaced. special reports whether it is a
// device or a pipe.
func Replaceable(name string, begins []byte, kind string) (special bool, err error) {
	if f, err := os.Open(name); err == nil {
		begin := make([]byte, len(begins))
		st, unknown := f.Stat()
		_, _ = io.ReadFull(f, begin) // a shorter file is of another kind
		f.Close()
		switch {
		case unknown != nil:
			return false, unknown
		case !st.Mode().IsRegular():
			return true, nil
		case st.Size() > 0 && !bytes.Equal(begin, begins):
			return false, ui.Hinted(ui.Refused, fmt.Errorf("%s exists and is not a %s", name, kind), "name another file, or move this one: mv "+internaltext.Quote(name)+" "+internaltext.Quote(name+".old"))
		}
	}
	return false, nil
}
