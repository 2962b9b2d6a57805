package host

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
)

// Tail returns the whole lines within the last most bytes of a log; most is at least 1. before is
// the number of bytes before them. Only regular files are accepted.
func (h *Host) Tail(p string, most int64) (text []byte, before int64, err error) {
	before, err = h.Lines(p, most, func(line []byte) { text = append(text, line...) })
	return text, before, err
}

// Lines calls each for every line within the last most bytes of a log, or of the whole file if
// most is 0. It reads line by line, so large logs need little memory. It splits lines longer
// than 1 MiB. before is the number of skipped bytes.
func (h *Host) Lines(p string, most int64, each func(line []byte)) (before int64, err error) {
	if most == 0 {
		most = math.MaxInt64
	}
	f, err := h.OpenLog(p)
	switch {
	case errors.Is(err, errNoBackingFile):
		text, err := h.Files.ReadFile(p)
		if over := int64(len(text)) - most; over > 0 {
			_, text, _ = bytes.Cut(text[over:], []byte("\n")) // the first line may be truncated
			before = over + most - int64(len(text))
		}
		for line := range bytes.Lines(text) {
			each(line)
		}
		return before, err
	case err != nil:
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from := max(0, st.Size()-most)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	r := bufio.NewReaderSize(io.LimitReader(f, st.Size()-from), 1<<20)
	if before = from; from > 0 { // skips the truncated first line
		for {
			cut, err := r.ReadSlice('\n')
			before += int64(len(cut))
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
	}
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			each(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return before, ignoreEOF(err)
		}
	}
}

// errNoBackingFile is returned for an archive, which contains the text itself.
var errNoBackingFile = errors.New("an archive cannot be opened as separate files")

// OpenLog opens a log as a file. It returns an error for an archive.
func (h *Host) OpenLog(p string) (*os.File, error) {
	switch f := h.Files.(type) {
	case liveFiles:
		return OpenRegular(p)
	case rootedFiles:
		return f.openLog(p)
	case nodeFiles:
		return f.openLog(p)
	case copiedFiles:
		return f.openLog(p)
	case layeredFiles:
		if _, err := f.archivedFiles.ReadFile(p); Unknown(err) {
			if log, err := f.below.openLog(p); err == nil {
				return log, nil
			}
		}
	}
	return nil, errNoBackingFile
}

// OpenInput opens the same files as OpenLog, and also a pipe of this machine such as a shell's
// <(zcat LOG).
func (h *Host) OpenInput(p string) (*os.File, error) {
	if _, live := h.Files.(liveFiles); live {
		if st, err := os.Stat(p); err == nil && st.Mode()&fs.ModeNamedPipe != 0 {
			return os.Open(p)
		}
	}
	return h.OpenLog(p)
}

func (r rootedFiles) openLog(p string) (*os.File, error) {
	at, err := r.walk(p, true)
	if err != nil {
		return nil, err
	}
	f, err := OpenRegular(r.outer(at))
	return f, r.inner(err, p)
}

func (c copiedFiles) openLog(p string) (*os.File, error) {
	f, err := c.rootedFiles.openLog(p)
	return f, c.notCopied(err, p)
}

// ignoreEOF returns nil for io.EOF: a log may be shorter after a rotation.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
