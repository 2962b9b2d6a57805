package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/report"
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
			if a.data() {
				return report.Data(a.screen, RecommendResult{"fettle/recommend/v1", r}, ui.Done)
			}
			if quiet {
				fmt.Fprintln(a.screen.Out, r.Profile)
				return nil
			}
			report.Recommendation(a.screen, r)
			return nil
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the name alone")
	return c
}

func (m *machine) recommend(ctx context.Context) (string, error) {
	r, err := m.loader.Recommend(ctx)
	if err != nil {
		return "", err
	}
	if r.Profile == "" {
		return "", ui.Hinted(ui.Failed, fmt.Errorf("no profile is recommended for this machine"), "name one: fettle list shows them")
	}
	return r.Profile, nil
}
