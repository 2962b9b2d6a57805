package cli

import (
	"fmt"
	"path"
	"slices"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/profiles"
)

// refusals returns the published guidance that a profile of fettle deliberately does not follow.
func refusals(p *profile.Profile) []profiles.Refusal {
	var out []profiles.Refusal
	for _, r := range profiles.Refusals {
		if slices.ContainsFunc(p.Sources, func(s profile.Source) bool {
			return profile.IsBuiltin(s.Path) && slices.Contains(r.Profiles, path.Base(path.Dir(s.Path)))
		}) {
			out = append(out, r)
		}
	}
	return out
}

// shortRefusals returns the short names of refusals, for a headline.
func shortRefusals(all []profiles.Refusal) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.Short)
	}
	return out
}

// sayRefusals reports refusals, and the reasons, as messages.
func (a *app) sayRefusals(all []profiles.Refusal) {
	for _, r := range all {
		a.screen.Say("refused (%s): %s: %s", r.ID, r.Guidance, r.Reason)
	}
}

// printRefusals prints refusals with their reasons and sources.
func (a *app) printRefusals(all []profiles.Refusal) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(a.screen.Out)
	for _, r := range all {
		ui.PrintLine(a.screen, "! left out (%s): %s: %s (%s)", r.ID, r.Guidance, r.Reason, r.Source)
	}
}
