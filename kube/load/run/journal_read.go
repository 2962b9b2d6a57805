package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

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
	// Given back at once, when f is closed.
	s.Held = errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	return s, nil
}

// maxHeader caps a header's line, in bytes.
const maxHeader = 64 << 10

// Head reads the header of a run's journal, and nothing behind it.
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
		return nil, 0, &JournalDamaged{fmt.Errorf("%s has no header: what the run has made cannot be known from it", f.Name())}
	}
	return s, whole, nil
}
