// Package linux answers what rules ask of every Linux machine beyond its facts:
// what its files claim against what it runs with, what its processes use of what
// they may, and who tunes it.
package linux

import (
	"context"
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
	f := h.File(p)
	return f.Text, fact.Answer{Unknown: f.Unknown, At: p}, f.Exists
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
