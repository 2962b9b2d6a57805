// Package linux answers rule inputs for every Linux machine in addition to its facts: settings in
// files compared with running values, processes' use of limits, and the machine's tuners.
package linux

import (
	"context"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// Sources returns the sources of this package.
func Sources() []platform.Source {
	return []platform.Source{
		sysctls, units, hugepools, tuning, processes, tunnels, filesystems, space, usage, pressure, activity, programs,
	}
}

// inputs adds a source's prefix to the names of its inputs.
func inputs(prefix string, list ...fact.Input) []fact.Input {
	for i := range list {
		list[i].Name = prefix + "." + list[i].Name
	}
	return list
}

// read reads a file. If text is "", why is the answer: absent, or unknown with the path.
func read(h *host.Host, p string) (text string, why fact.Answer, ok bool) {
	f := h.File(p)
	return f.Text, fact.Answer{Unknown: f.Unknown, At: p}, f.Exists
}

// number parses a whole number of the kernel, at most 2^53.
func number(word string) (float64, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 64)
	return float64(n), err == nil && n <= 1<<53
}

// live converts an open function that needs only the host to a source's Open.
func live(open func(*host.Host) *platform.Known) func(context.Context, *platform.Subject) platform.Answers {
	return func(_ context.Context, s *platform.Subject) platform.Answers { return open(s.Host) }
}
