package logs

import (
	"fmt"

	"fettle.dev/fettle/internal/text"
)

// NoUnit lists the durations that are left out because their unit is unknown, with the command
// that reads them.
func NoUnit(read []LogRead) (out []string) {
	for _, l := range read {
		if l.UnitUnknown != "" {
			command := text.CommandLine([]string{"fettle", "logs", l.Path, "--duration", l.UnitUnknown, "--unit", "s"})
			out = append(out, fmt.Sprintf("durations are left out, as the unit of %q is unknown; if it is seconds (or ms, us, ns): %s", l.UnitUnknown, command))
		}
	}
	return out
}
