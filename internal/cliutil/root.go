package cliutil

import (
	"context"
	"os"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// RootFlag defines the flag --root.
func RootFlag(define func(to *string, name, value, usage string), to *string) {
	define(to, "root", "", "read another machine from a directory, such as a sosreport, or from an archive made by fettle facts --archive")
}

// OpenRoot opens the machine copy of --root, and reports what the copy lacks.
func OpenRoot(s *ui.Screen, root string) (*host.Host, error) {
	h, err := host.OpenRoot(root)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, err, "--root takes a directory or an archive made by fettle facts --archive")
	}
	if h.Incomplete != "" {
		s.Say("%s", h.Incomplete)
	}
	return h, nil
}

// EndWith ends the process one second after ctx has ended, unless done was called. It is for
// verbs that have nothing to undo and do not check ctx often, such as reading gigabytes of logs.
func EndWith(ctx context.Context) (done func()) {
	finished := make(chan struct{})
	go func() {
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		select {
		case <-finished:
		case <-time.After(time.Second):
			os.Exit(ui.Interrupted)
		}
	}()
	return func() { close(finished) }
}
