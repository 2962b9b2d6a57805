// Package linux answers what rules ask of every Linux machine beyond its facts:
// what its files claim against what it runs with, what its processes use of what
// they may, and who tunes it.
package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// Sources is the table of what this package reads.
func Sources() []platform.Source {
	return []platform.Source{
		sysctls, units, hugepools, tuning, processes, tunnels, filesystems, space, usage, pressure, activity, programs,
	}
}

// inputs are those of a source, by name without its prefix.
func inputs(prefix string, list ...fact.Input) []fact.Input {
	for i := range list {
		list[i].Name = prefix + "." + list[i].Name
	}
	return list
}

// read reads a file; where it has no text the answer says why: absent, or
// unknown with the path.
func read(h *host.Host, p string) (text string, why fact.Answer, ok bool) {
	b, err := h.Files.ReadFile(p)
	switch {
	case err == nil:
		return string(b), fact.Answer{At: p}, true
	case errors.Is(err, host.ErrNotRecorded):
		return "", fact.Answer{Unknown: p + " is not in this copy", At: p}, false
	case errors.Is(err, fs.ErrNotExist):
		return "", fact.Answer{At: p}, false
	case errors.Is(err, fs.ErrPermission):
		return "", fact.Answer{Unknown: "only root may read " + p, At: p}, false
	}
	return "", fact.Answer{Unknown: fmt.Sprintf("%s cannot be read: %v", p, err), At: p}, false
}

// number is a whole number of the kernel's, at most 2^53.
func number(word string) (float64, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 64)
	return float64(n), err == nil && n <= 1<<53
}

// live is a source that is opened with the machine alone.
func live(open func(*host.Host) *platform.Known) func(context.Context, *platform.Subject) platform.Answers {
	return func(_ context.Context, s *platform.Subject) platform.Answers { return open(s.Host) }
}
