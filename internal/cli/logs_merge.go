package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/ui"
)

func logsMergeCommand(a *app) *cobra.Command {
	var o logscli.Options
	c := &cobra.Command{
		Use: "merge PART...", Short: "Merge results that --save wrote on several machines",
		Long: `Merges saved results. The result is the same as if all logs were read at once. All parts
must be grouped in the same way.`,
		Args: cobra.MinimumNArgs(1), Annotations: map[string]string{moreFormats: logscli.Formats},
		RunE: func(c *cobra.Command, args []string) error {
			o.Shown.Groups = c.Flags().Changed("top")
			return a.logsMerge(o, args)
		},
	}
	o.Order(c)
	c.Flags().StringVar(&o.Save, "save", "", "also write the merged result into this file")
	return c
}

func (a *app) logsMerge(o logscli.Options, paths []string) error {
	if err := o.MaySave(); err != nil {
		return err
	}
	var all *logs.Result
	for _, p := range paths {
		part, err := loadPart(p)
		if err == nil && all != nil {
			err = all.Merge(part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if all == nil {
			all = part
		}
	}
	r := all.Report(o.Sort, o.Top)
	if a.screen.Format != ui.Table && a.screen.Format != ui.Markdown { // tables have it in their notes
		for _, n := range logs.Times(r) {
			a.screen.Say("%s", n)
		}
	}
	return logscli.Show(a.screen, r, o.Shown, o.Keep(all))
}

func loadPart(path string) (*logs.Result, error) {
	file, err := host.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return logs.Load(file)
}
