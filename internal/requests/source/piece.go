package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Piece is a range of a log's bytes. It has the lines that begin in it: from the offset From up to,
// and not including, To. So pieces that adjoin have each line once, wherever they adjoin.
type Piece struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Whole is the piece that has all lines of a log of any size, also of a compressed one.
var Whole = Piece{0, math.MaxInt64}

// Only limits Read to a piece of each log. An empty piece has no lines.
func (s *Set) Only(pieces []Piece) {
	for i := range s.states {
		s.states[i].piece = &pieces[i]
	}
}

// Pieces reports whether Read is limited by Only.
func (s *Set) Pieces() bool { return len(s.states) > 0 && s.states[0].piece != nil }

// part returns a reader for a piece of log i.
func (s *Set) part(i int, p Piece) (io.Reader, error) {
	all, err := s.rest(i)
	if err != nil || p == Whole {
		return all, err
	}
	file, ok := s.states[i].reader.(*os.File)
	if !ok {
		return nil, fmt.Errorf("%s is compressed: it can be read only as a whole", s.Logs[i].Path)
	}
	from, err := lineFrom(file, p.From)
	if err != nil {
		return nil, err
	}
	to, err := lineFrom(file, p.To)
	if err != nil {
		return nil, err
	}
	if p.From > 0 {
		s.states[i].before = 0 // these zero bytes are in the first piece
		return io.NewSectionReader(file, from, to-from), nil
	}
	return io.LimitReader(all, max(0, to-s.states[i].before)), nil
}

// lineFrom returns the offset of the first line that begins at an offset or later, or the end of
// the file.
func lineFrom(file *os.File, at int64) (int64, error) {
	st, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if at <= 0 || at >= st.Size() {
		return max(0, min(at, st.Size())), nil
	}
	buf := make([]byte, 64<<10)
	for at--; ; {
		n, err := file.ReadAt(buf, at)
		if end := bytes.IndexByte(buf[:n], '\n'); end >= 0 {
			return at + int64(end) + 1, nil
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
