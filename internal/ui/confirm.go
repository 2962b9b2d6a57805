package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// RequireTerminal is nil where a person is at the terminal, who can be asked. The error else says
// that nothing is done.
func RequireTerminal() error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return Retry(Refused, errors.New("nothing is changed: stdin is not a terminal, so the question cannot be asked"), "--yes answers it beforehand", "--yes")
	}
	return nil
}

// Confirm asks the person at the terminal; where there is none, the error is Attended's. It
// ends with ctx, too, as with Ctrl-C: reading a terminal, which no signal ends, is left to
// itself then.
func (s *Screen) Confirm(ctx context.Context, question string) (bool, error) {
	if err := RequireTerminal(); err != nil {
		return false, err
	}
	fmt.Fprint(s.Err, question+" [y/N] ")
	answered := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && line == "" {
			close(answered)
			return
		}
		answered <- line
	}()
	select {
	case line, said := <-answered:
		if !said {
			return false, Exit(Interrupted, errors.New("nothing is changed"))
		}
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			s.Say("nothing is changed")
			return false, nil
		}
		return true, nil
	case <-ctx.Done():
		fmt.Fprintln(s.Err)
		return false, Exit(Interrupted, errors.New("interrupted: nothing is changed"))
	}
}
