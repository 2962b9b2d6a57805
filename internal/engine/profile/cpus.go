package profile

import "fettle.dev/fettle/internal/unit"

// ParseCPUs reads a CPU list in TuneD's own grammar ("1-3,^2", "0xff"), as
// plug-ins take it. A text that is no list is the empty set, as in TuneD.
func ParseCPUs(s string) (unit.CPUSet, error) { return parseTunedCPUs(s) }
