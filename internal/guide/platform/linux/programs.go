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

// programs is what runs, containers included.
var programs = platform.Source{
	Prefix: "programs",
	Inputs: inputs("programs", fact.Input{Name: "running", Type: fact.List, Doc: "the names of the processes, each once; the kernel keeps 15 bytes of a name"}),
	Open: live(func(h *host.Host) *platform.Known {
		t := &platform.Known{}
		entries, err := h.Files.ReadDir("/proc")
		if err != nil {
			t.Rest(fmt.Sprintf("/proc cannot be listed: %v", err))
			return t
		}
		names := map[string]bool{}
		for _, e := range entries {
			if strings.Trim(e.Name(), "0123456789") != "" {
				continue
			}
			if comm, _, ok := read(h, "/proc/"+e.Name()+"/comm"); ok {
				names[strings.TrimSpace(comm)] = true
			}
		}
		if len(names) == 0 {
			t.Rest("/proc has no processes in this copy")
			return t
		}
		t.Give("programs.running", slices.Sorted(maps.Keys(names)), "/proc/*/comm")
		return t
	}),
}
