package ui

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Agreed asks the person at the terminal; where there is none, nothing is done, and the
// error says so.
func (s *Screen) Agreed(question string) (bool, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, Hinted(Refused, errors.New("nothing is changed: there is nobody to ask"), "--yes does it without asking")
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
