package root

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal returns a new terminal: a program that reads from side receives what is written to
// person, as if typed.
func Terminal(t testing.TB) (person, side *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	return person, side
}

// endOfScreen follows the last output of a Screen. No program prints it.
const endOfScreen = "\x00end"

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// Screen returns a terminal with a width in columns for the output of a program. Call shown
// once, after the program has ended: it returns the text that is left on the terminal, without
// escape sequences and progress lines.
func Screen(t testing.TB, columns uint16) (side *os.File, shown func() string) {
	t.Helper()
	person, side := Terminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		var out strings.Builder
		defer func() { text <- out.String() }()
		for r := bufio.NewReader(person); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			line, end := strings.CutSuffix(strings.TrimSuffix(line, "\r\n"), endOfScreen)
			line = escapes.ReplaceAllString(line, "")
			out.WriteString(line[strings.LastIndexByte(line, '\r')+1:])
			if end {
				return
			}
			out.WriteByte('\n')
		}
	}()
	return side, func() string {
		fmt.Fprintln(side, endOfScreen)
		return <-text
	}
}
