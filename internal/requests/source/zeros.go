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

// A log that was truncated while its server keeps writing at its old offset (logrotate's
// copytruncate without O_APPEND) begins with that many zero bytes. After a crash a log may end
// with zero bytes, and so may a compressed file on a medium with blocks. They belong to no
// line, and are skipped and counted.

// skipZeros skips zero bytes at the beginning of a log.
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
		if file != nil && zeros == int64(len(buf)) { // skip holes without reading them
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

// failing returns an earlier error before it continues reading.
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

// dropZeros removes zero bytes at the beginnings of lines. If inside is set, it also shortens each
// run of zero bytes within a line to one. Only data[from:] is searched. some reports whether there
// were zero bytes.
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

// unzipped reads a gzip file: members, and zero bytes after them. Damage at the beginning is
// reported by Read, like damage further on.
type unzipped struct {
	from    *bufio.Reader
	z       *gzip.Reader
	err     error
	padding *int64
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.z == nil && u.err == nil {
		u.z, u.err = gzip.NewReader(u.from)
		if errors.Is(u.err, io.EOF) { // must not look like the end of the content
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

// zerosOf skips and counts zero bytes; io.EOF means that nothing follows them.
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

// padded reads a file whose decoder reports zero bytes after the end as damage.
type padded struct {
	io.Reader
	from    *bufio.Reader
	padding *int64
}

func (p padded) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	var structure bzip2.StructuralError
	looked := int64(0) // bytes that the decoder consumed as the beginning of another part
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
