package source

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// backups are how editors and package managers name the copy of a file.
var backups = []string{"~", ".bak", ".swp", ".swo", ".orig", ".save", ".copy", ".backup", ".bkp", ".dpkg-old", ".dpkg-dist", ".dpkg-new", ".rpmsave", ".rpmorig", ".rpmnew"}

// copyNames are how file managers, editors and cp --backup name a copy; $1 and $2 are the
// name of the file that it is of.
var copyNames = text.LazyRegexp(`^(?:(.+?)(?: - Copy| copy|[ _]?\((?:copy|Copy|another copy|\d+(?:st|nd|rd|th) copy|copy \d+)\))(?: \(\d+\)| \d+)?(\.[^ ]*)?|Copy of (.+)|#(.+)#|(.+)\.~\d+~|(.+)\.(?:bak|save|orig)[.-]?\d+|\.(.+)\.sw[a-p])$`)

// again is how a browser names a file that was there already: perhaps another one.
var again = text.LazyRegexp(`^(.+?) ?\(\d+\)(\.[^ ]*)?$`)

// original is the name of the file that a backup copy is of; false where its name does not
// tell that it is one. A file that was saved twice may be one: its name is the first's.
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

// least is how long the whole content of two parts of a log is before it makes them copies,
// in bytes: lines without a time may be the same by chance.
const least = 512

// headCompared is how much of the beginnings of logs tells whether they may be copies.
const headCompared = 4096

// LeaveCopies leaves out the logs whose lines another one of the set has: what is left of a
// rotation that was cut off (access.log.1 and access.log.1.gz), and backup copies
// (access.log~, access.log.bak). Copies then has them.
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

// copied reports of what a log is a copy; "": it is not one.
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

// inEditor reports whether a file is what an editor keeps of one that is open in it.
func inEditor(path string) bool {
	base := filepath.Base(path)
	return strings.HasSuffix(base, ".swp") || strings.HasSuffix(base, ".swo") || strings.HasPrefix(base, "#") && strings.HasSuffix(base, "#")
}

// within reports whether a log's lines are those of another one, or with begin those with
// which it begins. Of two that have the same, the later one in the set is within the other,
// unless that is compressed and it is not.
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

// compare reads two logs: same says that the first has n bytes and the second begins with
// them, longer that it goes on behind them. One that is damaged ends there.
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
