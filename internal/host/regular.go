package host

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenRegular opens a user-specified file for reading. It rejects other types than regular files,
// with the type in the error: reading a pipe could block forever, and a device may have no end.
func OpenRegular(name string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe waits for a writer.
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

// DescribeType returns the file type of a mode with its article: "a directory".
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
	return "not a regular file"
}

// Octal returns the permission bits of a mode as chmod(1) writes them,
// including setuid, setgid and sticky: "1777" for /tmp.
func Octal(m fs.FileMode) string { return fmt.Sprintf("%04o", permBits(m)) }
