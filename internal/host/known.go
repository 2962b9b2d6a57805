package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrNotRecorded is returned if a copy has no answer. A copy has no running kernel, and only
// the saved command outputs. In contrast, fs.ErrNotExist means that the machine certainly
// lacks the file. Unknown is never treated as absent or as a default. Callers use Unknown,
// NotFound, Why or File.
var ErrNotRecorded = errors.New("not recorded in this copy")

// NotRecorded returns an error that wraps ErrNotRecorded. what describes the missing data.
func NotRecorded(what string) error { return fmt.Errorf("%s: %w", what, ErrNotRecorded) }

// Unknown reports whether err means that this host has no answer.
func Unknown(err error) bool { return errors.Is(err, ErrNotRecorded) }

// NotFound reports whether err means that the machine lacks the file or that this copy does not
// record it. It is for callers that treat both alike: they look elsewhere, or list what exists.
func NotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) || Unknown(err) }

// Why returns why the content of p is unknown, from the error of reading p. It returns "" if
// err is nil or if the machine has no such file.
func Why(p string, err error) string {
	var pe *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return ""
	case Unknown(err):
		return p + " is not in this copy"
	case errors.Is(err, fs.ErrPermission):
		return "only root can read " + p
	case errors.As(err, &pe):
		err = pe.Err
	case strings.Contains(err.Error(), p):
		return err.Error() // err names the file, and the invalid line
	}
	return fmt.Sprintf("%s cannot be read: %v", p, err)
}

// PIDs returns the numbers of the machine's processes, ascending.
func (h *Host) PIDs() (pids []int, err error) {
	list, err := h.Files.ReadDir("/proc")
	for _, d := range list {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, err
}

// StatusFields parses /proc/PID/status (proc_pid_status(5)).
func StatusFields(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			out[key] = strings.TrimSpace(value)
		}
	}
	return out
}

// EachLine calls each for every line of a file, without the end of the line. It reads large files of
// /proc in pieces. A line is valid only during the call, and at most 64 KiB long.
func (h *Host) EachLine(p string, each func(line []byte)) error {
	var r io.Reader
	if _, live := h.Files.(liveFiles); live {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	} else {
		text, err := h.Files.ReadFile(p)
		if err != nil {
			return err
		}
		r = bytes.NewReader(text)
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		each(lines.Bytes())
	}
	return lines.Err()
}

// File is the content of a file, or why it is missing. If a missing file might exist, Unknown
// has the reason. If Unknown is empty, the machine certainly lacks the file.
type File struct {
	Path    string
	Text    string
	Exists  bool
	Unknown string
}

// File reads a file. Why it cannot be read is in the result, not an error.
func (h *Host) File(p string) File {
	b, err := h.Files.ReadFile(p)
	return File{Path: p, Text: string(b), Exists: err == nil, Unknown: Why(p, err)}
}
