package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/ui"
)

// RecommendResult is the JSON form of fettle recommend.
type RecommendResult struct {
	Schema   string      `json:"schema"` // fettle/recommend/v1
	Headline ui.Headline `json:"headline"`
	profile.Recommendation
	// Operator must apply the profile; nil if fettle or TuneD may apply it.
	Operator *override.Operator `json:"operator,omitempty"`
}

func recommendCommand(a *app) *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "recommend", Short: "Recommend a tuning profile for this machine", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.machine(c.Context())
			if err != nil {
				return err
			}
			r, err := m.Loader.Recommend(c.Context())
			if err != nil {
				return err
			}
			if err = m.CheckRecommended(r); err != nil && !m.Host.Live {
				a.screen.Say("%v", err) // a copy may lack it
				err = nil
			}
			doc := RecommendResult{"fettle/recommend/v1", r.Headline(), r, override.NodeTuning(m.Host)}
			switch {
			case a.data():
				return a.result(doc, err)
			case err != nil:
			case quiet:
				fmt.Fprintln(a.screen.Out, r.Profile)
			default:
				profile.PrintRecommendation(a.screen, r, &doc.Headline)
				if doc.Operator != nil {
					fmt.Fprintln(a.screen.Out)
				}
				a.printOperator(doc.Operator)
				fmt.Fprintln(a.screen.Out, "\nto see what it would change:")
				ui.PrintCommand(a.screen, a.next("diff", r.Profile))
			}
			return err
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the name")
	return c
}

// printOperator reports that an operator applies the profiles, and how to request one.
func (a *app) printOperator(o *override.Operator) {
	if o == nil {
		return
	}
	ui.PrintLine(a.screen, "%s, not fettle, applies profiles on this machine", o.Name)
	ui.PrintLine(a.screen, "  because %s", o.Evidence)
	fmt.Fprintln(a.screen.Out, "\nto see the profile of each node, and whether the operator has applied it:")
	ui.PrintCommand(a.screen, o.Command)
}
