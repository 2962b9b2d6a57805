package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A line of the journal begins with eight hexadecimal digits and a space: the checksum (CRC-32, IEEE)
// of the rest of the line. The rest is one letter with its data:
//
//	h JSON          the header, on the first line
//	r N             the objects below N may have been requested
//	c I UID         this run has created object I
//	x I UID         object I existed before the run, which uses it (a namespace)
//	f I "TEXT"      object I could not be created
//	n I "TEXT"      object I was certainly not created: the server rejected every request
//	d I             object I of this run was deleted, or no longer exists
//	k I "TEXT"      the undo keeps object I of this run; TEXT is the reason
//	a I             action I of the plan is done
//	m WORD TIME     the phase WORD began at TIME
const (
	letterHeader   = 'h'
	letterReserved = 'r'
	letterCreated  = 'c'
	letterReused   = 'x'
	letterFailed   = 'f'
	letterRefused  = 'n'
	letterGone     = 'd'
	letterKept     = 'k'
	letterActed    = 'a'
	letterPhase    = 'm'
)

func appendLine(dst []byte, letter byte, rest string) []byte {
	at := len(dst)
	dst = append(dst, "00000000 "...)
	dst = append(dst, letter, ' ')
	dst = append(dst, rest...)
	sum := crc32.ChecksumIEEE(dst[at+9:])
	copy(dst[at:], fmt.Sprintf("%08x", sum))
	return append(dst, '\n')
}

// parse parses a journal. whole is the length of its complete lines in bytes: an incomplete
// last line is left out, and any error before it is returned.
func parse(text []byte) (s *State, whole int, err error) {
	s = &State{}
	for line := 1; len(text) > whole; line++ {
		rest := text[whole:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return s, whole, nil // an incomplete last line
		}
		if err := s.line(rest[:end], line); err != nil {
			if len(bytes.TrimRight(rest[end+1:], "\x00")) == 0 {
				return s, whole, nil // after a power failure, the end may be arbitrary
			}
			return nil, 0, fmt.Errorf("line %d: %w", line, err)
		}
		whole += end + 1
	}
	return s, whole, nil
}

func (s *State) line(text []byte, number int) error {
	if len(text) < 11 || text[8] != ' ' || text[10] != ' ' {
		return fmt.Errorf("not a record")
	}
	if string(text[:8]) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text[9:])) {
		return fmt.Errorf("wrong checksum")
	}
	letter, rest := text[9], string(text[11:])
	if letter == letterHeader != (number == 1) {
		return fmt.Errorf("the header must be the first line, and only there")
	}
	word, value, _ := strings.Cut(rest, " ")
	switch letter {
	case letterHeader:
		if err := json.Unmarshal([]byte(rest), &s.Header); err != nil {
			return err
		}
		if s.Header.Version != version {
			return fmt.Errorf("unknown version %d: this program writes %d", s.Header.Version, version)
		}
		if s.Header.Objects < 0 || s.Header.Objects > maxObjects {
			return fmt.Errorf("invalid number of objects: %d", s.Header.Objects)
		}
		s.Objects = make([]Object, s.Header.Objects)
		return nil
	case letterPhase:
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return err
		}
		if s.Phase, s.PhaseAt = Phase(word), at; s.Phase == Running {
			// A refused object may be requested again, and that request interrupted.
			for i := range s.Objects {
				s.Objects[i].Refused = false
			}
		}
		return nil
	}
	n, err := strconv.Atoi(word)
	if letter == letterActed {
		if err != nil || n < 0 || n > maxObjects {
			return fmt.Errorf("%q is not an action of the run", word)
		}
		if s.Acted == nil {
			s.Acted = map[int]bool{}
		}
		s.Acted[n] = true
		return nil
	}
	if err != nil || n < 0 || n > len(s.Objects) || letter != letterReserved && n == len(s.Objects) {
		return fmt.Errorf("%q is not an object of the run", word)
	}
	if letter == letterReserved {
		s.Reserved = max(s.Reserved, n)
		return nil
	}
	o := &s.Objects[n]
	switch letter {
	case letterCreated:
		o.Was, o.UID = Created, value
	case letterReused:
		o.Was, o.UID = Reused, value
	case letterGone:
		o.Was = Gone
	case letterFailed, letterRefused, letterKept:
		why, err := strconv.Unquote(value)
		if err != nil {
			return err
		}
		if o.Why = why; letter == letterKept {
			o.Was = JournalKept
		} else {
			o.Was, o.Refused = Failed, letter == letterRefused
		}
	default:
		return fmt.Errorf("unknown record %q", letter)
	}
	return nil
}

// Read reads the journal of a run.
func Read(dir string) (*State, error) {
	f, err := open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, _, err := readFile(f)
	if err != nil {
		return nil, err
	}
	// Released at once, when f is closed.
	s.Held = errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	return s, nil
}

// maxHeader caps a header's line, in bytes.
const maxHeader = 64 << 10

// Head reads only the header of a run's journal.
func Head(dir string) (Header, error) {
	f, err := open(dir, os.O_RDONLY)
	if err != nil {
		return Header{}, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxHeader)).ReadBytes('\n')
	s := &State{}
	if err == nil {
		err = s.line(line[:len(line)-1], 1)
	}
	if err != nil {
		return Header{}, &JournalDamaged{fmt.Errorf("%s has no header: %w", f.Name(), err)}
	}
	return s.Header, nil
}

func readFile(f *os.File) (*State, int, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, err
	}
	s, whole, err := parse(text)
	switch {
	case err != nil:
		return nil, 0, &JournalDamaged{fmt.Errorf("%s: %w", f.Name(), err)}
	case whole == 0:
		return nil, 0, &JournalDamaged{fmt.Errorf("%s has no header, so the objects of the run are unknown", f.Name())}
	}
	return s, whole, nil
}
