package cli

import (
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// foremanFormat is the output format that is the body of a request to Foreman.
const foremanFormat = "foreman"

// foremanReport prints a config report with the lines that add adds.
func (a *app) foremanReport(h *host.Host, add func(*ui.ForemanReport)) error {
	name, err := foremanHost(h)
	if err != nil {
		return err
	}
	r := ui.NewForemanReport(name, h.Clock.Now())
	add(r)
	return r.Write(a.screen.Out)
}

// foremanFacts prints facts for Foreman.
func (a *app) foremanFacts(h *host.Host, s *fact.Selection) error {
	name, err := foremanHost(h)
	if err != nil {
		return err
	}
	left, err := s.Foreman(a.screen.Out, name)
	if left > 0 {
		a.screen.Say("%d facts left out: Foreman stores only names of up to 255 characters", left)
	}
	return err
}

// foremanHost returns the name under which Foreman knows a machine. Foreman would create another
// host for a name without its domain.
func foremanHost(h *host.Host) (string, error) {
	name, err := h.FQDN()
	if err != nil {
		return "", ui.Hinted(ui.Failed, err, "Foreman knows hosts by their full name: hostnamectl hostname NAME.DOMAIN, or name it in /etc/hosts")
	}
	return name, nil
}
