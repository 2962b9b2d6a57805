package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The text of an archive, made to be read, compared with diff, and written by
// hand:
//
//	fettle archive v2
//	time 2026-11-21T16:00:00Z
//	# comments and empty lines may stand before the first entry
//	-- file 0644 /proc/sys/vm/swappiness --
//	60
//	-- dir 0755 /sys/block --
//	-- link /sys/block/sda -> ../devices/virtual/block/sda --
//	-- file 0400 unread /proc/kcore --
//	-- file 0200 EACCES /sys/class/x/write_only --
//	-- dir 0755 unread /etc --
//	-- absent /sys/hypervisor --
//	-- run 0 ["lscpu","--json"] --
//	{...}
//	-- stderr --
//	-- program tuned /usr/sbin/tuned --
//	-- program numad absent --
//	-- ask "postgresql /etc/postgresql/15/main/postgresql.conf" --
//	{...}
//	-- links --
//	eth0 index=2 kind=device driver=virtio_net parent=virtio0 altname=enp0s3
//	-- net eth0 ring --
//	rx=256 max=4096
//	-- net eth0 features --
//	tx-tcp-segmentation=off requested=on
//	rx-vlan-filter=on fixed
//	-- net eth0 coalesce EOPNOTSUPP --
//	-- end --
//
// An entry's content goes from the line after its heading to the next line that
// begins with "-- ". Words before the path: the type (file, dir, link,
// chardev, blockdev, fifo, socket, absent, denied), the permission bits in
// octal (the default is 0644, for directories 0755), and
//
//	noeol    the content's last line has no newline
//	escaped  the content is written with \\, \xNN and, at the start of a line, \-
//	unread   it exists, but was not read or listed
//	EACCES   or another errno's name: the error of reading or listing it
//
// A directory entry without "unread" means that every name in the directory is
// an entry of the archive. Parents need no entry of their own: they exist and
// are unread. A path with spaces or bytes that do not print is a Go string.
//
// The end mark distinguishes complete archives from truncated ones. Version 1 is
// the same without it.

const (
	archiveHeading   = "fettle archive v2"
	archiveHeadingV1 = "fettle archive v1"
)

// Limits for reading an archive, which may come from an untrusted source.
const (
	maxArchiveSize    = 512 << 20 // bytes
	maxArchiveEntries = 2_000_000
	maxArchiveDepth   = 128 // path elements
)

var archiveTypes = []struct {
	word string
	mode fs.FileMode
}{
	{"file", 0}, {"dir", fs.ModeDir}, {"link", fs.ModeSymlink},
	{"chardev", fs.ModeDevice | fs.ModeCharDevice}, {"blockdev", fs.ModeDevice},
	{"fifo", fs.ModeNamedPipe}, {"socket", fs.ModeSocket},
	{"denied", fs.ModeIrregular}, // lstat itself failed
}

func typeWord(m fs.FileMode) string {
	for _, t := range archiveTypes {
		if t.mode == m.Type() {
			return t.word
		}
	}
	return "chardev"
}

// permBits returns the mode bits that an archive stores, in the notation of chmod(1).
func permBits(m fs.FileMode) uint32 {
	p := uint32(m.Perm())
	for _, b := range modeBits {
		if m&b.mode != 0 {
			p |= b.bit
		}
	}
	return p
}

