package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/logformat"
	hostlogs "fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/logs/shares"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/job"
	"fettle.dev/fettle/kube/logs"
)

// logsOptions are the options of logs.
type logsOptions struct {
	logscli.Options
	podOptions
	claim  string
	user   int64
	dryRun bool
}

// notInPods has the options of fettle logs that pods cannot have, with the reasons.
var notInPods = []struct{ name, why string }{
	{"config", "a server's configuration is on its machine, and the pods read only the volume; give its log format with --format"},
	{"follow", "the pods divide the bytes of a log, so it must not grow; fettle logs --follow reads it on its machine"},
	{"since-last", "the pods divide the bytes of whole logs; --since selects requests by their time"},
	{"workers", "each pod reads with one CPU; use more --pods"},
}

func logsCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "logs [FILE...]", Short: "Analyze request logs on a volume by pods of the cluster",
		Long: `Analyzes request logs like fettle logs, but by pods of the cluster (--pods): an Indexed
Job whose pods mount a volume (--claim) and read a share of the bytes each, cut at line
ends. The results are joined exactly: the answer is that of one process. Compressed logs,
and logs whose requests take several lines, are read whole, by one pod each. A pod that
fails is replaced and its share read again; if it fails for good, the command names it
with its share and ends without an answer. The Job is deleted at the end. If this
process is killed, the pods end, and Kubernetes removes the Job.

FILE is a path from the root of the volume; . is all of its logs.

  --dry-run  print the Job, and create nothing`,
		Args: cobra.ArbitraryArgs, Annotations: map[string]string{moreFormats: logscli.Formats},
		RunE: func(c *cobra.Command, args []string) error {
			o.Shown = hostlogs.Shown{Groups: c.Flags().Changed("top"), Slowest: c.Flags().Changed("slowest")}
			return a.logs(c.Context(), &o, args)
		},
	}
	f := c.Flags()
	o.Grouping(c)
	o.Common(c)
	f.StringVar(&o.Save, "save", "", "also write all groups into this file of this machine, for fettle logs merge")
	f.StringVar(&o.claim, "claim", "", "PersistentVolumeClaim with the logs")
	f.IntVar(&o.count, "pods", 4, "number of pods that read the logs")
	f.Int64Var(&o.user, "user-id", job.User, "user ID of the pods, which must be able to read the logs; OpenShift chooses it")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the object, and create nothing")
	cliutil.Between(f, "pods", 1, job.MaxCount, 8)
	cliutil.Between(f, "user-id", 0, 1<<31-1, job.User)
	cliutil.Reads(f, "format", "combined", func(word string) error {
		_, err := logformat.Parse(word)
		return err
	})
	cliutil.AlsoCalled(f, "claim", "pvc", "volume")
	cliutil.AlsoCalled(f, "pods", "generators", "parallelism")
	cliutil.Check(c, func([]string) error {
		if o.claim == "" {
			return ui.Retry(ui.Usage, errors.New("--claim is missing: a PersistentVolumeClaim with the logs"), "", "--claim=web-logs")
		}
		return nil
	})
	o.podOptions.flags(c, "1", "1Gi")
	f.Lookup("start-within").Usage = "end if no pod reports within this time, such as 5m"
	for _, not := range notInPods {
		f.String(not.name, "", "")
		if not.name == "follow" {
			f.Lookup(not.name).NoOptDefVal = "true"
		}
		_ = f.MarkHidden(not.name)
		cliutil.Check(c, func([]string) error {
			if !f.Changed(not.name) {
				return nil
			}
			return ui.Without(fmt.Errorf("--%s does not work in pods: %s", not.name, not.why), "--"+not.name)
		})
	}
	cliutil.Check(c, onVolume)
	return c
}

