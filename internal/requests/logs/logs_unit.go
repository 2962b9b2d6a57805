package logs

import (
	"fmt"

	"fettle.dev/fettle/internal/text"
)

// NoUnit lists durations omitted for their unknown unit, with commands that read them.
func NoUnit(read []LogRead) (out []string) {
	for i := range read {
		if text, command := noUnit(&read[i]); command != "" {
			out = append(out, text+": "+command)
		}
	}
	return out
}

// noUnit describes the omitted durations of a log. command reads them.
func noUnit(l *LogRead) (what, command string) {
	if l.UnitUnknown == "" {
		return "", ""
	}
	return fmt.Sprintf("durations left out, because the unit of %q is unknown; if it is seconds (or ms, us, ns)", l.UnitUnknown),
		text.CommandLine([]string{"fettle", "logs", l.Path, "--duration", l.UnitUnknown, "--unit", "s"})
}
