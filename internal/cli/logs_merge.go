package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/ui"
)

func logsMergeCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "merge PART...", Short: "Merge results that --save wrote on several machines",
		Long: `Merges saved results. The result is the same as if all logs were read at once. All parts
must be grouped in the same way.`,
		Args: cobra.MinimumNArgs(1), Annotations: map[string]string{moreFormats: logsFormats},
		RunE: func(c *cobra.Command, args []string) error {
			o.shown.Groups = c.Flags().Changed("top")
			return a.logsMerge(o, args)
		},
	}
	f := c.Flags()
	f.StringVar(&o.sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.top, "top", 10, "number of groups shown; 0 for all")
	cliutil.OneOf(f, "sort", logs.Sorts...)
	cliutil.Between(f, "top", 0, 100_000_000, 20)
	f.StringVar(&o.save, "save", "", "also write the merged result into this file")
	return c
}

// partKind describes the files of --save.
const partKind = "part of fettle logs"

func (a *app) logsMerge(o logsOptions, paths []string) error {
	if err := mayReplace("--save", o.save, logs.PartBegins, partKind); err != nil {
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
	r := all.Report(o.sort, o.top)
	if a.screen.Format != ui.Table && a.screen.Format != ui.Markdown { // tables have it in their notes
		for _, n := range logs.Times(r) {
			a.screen.Say("%s", n)
		}
	}
	return a.sayLogs(r, o.shown, o.keep(all))
}

// keep writes the result to the file of --save.
func (o logsOptions) keep(r *logs.Result) error {
	if o.save == "" {
		return nil
	}
	var text bytes.Buffer
	if err := r.Save(&text); err != nil {
		return err
	}
	if err := replace(o.save, text.Bytes(), logs.PartBegins, partKind); err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}

func loadPart(path string) (*logs.Result, error) {
	file, err := host.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return logs.Load(file)
}
