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

// RequireTerminal returns an error if standard input is not a terminal, so that no question
// can be asked. Its message says that nothing changed.
func RequireTerminal() error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return Retry(Refused, errors.New("cannot ask for confirmation: stdin is not a terminal; nothing changed"), "use --yes to confirm in advance", "--yes")
	}
	return nil
}

// Confirm prints a question and reads the answer from the terminal. Without a terminal it
// returns the error of RequireTerminal. If ctx ends, for example on Ctrl-C, it abandons the
// blocked read and returns.
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
			return false, Exit(Interrupted, errors.New("nothing changed"))
		}
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			s.Say("nothing changed")
			return false, nil
		}
		return true, nil
	case <-ctx.Done():
		fmt.Fprintln(s.Err)
		return false, Exit(Interrupted, errors.New("interrupted; nothing changed"))
	}
}
