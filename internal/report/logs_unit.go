package report

import (
	"fmt"

	"fettle.dev/fettle/internal/logs"
)

// LogsNoUnit names the logs whose durations are left out because their unit is unknown, and
// the command that reads them.
func LogsNoUnit(read []logs.LogRead) (out []string) {
	for _, l := range read {
		if l.UnitUnknown != "" {
			out = append(out, fmt.Sprintf("durations are left out, as the unit of %q is unknown: fettle logs %s --duration %s --unit s (or ms, us, ns) reads them", l.UnitUnknown, l.Path, l.UnitUnknown))
		}
	}
	return out
}
