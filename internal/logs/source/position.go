package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Position is how far a log was read, so that a later reader goes on from there, also
// when the log was rotated meanwhile.
type Position struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset_bytes"` // of what the log holds, decompressed
	// The log is known again by its beginning, of so many bytes: an inode is given to
	// another file, and a rotated log is compressed into another.
	HeadBytes  int64  `json:"head_bytes"`
	HeadSHA256 string `json:"head_sha256"`
}

// headMost is how much of a log's beginning tells it from others, in bytes.
const headMost = 4096

// Positions are how far Read has come, whole lines only.
func (s *Set) Positions() ([]Position, error) {
	var out []Position
	for i, l := range s.Logs {
		if l.Path == Stdin || l.of != "" {
			continue
		}
		p := Position{Path: l.Path, Offset: s.ends[i]}
		head, sum, err := l.head(min(p.Offset, headMost))
		if err != nil {
			return nil, err
		}
		p.HeadBytes, p.HeadSHA256 = head, sum
		out = append(out, p)
	}
	return out, nil
}

// Ends are the positions at the ends of logs: behind the last whole line.
func Ends(logs []Log) ([]Position, error) {
	var out []Position
	for _, l := range logs {
		if l.Path == Stdin {
			return nil, errors.New("the standard input cannot be followed: it is read as it comes")
		}
		end, err := l.end()
		if err != nil {
			return nil, err
		}
		n, sum, err := l.head(min(end, headMost))
		if err != nil {
			return nil, err
		}
		out = append(out, Position{l.Path, end, n, sum})
	}
	return out, nil
}

// end is how long a log is to the end of its last whole line, in bytes, decompressed.
func (l Log) end() (int64, error) {
	r, err := l.open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	from := int64(0)
	if s, ok := r.(io.Seeker); ok {
		if from, err = s.Seek(-min(l.Size, Size), io.SeekEnd); err != nil {
			return 0, fmt.Errorf("%s: %w", l.Path, err)
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
			return end, nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", l.Path, err)
		}
	}
}

// head is the checksum of the first n bytes, and how many there are.
func (l Log) head(n int64) (int64, string, error) {
	r, err := l.open()
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	text := make([]byte, n)
	k, err := io.ReadFull(r, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, "", fmt.Errorf("%s: %w", l.Path, err)
	}
	sum := sha256.Sum256(text[:k])
	return int64(k), hex.EncodeToString(sum[:]), nil
}

// is says whether a log begins as the one that was read.
func (p Position) is(h *host.Host, path string) bool {
	n, sum, err := Log{Path: path, host: h}.head(p.HeadBytes)
	return err == nil && n == p.HeadBytes && sum == p.HeadSHA256
}

// Continue is what is to be read of logs since positions: of a log that was rotated, the
// rest of its old part first. A log without a position is read whole. lost names logs
// that were rotated and whose old part is not there any more.
func Continue(logs []Log, positions []Position) (next []Log, lost []string, err error) {
	for _, l := range logs {
		at := slices.IndexFunc(positions, func(p Position) bool { return p.Path == l.Path })
		if at < 0 || l.Path == Stdin {
			next = append(next, l)
			continue
		}
		p := positions[at]
		if p.is(l.host, l.Path) {
			if l.skip = p.Offset; l.Size > 0 && l.Size < p.Offset && !compressed(l.Path) {
				l.skip = 0 // truncated, and begun with the same lines
			}
			next = append(next, l)
			continue
		}
		info, old, err := p.rotated(l.host)
		switch {
		case err != nil:
			return nil, nil, err
		case old == "":
			lost = append(lost, l.Path)
		default:
			next = append(next, Log{Path: old, Size: info.Size(), host: l.host, skip: p.Offset, of: l.Path})
		}
		next = append(next, l)
	}
	return next, lost, nil
}

// rotated finds the file that a log was rotated into: one beside it whose name begins
// with the log's, or with it up to its last point (access.log, access-20261120.log.gz).
func (p Position) rotated(h *host.Host) (fs.FileInfo, string, error) {
	dir, name := filepath.Split(p.Path)
	all, err := h.Files.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, "", err
	}
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	var found []fs.FileInfo
	for _, e := range all {
		if e.Name() == name || !strings.HasPrefix(e.Name(), stem) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil {
			found = append(found, info)
		}
	}
	// The newest first: it is nearly always that one.
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range found {
		if path := filepath.Join(dir, info.Name()); p.is(h, path) {
			return info, path, nil
		}
	}
	return nil, "", nil
}

func compressed(path string) bool {
	for _, ext := range []string{".gz", ".zst", ".bz2"} {
		if strings.HasSuffix(path, ext) {
			return true
		}
	}
	return false
}
