package linux

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// programs provides the running programs, including those in containers.
var programs = platform.Source{
	Prefix: "programs",
	Inputs: inputs("programs", fact.Input{Name: "running", Type: fact.List, Doc: "the names of the processes, each once; the kernel keeps 15 bytes of a name"}),
	Open: live(func(h *host.Host) *platform.Known {
		t := &platform.Known{}
		all, err := h.PIDs()
		if err != nil {
			t.Rest(unlisted(err))
			return t
		}
		names := map[string]bool{}
		for _, pid := range all {
			if comm, _, ok := read(h, fmt.Sprintf("/proc/%d/comm", pid)); ok {
				names[strings.TrimSpace(comm)] = true
			}
		}
		if len(names) == 0 {
			t.Rest("this copy contains no processes (/proc)")
			return t
		}
		t.Give("programs.running", slices.Sorted(maps.Keys(names)), "/proc/*/comm")
		return t
	}),
}

// unlisted returns why the processes are unknown.
func unlisted(err error) string { return fmt.Sprintf("/proc cannot be listed: %v", err) }
