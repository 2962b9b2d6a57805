package cliutil

import (
	"context"
	"os"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// RootFlag defines --root.
func RootFlag(define func(to *string, name, value, usage string), to *string) {
	define(to, "root", "", "read another machine from a directory, such as a sosreport, or from an archive made by fettle facts --archive")
}

// OpenRoot opens the copy of a machine that --root names, and reports what it lacks.
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

// EndWith ends the process a second after ctx has ended, unless the returned function was
// called before, because reading gigabytes of logs does not check ctx. It is for verbs that
// have nothing to undo.
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
