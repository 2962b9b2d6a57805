package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/logs/export"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

func logsExportCommand(a *app) *cobra.Command {
	var o logsOptions
	var file string
	c := &cobra.Command{
		Use: "export [FILE...]", Short: "Write the requests of logs into a Parquet file",
		Long: `Writes one row for each request into a Parquet file, which DuckDB, ClickHouse and Spark
read: its log and line, and all fields of the format. Times, counts and durations (in
microseconds) are numbers, other fields are texts. Missing values are null. Logs are
given as for fettle logs: files, directories, - for standard input, or --config.`,
		RunE: func(c *cobra.Command, args []string) error {
			if file == "" {
				return ui.Retry(ui.Usage, errors.New("no file to write given"), "", "--parquet=requests.parquet")
			}
			return a.logsExport(c.Context(), o, args, file)
		},
	}
	c.Flags().StringVar(&file, "parquet", "", "file to write, or to replace if it is a Parquet file")
	o.Selects(c)
	o.Lines(c)
	o.configured(c)
	return c
}

func (a *app) logsExport(ctx context.Context, o logsOptions, paths []string, file string) error {
	asked, err := o.asked(time.Now())
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	if err := mayExport(file); err != nil {
		return err
	}
	o.Command = a.command
	_, found, err := a.findLogs(&o, &paths)
	if err != nil {
		return err
	}
	set := source.NewSet(found)
	logFormats, err := awaited(ctx, func() ([]*logformat.Format, error) { return o.Find(set) })
	if err != nil {
		return err
	}
	table, err := export.New(set, logFormats)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	f, err := host.NewFile(file)
	if err != nil {
		return err
	}
	defer f.Discard()
	stop := a.screen.Percent("exporting", set.Progress)
	res, cut := awaited(ctx, func() (*logs.Result, error) { return table.Write(ctx, f, asked) })
	stop()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case errors.As(cut, new(logs.Unfit)):
		return ui.Exit(ui.Usage, cut)
	case res == nil:
		return cut
	}
	s := table.Summary(file, res)
	if s.Requests == 0 && cut == nil {
		cut = fmt.Errorf("%s not written: no line could be read as a request", file)
	} else if err := f.Commit(0o644); err != nil {
		return err
	}
	if a.data() {
		return a.result(s, cut)
	}
	s.Print(a.screen)
	return cut
}

// mayExport returns an error if a file must not be written.
func mayExport(file string) error {
	if err := cliutil.Writable("--parquet", file); err != nil {
		return err
	}
	special, err := cliutil.Replaceable(file, export.Magic, "Parquet file")
	if err == nil && special {
		err = ui.Exit(ui.Usage, fmt.Errorf("--parquet %s: not a regular file", file))
	}
	return err
}
