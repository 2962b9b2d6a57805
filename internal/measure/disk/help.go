package disk

import (
	"context"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// FindFioOrHelp calls findFio. Its error also explains how to get a usable fio.
func FindFioOrHelp(ctx context.Context, h *host.Host, path string) (*Engine, error) {
	engine, err := findFio(ctx, h, path)
	switch {
	case err == nil || ctx.Err() != nil:
		return engine, err
	case errors.Is(err, errNone):
		return nil, ui.Hinted(ui.Failed, err, installHint(fact.Collect(h)))
	case path == "":
		return nil, ui.Hinted(ui.Failed, err, "use --fio PATH for another fio")
	}
	return nil, ui.Exit(ui.Usage, err)
}

// Unmade adds the exit code to the error of a directory in which files cannot be created.
func Unmade(err error) error {
	switch {
	case errors.Is(err, errNoRoom):
		return ui.Hinted(ui.Refused, err, "use a smaller --size or another directory; df -h shows which file system is full")
	case errors.Is(err, errUnwritable):
		return ui.Exit(ui.Usage, err)
	}
	return err
}

// NoRoom returns the error if the files would take too much of the free space. If a smaller size
// fits, the error's hint is a call with that size.
func NoRoom(directory string, err error) error {
	err = fmt.Errorf("%s: %w", directory, err)
	if size := (*SizeError)(nil); errors.As(err, &size) {
		return ui.Instead(ui.Refused, err, "", fmt.Sprintf("--size=%dMiB", size.Possible>>20))
	}
	return ui.Hinted(ui.Refused, err, "even the smallest --size does not fit; use another directory (df -h "+text.Quote(directory)+" shows free space)")
}

func installHint(facts *fact.Facts) string {
	ids := append([]string{facts.OS.ID.Or("")}, facts.OS.IDLike.Or(nil)...)
	if how := Install(ids...); how != "" {
		return how + " installs it; or use --fio PATH"
	}
	return "install the package fio, or use --fio PATH"
}
