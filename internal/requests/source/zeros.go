package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// A log that was truncated while its server goes on writing where it was (logrotate's
// copytruncate without O_APPEND) begins with as many zero bytes as it had; one that a crash
// cut off may have them at its end, and so does a compressed file on a medium with blocks.
// They belong to no line, and are skipped and counted.

// skipZeros finds where a log begins behind zero bytes.
func skipZeros(r io.ReadCloser) (io.ReadCloser, int64, error) {
	zeros := int64(0)
	file, _ := r.(*os.File)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if rest := bytes.TrimLeft(buf[:n], "\x00"); len(rest) > 0 {
			zeros += int64(n - len(rest))
			if file != nil {
				_, err = file.Seek(zeros, io.SeekStart)
				return file, zeros, err
			}
			of, _ := r.(stream)
			return stream{io.MultiReader(bytes.NewReader(bytes.Clone(rest)), failing{r, err}), r, of.packed, of.padding}, zeros, nil
		}
		zeros += int64(n)
		if err != nil { // the end too
			if file != nil && errors.Is(err, io.EOF) {
				return file, zeros, nil
			}
			of, _ := r.(stream)
			return stream{failing{r, err}, r, of.packed, of.padding}, zeros, nil
		}
		if n == 0 {
			continue
		}
		if file != nil && zeros == int64(len(buf)) { // what is not on the disk need not be read
			if at, err := unix.Seek(int(file.Fd()), zeros, unix.SEEK_DATA); err == nil {
				zeros = at
			} else if st, err := file.Stat(); err == nil && errors.Is(err, unix.ENXIO) {
				zeros = st.Size()
			}
			if _, err := file.Seek(zeros, io.SeekStart); err != nil {
				return nil, 0, err
			}
		}
		if len(buf) < 1<<20 {
			buf = make([]byte, 1<<20)
		}
	}
}

// failing gives an error that was there before it is read again.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Reader.Read(p)
}

// dropZeros takes zero bytes away that stand at the beginnings of lines, and with inside all
// but the first of those within one: data[from:] is new, and what is before it was looked
// at. The result is as much shorter as there were; some says that there were any.
func dropZeros(data []byte, from int, inside bool) (rest []byte, some bool) {
	at := bytes.IndexByte(data[from:], 0)
	if at < 0 {
		return data, false
	}
	at += from
	out := at
	for _, c := range data[at:] {
		if c == 0 && (out == 0 || data[out-1] == '\n' || inside && data[out-1] == 0) {
			continue
		}
		data[out] = c
		out++
	}
	return data[:out], true
}

// unzipped is what a gzip file holds: members, and zero bytes behind them. One that is
// damaged at its beginning is opened too, as one that is damaged further on.
type unzipped struct {
	from    *bufio.Reader
	z       *gzip.Reader
	err     error
	padding *int64
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.z == nil && u.err == nil {
		u.z, u.err = gzip.NewReader(u.from)
		if errors.Is(u.err, io.EOF) { // not the end of what it holds
			u.err = io.ErrUnexpectedEOF
		}
		if u.err == nil {
			u.z.Multistream(false)
		}
	}
	for {
		if u.err != nil {
			return 0, u.err
		}
		n, err := u.z.Read(p)
		if !errors.Is(err, io.EOF) {
			u.err = err
			return n, err
		}
		zeros, err := zerosOf(u.from)
		*u.padding += zeros
		if err == nil {
			err = u.z.Reset(u.from)
			u.z.Multistream(false)
		}
		u.err = err
		if n > 0 {
			return n, nil
		}
	}
}

// zerosOf skips zero bytes and counts them; io.EOF says that nothing is behind them.
func zerosOf(r *bufio.Reader) (n int64, err error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return n, err
		}
		if c != 0 {
			return n, r.UnreadByte()
		}
		n++
	}
}

// padded is what a file holds whose decoder takes zero bytes behind its end for damage.
type padded struct {
	io.Reader
	from    *bufio.Reader
	padding *int64
}

func (p padded) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	var structure bzip2.StructuralError
	looked := int64(0) // bytes that the decoder took for the beginning of another part
	switch {
	case errors.Is(err, zstd.ErrMagicMismatch):
		looked = 4
	case errors.As(err, &structure) && structure == "bad magic value in continuation file":
		looked = 2
	default:
		return n, err
	}
	if zeros, end := zerosOf(p.from); errors.Is(end, io.EOF) {
		*p.padding += looked + zeros
		return n, io.EOF
	}
	return n, err
}
