package cli

import (
	"path"
	"slices"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/profiles"
)

// sayRefusals reports the published guidance that one of fettle's own profiles does not follow,
// and the reason.
func (a *app) sayRefusals(p *profile.Profile) {
	for _, r := range profiles.Refusals {
		if slices.ContainsFunc(p.Sources, func(s profile.Source) bool {
			return profile.IsBuiltin(s.Path) && slices.Contains(r.Profiles, path.Base(path.Dir(s.Path)))
		}) {
			a.screen.Say("refused (%s): %s: %s", r.ID, r.Guidance, r.Reason)
		}
	}
}
