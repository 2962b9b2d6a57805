package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// refuseRestarts returns an error if the change restarts programs, and TestSystem does not name
// this machine: each switch would be an outage for the clients of the program. Otherwise it
// prints how often which programs are restarted.
func (p *Experiment) refuseRestarts(tested []tune.Step) error {
	programs := restarts(tested)
	if len(programs) == 0 {
		return nil
	}
	name := evidence.Fingerprint(p.Host).Name
	// A block has two or more switches, and the change is rehearsed once.
	least := 2*p.design.Least + 2
	outage := text.Sprintf("each switch is a restart of %s, with an outage for its clients: at least %d restarts of each program", strings.Join(programs, " and "), least)
	switch p.o.TestSystem {
	case name:
		p.Screen.Say("%s", outage)
		return nil
	case "":
		return ui.Retry(ui.Refused, errors.New(outage), "only if this is a test system", "--test-system="+name)
	}
	return ui.Instead(ui.Refused, fmt.Errorf("--test-system %s: this machine is %s", p.o.TestSystem, name), "only if this is a test system", "--test-system="+name)
}

// restarts returns the programs that a change restarts, each once.
func restarts(steps []tune.Step) (programs []string) {
	for _, s := range steps {
		if a := s.Activation; a.Restart && !slices.Contains(programs, a.Program) {
			programs = append(programs, a.Program)
		}
	}
	return programs
}
