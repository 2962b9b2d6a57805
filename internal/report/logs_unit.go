package report

import (
	"fmt"

	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/rule"
)

// LogsNoUnit says of which logs durations are left out because nothing says their unit, and
// which command reads them.
func LogsNoUnit(read []logs.LogRead) (out []string) {
	for _, l := range read {
		if l.UnitUnknown != "" {
			command := rule.CommandLine([]string{"fettle", "logs", l.Path, "--duration", l.UnitUnknown, "--unit", "s"})
			out = append(out, fmt.Sprintf("durations are left out: nothing says the unit of %q; if it is seconds (or ms, us, ns): %s", l.UnitUnknown, command))
		}
	}
	return out
}
