package report

import (
	"fmt"

	"fettle.dev/fettle/internal/logs"
)

// LogsNoUnit says of which logs durations are left out because nothing says their unit, and
// which command reads them.
func LogsNoUnit(read []logs.LogRead) (out []string) {
	for _, l := range read {
		if l.UnitUnknown != "" {
			out = append(out, fmt.Sprintf("durations are left out: nothing says the unit of %q: fettle logs %s --duration %s --unit s (or ms, us, ns) reads them", l.UnitUnknown, l.Path, l.UnitUnknown))
		}
	}
	return out
}
