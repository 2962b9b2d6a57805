package source

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// backups are the suffixes that editors and package managers append to the names of copies.
var backups = []string{"~", ".bak", ".swp", ".swo", ".orig", ".save", ".copy", ".backup", ".bkp", ".dpkg-old", ".dpkg-dist", ".dpkg-new", ".rpmsave", ".rpmorig", ".rpmnew"}

// copyNames matches names that file managers, editors and cp --backup give to copies. Its
// groups form the original's name.
var copyNames = text.LazyRegexp(`^(?:(.+?)(?: - Copy| copy|[ _]?\((?:copy|Copy|another copy|\d+(?:st|nd|rd|th) copy|copy \d+)\))(?: \(\d+\)| \d+)?(\.[^ ]*)?|Copy of (.+)|#(.+)#|(.+)\.~\d+~|(.+)\.(?:bak|save|orig)[.-]?\d+|\.(.+)\.sw[a-p])$`)

// again matches names that browsers give to a second download, which may be a different file.
var again = text.LazyRegexp(`^(.+?) ?\(\d+\)(\.[^ ]*)?$`)

// original returns the name of the original of a copy, or "". It returns true if the name
// proves that the file is a copy; a second download may be a different file.
func original(path string) (string, bool) {
	dir, base := filepath.Split(path)
	if m := copyNames().FindStringSubmatch(base); m != nil {
		return dir + strings.Join(m[1:], ""), true
	}
	if m := again().FindStringSubmatch(base); m != nil {
		return dir + m[1] + m[2], false
	}
	for _, end := range backups {
		if rest, ok := strings.CutSuffix(path, end); ok && filepath.Base(rest) != "" && !strings.HasSuffix(rest, "/") {
			return rest, true
		}
	}
	return path, false
}

func savedAgain(path string) bool { return again().MatchString(filepath.Base(path)) }

// least is the minimum size, in bytes, at which equal content proves a copy. Shorter content
// may be equal by chance.
const least = 512

// headCompared is the size of the beginning that is compared first, in bytes.
const headCompared = 4096

// LeaveCopies removes logs whose lines are all in another log, and records them in Copies.
// These are remains of an interrupted rotation (access.log.1 and access.log.1.gz) and backup
// copies (access.log~, access.log.bak).
func (s *Set) LeaveCopies() error {
	for i := 0; i < len(s.Logs); {
		why := s.copied(i)
		if why == "" {
			i++
			continue
		}
		s.Copies = append(s.Copies, NotRead{s.Logs[i].Path, why})
		if err := s.Leave(i); err != nil {
			return err
		}
	}
	return nil
}

// copied describes which log is the original of log i, or returns "" if i is not a copy.
func (s *Set) copied(i int) string {
	l := s.Logs[i]
	if l.Path == Stdin {
		return ""
	}
	name, backup := original(l.Path)
	mine := partOf(name)
	for k, other := range s.Logs {
		if k == i || other.Path == Stdin {
			continue
		}
		its, itsBackup := original(other.Path)
		theirs := partOf(its)
		switch {
		case theirs.log != mine.log || itsBackup && !backup:
		case backup && !itsBackup && (l.Listed || inEditor(l.Path)):
			return "a backup copy"
		case s.within(i, k, mine == theirs || backup):
			return "the same lines as " + other.Path
		}
	}
	return ""
}

// inEditor reports whether a file belongs to an open editor.
func inEditor(path string) bool {
	base := filepath.Base(path)
	return strings.HasSuffix(base, ".swp") || strings.HasSuffix(base, ".swo") || strings.HasPrefix(base, "#") && strings.HasSuffix(base, "#")
}

// within reports whether log i equals log k, or with begin, the beginning of log k. If both
// are equal, only one of them is within the other: the compressed one, the second download, or
// the later one.
func (s *Set) within(i, k int, begin bool) bool {
	a, err1 := s.Head(i, headCompared)
	b, err2 := s.Head(k, headCompared)
	if err1 != nil || err2 != nil || len(a) == 0 || !bytes.HasPrefix(b, a) {
		return false
	}
	n, same, longer := compare(s.Logs[i], s.Logs[k])
	switch {
	case !same || n < least && !begin:
		return false
	case longer:
		return begin
	}
	mine, err1 := s.Packed(i)
	its, err2 := s.Packed(k)
	if err1 != nil || err2 != nil {
		return false
	}
	if mine != its {
		return mine
	}
	if saved := savedAgain(s.Logs[i].Path); saved != savedAgain(s.Logs[k].Path) {
		return saved
	}
	return i > k
}

// compare compares two logs. same reports whether the first has n bytes and the second begins
// with them. longer reports whether the second has more. A damaged log ends at the damage.
func compare(first, second Log) (n int64, same, longer bool) {
	a, err1 := first.open()
	if err1 != nil {
		return 0, false, false
	}
	defer a.Close()
	b, err2 := second.open()
	if err2 != nil {
		return 0, false, false
	}
	defer b.Close()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		k, err := io.ReadFull(a, x)
		m, _ := io.ReadFull(b, y[:k])
		if m < k || !bytes.Equal(x[:k], y[:m]) {
			return n, false, false
		}
		n += int64(k)
		if err != nil {
			m, _ = io.ReadFull(b, y[:1])
			return n, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || m > 0, m > 0
		}
	}
}