var modeBits = []struct {
	mode fs.FileMode
	bit  uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

func fileMode(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for _, b := range modeBits {
		if bits&b.bit != 0 {
			m |= b.mode
		}
	}
	return m
}

// writeTo writes the archive with its entries sorted by path, so archives can be compared with
// diff.
func (a *archive) writeTo(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", archiveHeading)
	if !a.time.IsZero() {
		fmt.Fprintf(&b, "time %s\n", a.time.UTC().Format(time.RFC3339Nano))
	}
	for _, p := range sortedKeys(a.entries) {
		e := a.entries[p]
		if p == "/" && !e.listed && e.errno == 0 {
			continue
		}
		writeEntry(&b, p, e)
		if b.Len() > 1<<20 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	for _, argv := range sortedKeys(a.commands) {
		r := a.commands[argv]
		writeContent(&b, fmt.Sprintf("run %d", r.ExitCode), argv, r.Stdout)
		if len(r.Stderr) > 0 {
			writeContent(&b, "stderr", "", r.Stderr)
		}
	}
	for _, name := range sortedKeys(a.programs) {
		at := a.programs[name]
		if at == "" {
			at = "absent"
		}
		fmt.Fprintf(&b, "-- program %s %s --\n", quotePath(name), quotePath(at))
	}
	for _, question := range sortedKeys(a.asks) {
		writeContent(&b, "ask", strconv.Quote(question), a.asks[question])
	}
	a.writeNet(&b)
	fmt.Fprintln(&b, endMark)
	_, err := w.Write(b.Bytes())
	return err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func writeEntry(b *bytes.Buffer, p string, e *entry) {
	if e.absent {
		fmt.Fprintf(b, "-- absent %s --\n", quotePath(p))
		return
	}
	if e.mode&fs.ModeSymlink != 0 {
		fmt.Fprintf(b, "-- link %s -> %s --\n", quotePath(p), quotePath(e.target))
		return
	}
	head := fmt.Sprintf("%s %s", typeWord(e.mode), Octal(e.mode))
	switch {
	case e.errno != 0:
		head += " " + errnoName(e.errno)
	case e.mode.IsDir() && !e.listed, !e.mode.IsDir() && !e.read:
		head += " unread"
	}
	writeContent(b, head, quotePath(p), []byte(e.data))
}

func writeContent(b *bytes.Buffer, head, name string, data []byte) {
	b.WriteString("-- " + head)
	escaped := needsEscape(data)
	if escaped {
		b.WriteString(" escaped")
	}
	noeol := len(data) > 0 && data[len(data)-1] != '\n'
	if noeol {
		b.WriteString(" noeol")
	}
	if name != "" {
		b.WriteString(" " + name)
	}
	b.WriteString(" --\n")
	if escaped {
		data = escape(data)
	}
	b.Write(data)
	if noeol {
		b.WriteByte('\n')
	}
}

func plainRune(r rune, size int) bool {
	return r == '\n' || r == '\t' || unicode.IsPrint(r) && (r != utf8.RuneError || size > 1)
}

func needsEscape(data []byte) bool {
	if bytes.HasPrefix(data, []byte("-- ")) || bytes.Contains(data, []byte("\n-- ")) {
		return true
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if !plainRune(r, size) {
			return true
		}
		i += size
	}
	return false
}

func escape(data []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '-' && (i == 0 || data[i-1] == '\n'):
			b.WriteString(`\-`)
		case plainRune(r, size):
			b.Write(data[i : i+size])
		default:
			for _, c := range data[i : i+size] {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		i += size
	}
	return b.Bytes()
}

func unescape(data string) (string, error) {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			out = append(out, data[i])
			continue
		}
		rest := data[i+1:]
		switch {
		case len(rest) > 0 && (rest[0] == '\\' || rest[0] == '-'):
			out = append(out, rest[0])
			i++
		case len(rest) > 2 && rest[0] == 'x':
			c, err := strconv.ParseUint(rest[1:3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("bad escape %q", data[i:i+4])
			}
			out = append(out, byte(c))
			i += 3
		default:
			return "", fmt.Errorf(`bad escape: only \\, \- and \xNN are known`)
		}
	}
	return string(out), nil
}

// quotePath returns a path unchanged, or as a quoted Go string if it has spaces or unprintable
// bytes.
func quotePath(p string) string {
	plain := p != "" && p[0] != '"' && p[0] != '[' && p != "->" && p != "--" && utf8.ValidString(p)
	for _, r := range p {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != utf8.RuneError
	}
	if plain {
		return p
	}
	return strconv.Quote(p)
}

func errnoName(e syscall.Errno) string {
	if e == syscall.EOPNOTSUPP { // the same number as ENOTSUP, which drivers do not return
		return "EOPNOTSUPP"
	}
	if n := unix.ErrnoName(e); n != "" {
		return n
	}
	return "EIO"
}

var errnoByName = sync.OnceValue(func() map[string]syscall.Errno {
	m := map[string]syscall.Errno{}
	for i := syscall.Errno(1); i < 134; i++ {
		if n := unix.ErrnoName(i); n != "" {
			m[n] = i
		}
	}
	m["EOPNOTSUPP"] = syscall.EOPNOTSUPP
	return m
})

// commandKey returns the key of a command in an archive, which is its argument vector as JSON.
func commandKey(argv []string) string {
	b, _ := json.Marshal(argv) // a []string always marshals
	return string(b)
}

// cleanPath returns an error unless a path is absolute and clean. So a file has only one name
// in an archive.
func cleanPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("path %q is not absolute", p)
	case path.Clean(p) != p:
		return fmt.Errorf("path %q is not clean: write %q", p, path.Clean(p))
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("path %q has a zero byte", p)
	case len(p) > 4096 || strings.Count(p, "/") > maxArchiveDepth:
		return fmt.Errorf("path of %d bytes is too long", len(p))
	}
	return nil
}
