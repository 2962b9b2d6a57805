package size

import (
	"testing"

	"fettle.dev/fettle/internal/fact"
)

// What is not known of this machine has a reason, and is asked for.
func TestUnknownHere(t *testing.T) {
	for name, figure := range map[string]machineFigure{"ram": memoryHere, "cpus": cpusHere} {
		if text, unknown := figure(&fact.Facts{}); unknown == "" {
			t.Errorf("--%s is taken to be %s", name, text)
		}
	}
}
