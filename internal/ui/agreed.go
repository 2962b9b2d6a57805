package ui

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Attended is nil where a person is at the terminal, who can be asked. The error else says
// that nothing is done.
func Attended() error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return Hinted(Refused, errors.New("nothing is changed: there is nobody to ask"), "--yes does it without asking")
	}
	return nil
}

// Agreed asks the person at the terminal; where there is none, the error is Attended's.
func (s *Screen) Agreed(question string) (bool, error) {
	if err := Attended(); err != nil {
		return false, err
	}
	fmt.Fprint(s.Err, question+" [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return false, Exit(Interrupted, errors.New("nothing is changed"))
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		s.Say("nothing is changed")
		return false, nil
	}
	return true, nil
}