// onVolume rejects arguments that are not paths below the root of the volume.
func onVolume(args []string) error {
	if len(args) == 0 {
		return ui.Retry(ui.Usage, errors.New("no log given"), "name files by their paths from the root of the volume; . is all of its logs", "access.log")
	}
	for _, file := range args {
		switch clean := path.Clean(file); {
		case file == source.Stdin:
			return ui.OtherWord(errors.New("- is the standard input of this machine, which the pods do not have; fettle logs - reads it"), file, "access.log")
		case path.IsAbs(file):
			return ui.OtherWord(fmt.Errorf("%s: want a path from the root of the volume, without the /", file), file, "."+clean)
		case clean == ".." || strings.HasPrefix(clean, "../"):
			return ui.OtherWord(fmt.Errorf("%s is not on the volume", file), file, ".")
		}
	}
	return nil
}

// longestAnalysis is the maximum duration of an analysis.
const longestAnalysis = 24 * time.Hour

func (a *app) logs(ctx context.Context, o *logsOptions, paths []string) error {
	asked, err := o.Asked(time.Now())
	if err == nil && a.screen.Format == ui.HTML {
		err = ui.Without(errors.New("--output html shows durations over time, which the pods do not report; fettle logs merge all.part --output html makes a page without them from the file of --save all.part"), "--output")
	}
	if err != nil {
		return cliutil.OrUsage(err)
	}
	if err := o.MaySave(); err != nil {
		return err
	}
	set, err := a.jobSet(&o.podOptions, "fettle-logs", !o.dryRun)
	if err != nil {
		return err
	}
	set.Request = logs.Readers(set.Request)
	set.User, set.Deadline, set.Alone = o.user, o.startWithin+longestAnalysis, o.startWithin+toAttach
	n := &logs.Analysis{Set: *set, Claim: o.claim, StartWithin: o.startWithin, Say: a.screen.Say}
	if o.dryRun {
		return a.printObjects(n.Job())
	}
	n.AnyUser = job.OpenShift(ctx, n.Server)
	if err := a.mayCreate(ctx, &n.Set, n.Role()); err != nil {
		return err
	}
	if err := n.FindClaim(ctx); err != nil {
		return interruptedOr(ctx, err, "nothing was created")
	}
	o.Command = a.call
	a.sayCreates(&n.Set, &o.podOptions, "")
	create := func(ctx context.Context) error {
		_, err := n.Create(ctx, n.Job())
		return err
	}
	return a.inJob(ctx, &n.Set, create, func(end func() error) error {
		found, err := a.readInPods(ctx, n, shares.Request{
			Paths: paths, Format: o.Format, Unit: o.Unit, Duration: o.Duration, Command: o.Command,
			By: asked.By, Percentiles: asked.Percentiles, Groups: asked.Groups, Slowest: asked.Slowest, Where: asked.Where, Since: asked.Since, Until: asked.Until, Routes: o.Paths, Learn: o.Learn != "",
		})
		removed := end()
		if err != nil {
			return errors.Join(interruptedOr(ctx, err, "no answer"), removed)
		}
		err = incomplete(found)
		if err == nil {
			err = logscli.NoRequest(found)
		}
		return errors.Join(o.Finish(a.screen, found, err), removed)
	})
}

// readInPods reads the logs, and shows the progress.
func (a *app) readInPods(ctx context.Context, n *logs.Analysis, q shares.Request) (*hostlogs.Result, error) {
	var done, all atomic.Int64
	n.Progress = func(read, of int64) {
		done.Store(read)
		all.Store(of)
	}
	stop := a.screen.Percent("reading", func() (int64, int64) { return done.Load(), all.Load() })
	defer stop()
	return n.Run(ctx, q)
}

// incomplete returns an error that names the damaged logs, or nil.
func incomplete(r *hostlogs.Result) error {
	var all []error
	for _, l := range r.Logs {
		if l.Cut != "" {
			all = append(all, fmt.Errorf("%s: %s", l.Path, l.Cut))
		}
	}
	return errors.Join(all...)
}
