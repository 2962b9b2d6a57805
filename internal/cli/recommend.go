package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/ui"
)

// RecommendResult is the JSON form of fettle recommend.
type RecommendResult struct {
	Schema string `json:"schema"` // fettle/recommend/v1
	profile.Recommendation
}

func recommendCommand(a *app) *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "recommend", Short: "Say which profile is meant for this machine, and why", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.machine(c.Context())
			if err != nil {
				return err
			}
			r, err := m.loader.Recommend(c.Context())
			if err != nil {
				return err
			}
			if err = m.noProfile(r); err != nil && !m.host.Live {
				a.screen.Say("%v", err) // a copy need not have it
				err = nil
			}
			switch {
			case a.data():
				return a.result(RecommendResult{"fettle/recommend/v1", r}, err)
			case err != nil:
			case quiet:
				fmt.Fprintln(a.screen.Out, r.Profile)
			default:
				profile.PrintRecommendation(a.screen, r)
			}
			return err
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the name alone")
	return c
}

// noProfile is the error of a recommendation that names a profile which there is
// not; nil where there is, or none is recommended.
func (m *machine) noProfile(r profile.Recommendation) error {
	for _, name := range strings.Fields(r.Profile) {
		if !m.loader.Has(name) {
			return ui.Hinted(ui.Failed, fmt.Errorf("%s recommends the profile %q, and there is none of that name", r.Pos, name), "fettle list shows the profiles there are")
		}
	}
	return nil
}

func (m *machine) recommend(ctx context.Context) (string, error) {
	r, err := m.loader.Recommend(ctx)
	if err != nil {
		return "", err
	}
	if r.Profile == "" {
		return "", ui.Hinted(ui.Failed, fmt.Errorf("no profile is recommended for this machine"), "name one: fettle list shows them")
	}
	return r.Profile, m.noProfile(r)
}
