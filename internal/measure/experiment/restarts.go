package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// refuseRestarts returns an error if the change restarts programs, and TestSystem does not name
// this machine: each switch would be an outage for the clients of the program. Otherwise it
// prints which programs are restarted, and how often: "at least 9".
func (p *Experiment) refuseRestarts(tested []tune.Step, times string) error {
	name := evidence.Fingerprint(p.Host).Name
	if p.o.TestSystem != "" && p.o.TestSystem != name {
		return ui.Instead(ui.Refused, fmt.Errorf("--test-system %s: this machine is %s", p.o.TestSystem, name), "only if this is a test system", "--test-system="+name)
	}
	if unread := p.unread(tested); len(unread) > 0 && len(unread) == len(tested) {
		return ui.Exit(ui.Failed, fmt.Errorf("the change cannot be measured: no running program reads %s; start the program first", strings.Join(unread, ", ")))
	}
	programs := restarts(tested)
	if len(programs) == 0 {
		return nil
	}
	outage := text.Sprintf("each switch is a restart of %s, with an outage for its clients: %s restarts of each program", strings.Join(programs, " and "), times)
	if p.o.TestSystem == "" {
		return ui.Retry(ui.Refused, errors.New(outage), "only if this is a test system", "--test-system="+name)
	}
	p.Screen.Say("%s", outage)
	return nil
}

// unread returns the settings of products that do not run: their files are read at the next start.
func (p *Experiment) unread(tested []tune.Step) (out []string) {
	for _, s := range tested {
		_, product := p.Kinds[s.Setting.Kind].(setting.Activator)
		if product && s.Setting.Kind != "unit" && s.Activation.Program == "" {
			out = append(out, s.Setting.String())
		}
	}
	return out
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
