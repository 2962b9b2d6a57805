package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"fettle.dev/fettle/internal/host"
)

// Log is a log file or the standard input.
type Log struct {
	Path string // "-" means the standard input
	Size int64  // size on disk in bytes; 0 for the standard input
	// Listed reports whether the log was found in a directory, which may have other files.
	Listed bool

	host *host.Host
	skip int64         // number of decompressed bytes that were read earlier
	was  *Position     // position read earlier, or nil
	of   string        // path of the log if this is a rotated part
	done *atomic.Int64 // counts the bytes read, unless the log is a plain file; may be nil
}

// Of returns the path of the log. For a rotated part it is the path of the current log.
func (l Log) Of() string {
	if l.of != "" {
		return l.of
	}
	return l.Path
}

// Stdin is the path of the standard input.
const Stdin = "-"

// Find returns the logs at paths: a file, Stdin, or all files of a directory. Rotated parts
// are in order, oldest first (access.log.2.gz, access.log.1, access.log).
func Find(h *host.Host, paths []string) ([]Log, error) {
	var logs []Log
	for _, p := range paths {
		if p == Stdin {
			logs = append(logs, Log{Path: p})
			continue
		}
		info, err := h.Files.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			logs = append(logs, Log{Path: p, Size: info.Size(), host: h})
			continue
		}
		here, err := in(h, p)
		if err != nil {
			return nil, err
		}
		if len(here) == 0 {
			return nil, fmt.Errorf("%s contains no files, or only empty files", p)
		}
		slices.SortStableFunc(here, func(a, b Log) int { return older(a.Path, b.Path) })
		logs = append(logs, here...)
	}
	return logs, nil
}

// NotInCopyError is returned for a log that a copy of a machine does not contain.
type NotInCopyError struct {
	Root, Path string
	Exists     bool // the log exists on this machine
	err        error
}

func (e *NotInCopyError) Error() string {
	if e.Exists {
		return fmt.Sprintf("%s does not exist below --root %s; it exists on this machine, outside --root", e.Path, e.Root)
	}
	return fmt.Sprintf("%s does not exist, neither below --root %s nor on this machine", e.Path, e.Root)
}

func (e *NotInCopyError) Unwrap() error { return e.err }

// FindIn is like Find for a copy of a machine, opened from root. A log that is not in the copy
// is a NotInCopyError.
func FindIn(h *host.Host, root string, paths []string) ([]Log, error) {
	found, err := Find(h, paths)
	at := (*fs.PathError)(nil)
	if h.Live || !host.NotFound(err) || !errors.As(err, &at) {
		return found, err
	}
	_, none := host.Live().Files.Stat(at.Path)
	return nil, &NotInCopyError{root, at.Path, none == nil, err}
}

// in returns the logs below a directory.
func in(h *host.Host, dir string) (logs []Log, err error) {
	all, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			further, err := in(h, path)
			if err != nil {
				return nil, err
			}
			logs = append(logs, further...)
		case e.Type().IsRegular():
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // rotated since the directory was listed
			}
			if err != nil {
				return nil, err
			}
			if info.Size() > 0 {
				logs = append(logs, Log{Path: path, Size: info.Size(), Listed: true, host: h})
			}
		}
	}
	return logs, nil
}

// open opens a log and decompresses it. Its first bytes determine the compression, not its name.
func (l Log) open() (io.ReadCloser, error) {
	file := os.Stdin
	if l.Path != Stdin {
		var err error
		if file, err = l.host.OpenInput(l.Path); err != nil {
			return nil, err
		}
	}
	magic := make([]byte, 4)
	n, err := io.ReadFull(file, magic)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(err, file.Close())
	}
	var all io.Reader = file
	if _, err := file.Seek(0, io.SeekStart); err != nil { // a pipe
		all = io.MultiReader(bytes.NewReader(magic[:n]), file)
	} else if !packed(magic) {
		return file, nil
	}
	if bytes.Equal(magic, xzMagic) {
		return nil, errors.Join(&PackedError{Path: l.Path, By: "xz"}, file.Close())
	}
	if l.done != nil {
		all = counted{all, l.done}
	}
	text, done, padding := all, file.Close, new(int64)
	from := bufio.NewReaderSize(all, 256<<10)
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		text = &unzipped{from: from, padding: padding}
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		text, done = padded{z, from, padding}, func() error { z.Close(); return file.Close() }
	case bytes.HasPrefix(magic, bzip2Magic):
		text = padded{bzip2.NewReader(from), from, padding}
	}
	return stream{text, closer(done), packed(magic[:n]), padding}, nil
}

// counted counts the bytes read.
type counted struct {
	io.Reader
	done *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.done.Add(int64(n))
	return n, err
}

// stream is a log that can only be read from its beginning to its end.
type stream struct {
	io.Reader
	io.Closer
	packed  bool
	padding *int64 // zero bytes read so far after the compressed data
}

// PackedError is returned for a log with an unsupported compression.
type PackedError struct{ Path, By string }

func (p *PackedError) Error() string {
	return fmt.Sprintf("%s: compression by %s is not supported; run: %s -dc %s | fettle logs -", p.Path, p.By, p.By, p.Path)
}

// Magic numbers of compressed files. xz is not supported; its number is only for the error.
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzip2Magic = []byte("BZh")
	xzMagic    = []byte("\xfd7zX")
)

func packed(begin []byte) bool {
	return bytes.HasPrefix(begin, gzipMagic) || bytes.HasPrefix(begin, zstdMagic) || bytes.HasPrefix(begin, bzip2Magic) || bytes.HasPrefix(begin, xzMagic)
}

type closer func() error

func (c closer) Close() error { return c() }
