package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

func logsCompareCommand(a *app) *cobra.Command {
	o := logsOptions{}
	c := &cobra.Command{
		Use: "compare BEFORE AFTER", Short: "Compare two logs: what became slower or faster",
		Long: `Compares two logs (BEFORE and AFTER are files or directories). Each side is divided into
24 time slices, whose spread gives each difference a 95 % interval. The change of the
mean is split into a change of the mix of requests and a change of their durations. A
log does not show other changes between the two times; for a proof use fettle prove
--live.`,
		Args: cobra.ExactArgs(2), Annotations: map[string]string{moreFormats: logscli.Formats},
		RunE: func(c *cobra.Command, args []string) error {
			o.Shown.Groups = c.Flags().Changed("top")
			return a.logsCompare(c.Context(), o, args[0], args[1])
		},
	}
	f := c.Flags()
	o.common(c)
	f.StringArrayVar(&o.By, "by", nil, "group by a dimension, or by several separated by commas (default depends on the log)")
	logscli.ByDimension(c)
	return c
}

func (a *app) logsCompare(ctx context.Context, o logsOptions, before, after string) error {
	asked, err := o.asked(time.Now())
	if err == nil && len(asked.By) > 1 {
		err = ui.Instead(ui.Usage, errors.New("--by given twice; separate dimensions with commas"), "", "--by="+strings.Join(o.By, ","))
	}
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	if asked.Workers == 0 {
		asked.Workers = runtime.GOMAXPROCS(0)
	}
	h, err := a.logsHost()
	if err != nil {
		return err
	}
	o.Say, o.Command = a.screen.SayOnce, a.command
	if o.Config, err = formats.ReadConfig(h, "--config", o.config); err != nil {
		return err
	}
	if asked.By == nil {
		found, err := source.Find(h, []string{before})
		if err != nil {
			return err
		}
		set := source.NewSet(found)
		logFormats, err := o.Find(set)
		if err != nil {
			return err
		}
		if asked.By, err = logs.Usual(set, logFormats); err != nil {
			return err
		}
		if len(asked.By) == 0 {
			return ui.Retry(ui.Usage, fmt.Errorf("%s: lines have no method, requestor or status; choose a dimension with --by", before), "", "--by=path")
		}
		asked.By = asked.By[:1]
	}
	reading := sets{find: o.Find}
	stop := a.screen.Percent("reading both logs twice", reading.progress)
	c, err := logs.Compare(ctx, h, []string{before}, []string{after}, reading.next, asked, o.Sort, o.Top)
	stop()
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	if errors.As(err, new(logs.Unfit)) {
		return ui.Exit(ui.Usage, err)
	}
	if c == nil {
		return err
	}
	table := func(s *ui.Screen, c *logs.Comparison) { logs.PrintComparison(s, c, o.Shown.Groups) }
	return logscli.InForm(a.screen, c, logscli.Forms[*logs.Comparison]{Table: table, Page: logs.ComparisonPage, CSV: logs.ComparisonCSV, OpenMetrics: logs.ComparisonOpenMetrics}, err)
}

// sets holds the log sets that a comparison reads one after the other. It reads each side twice.
type sets struct {
	find func(*source.Set) ([]*logformat.Format, error)
	mu   sync.Mutex
	all  []*source.Set
}

func (r *sets) next(set *source.Set) ([]*logformat.Format, error) {
	r.mu.Lock()
	r.all = append(r.all, set)
	r.mu.Unlock()
	return r.find(set)
}

// progress returns the number of bytes read in all passes, and the total. The second side
// counts as large as the first one until it is opened.
func (r *sets) progress() (done, all int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, set := range r.all {
		n, size := set.Progress()
		done += n
		if all += size; i == len(r.all)-1 {
			all += size * int64(max(4-len(r.all), 0))
		}
	}
	return done, all
}
