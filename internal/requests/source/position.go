package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
)

// Position is the position up to which a log was read. A later reader can continue there, even
// after the log was rotated.
type Position struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset_bytes"` // in decompressed bytes
	// The beginning identifies a log: inodes are reused, and rotation may compress a log.
	HeadBytes  int64  `json:"head_bytes"`
	HeadSHA256 string `json:"head_sha256"`
	// Inode identifies a log if none of its content was read.
	Inode uint64 `json:"inode,omitempty"`
}

// headMost is the maximum size of the beginning that identifies a log, in bytes.
const headMost = 4096

// Positions returns the positions after the last whole lines that Read has read.
func (s *Set) Positions() ([]Position, error) {
	var out []Position
	for i, l := range s.Logs {
		if l.Path == Stdin || l.of != "" {
			continue
		}
		if s.states[i].moved {
			if l.was != nil {
				out = append(out, Position{l.Path, l.skip, l.was.HeadBytes, l.was.HeadSHA256, l.was.Inode})
			}
			continue
		}
		p := s.states[i].head
		if p == nil { // compressed
			var err error
			if p, err = l.head(min(s.states[i].end, headMost)); err != nil && s.states[i].cut != nil {
				if l.was != nil {
					out = append(out, *l.was)
				}
				continue // damaged from the beginning; it will be read again
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, Position{l.Path, s.states[i].end, p.HeadBytes, p.HeadSHA256, p.Inode})
	}
	return out, nil
}

// Ends returns the positions after the last whole line of logs.
func Ends(logs []Log) ([]Position, error) {
	var out []Position
	for _, l := range logs {
		if l.Path == Stdin {
			return nil, errors.New("standard input cannot be followed; leave out --follow to read it as it comes")
		}
		p, err := l.end()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
		out = append(out, *p)
	}
	return out, nil
}

// end returns the position after the last whole line of a log.
func (l Log) end() (*Position, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	from := int64(0)
	file, _ := r.(*os.File)
	if file != nil {
		st, err := file.Stat()
		if err != nil {
			return nil, err
		}
		from = max(0, st.Size()-Size)
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return nil, err
		}
	}
	end := from
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if at := bytes.LastIndexByte(buf[:n], '\n'); at >= 0 {
			end = from + int64(at) + 1
		}
		from += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	var p *Position
	if file != nil {
		p, err = headOf(file, min(end, headMost))
	} else {
		p, err = l.head(min(end, headMost))
	}
	if err != nil {
		return nil, err
	}
	p.Path, p.Offset = l.Path, end
	return p, nil
}

// First returns up to n bytes from the beginning of a log, decompressed.
func (l Log) First(n int64) ([]byte, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := first(r, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	return text, nil
}

func first(r io.Reader, n int64) ([]byte, error) {
	text := make([]byte, n)
	k, err := io.ReadFull(r, text)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return text[:k], err
}

// head returns a position that identifies the log by up to n bytes.
func (l Log) head(n int64) (*Position, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if f, ok := r.(*os.File); ok {
		return headOf(f, n)
	}
	text, err := first(r, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	sum := sha256.Sum256(text)
	return &Position{HeadBytes: int64(len(text)), HeadSHA256: hex.EncodeToString(sum[:])}, nil
}

// headOf returns a position that identifies an open file by up to n bytes of its beginning.
func headOf(f *os.File, n int64) (*Position, error) {
	text := make([]byte, n)
	k, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.Sum256(text[:k])
	p := &Position{HeadBytes: int64(k), HeadSHA256: hex.EncodeToString(sum[:])}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		p.Inode = sys.Ino
	}
	return p, nil
}

// begins reports whether now identifies the same log as p.
func (p *Position) begins(now *Position) bool {
	if p.HeadBytes == 0 && p.Inode != 0 {
		return now.Inode == p.Inode
	}
	return now.HeadBytes == p.HeadBytes && now.HeadSHA256 == p.HeadSHA256
}

// of reports whether p identifies an open file.
func (p *Position) of(f *os.File) bool {
	now, err := headOf(f, p.HeadBytes)
	return err == nil && p.begins(now)
}

// is reports whether p identifies l.
func (p *Position) is(l Log) bool {
	now, err := l.head(p.HeadBytes)
	return err == nil && p.begins(now)
}

// Continue returns the parts of logs that were not read up to positions. For a rotated log,
// the rest of the rotated file comes first, unless that file is one of logs. A log without a
// position is returned whole. lost names rotated logs whose rotated file no longer exists.
func Continue(logs []Log, positions []Position) (next []Log, lost []string, err error) {
	was := found(logs, positions)
	for i, l := range logs {
		p := positionOf(positions, l)
		switch {
		case was[i] != nil:
			if l.skip, l.was = was[i].Offset, was[i]; was[i].Path == l.Path && l.Size > 0 && l.Size < l.skip && logformat.Uncompressed(l.Path) == l.Path {
				l.skip = 0 // truncated, but begins with the same lines
			}
		case p == nil, slices.Contains(was, p): // new, or its rotated file is one of logs
		default:
			old, err := p.rotated(l.host)
			if err != nil {
				return nil, nil, err
			}
			if old == nil {
				lost = append(lost, l.Path)
				break
			}
			old.skip, old.was, old.of = p.Offset, p, l.Path
			next = append(next, *old)
		}
		next = append(next, l)
	}
	return next, lost, nil
}

// positionOf returns the saved position of a log by path, or nil.
func positionOf(positions []Position, l Log) *Position {
	at := slices.IndexFunc(positions, func(p Position) bool { return p.Path == l.Path })
	if at < 0 || l.Path == Stdin {
		return nil
	}
	return &positions[at]
}

// found returns the position of each log, or nil. It matches logs by their paths, or if
// rotated, by the paths that they had before.
func found(logs []Log, positions []Position) []*Position {
	was := make([]*Position, len(logs))
	taken := map[*Position]bool{}
	for i, l := range logs {
		if p := positionOf(positions, l); p != nil && p.is(l) {
			was[i], taken[p] = p, true
		}
	}
	for i, l := range logs {
		if was[i] != nil || l.Path == Stdin {
			continue
		}
		for k := range positions {
			p := &positions[k]
			if told := p.HeadBytes > 0 || p.Inode != 0; told && !taken[p] && p.is(l) {
				was[i], taken[p] = p, true
				break
			}
		}
	}
	return was
}

// rotated returns the file into which a log was rotated, or nil.
func (p *Position) rotated(h *host.Host) (*Log, error) {
	found, err := Beside(h, p.Path)
	if err != nil {
		return nil, err
	}
	// Newest first: it is nearly always the right one.
	for i := range found {
		if p.is(found[i]) {
			return &found[i], nil
		}
	}
	return nil, nil
}
