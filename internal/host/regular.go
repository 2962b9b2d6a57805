package host

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenRegular opens a file that a person named, for reading. It refuses what is
// no regular file and says what it is instead: a pipe would keep the reader
// waiting for ever, and a device may have no end.
func OpenRegular(name string) (*os.File, error) {
	// Without O_NONBLOCK the open of a pipe itself waits for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s; want a regular file", name, DescribeType(st.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// DescribeType says in words what kind of file a mode is of.
func DescribeType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// Octal is a mode's permission bits as chmod(1) takes them, set-user-ID,
// set-group-ID and sticky bit included: "1777" for /tmp.
func Octal(m fs.FileMode) string { return fmt.Sprintf("%04o", permBits(m)) }
