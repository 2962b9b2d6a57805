package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// knows records the cluster's state before the run.
func (d *driven) knows(c *plan.Cluster) {
	d.facts.Settings["nodes"] = fmt.Sprint(c.Nodes)
	d.facts.Settings["pods that the nodes take"] = fmt.Sprint(c.Room)
	d.facts.Settings["pods before"] = fmt.Sprint(c.Have["pods"])
	if c.OpenShift != "" {
		d.facts.Settings["OpenShift"] = c.OpenShift
	}
}

// keepRecord stores the measurements next to the run's journal.
func (a *app) keepRecord(ctx context.Context, cluster *load.Cluster, d *driven, l *plan.Load, out *load.Result, doc *LoadRun) error {
	if out.Created == out.Found {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	uid, err := cluster.Server.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("cannot identify the cluster for the record of the run: %w", err)
	}
	d.facts.Server, d.facts.Cluster = cluster.Server.Base(), uid
	if version, err := cluster.Server.Version(ctx); err == nil {
		d.facts.Version = version
	}
	doc.Server, doc.Cluster, doc.Version, doc.About = d.facts.Server, d.facts.Cluster, d.facts.Version, d.facts.Settings
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	r := &load.Run{
		Command: "kubectl fettle load run " + l.File, Version: a.version, Began: d.began, Ended: time.Now(), Verdict: doc.sum(), Facts: d.facts,
		Body: load.Body{Cluster: uid, Run: d.id, Shape: load.ShapeOf(d.plan, d.wide, d.rate), Series: d.meter.Series(), Result: text},
	}
	if out.Created+out.Reused < d.plan.Len() {
		r.Body.Cut = &evidence.Interruption{Done: out.Created + out.Reused, Planned: d.plan.Len(), Of: "objects"}
	}
	r.Body.Servers(out.Servers)
	e, err := load.Keep(cluster.Store.Records(d.id), r)
	if err != nil {
		return fmt.Errorf("cannot write the record of the run: %w", err)
	}
	doc.Record = e.ID
	return nil
}

func (a *app) loadCompareCommand(o *loadOptions) *cobra.Command {
	c := &cobra.Command{
		Use: "compare A B", Short: "Compare two runs of a load, with confidence intervals",
		Long: `Compares each measurement of run B with that of run A, with confidence intervals. It
also lists other differences between the runs. A and B are names of runs, or files with
their records.

A comparison of two runs is not a proof, because the cluster may have changed between
them. For a proof use fettle prove, which alternates between both sides.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.loadCompare(o, args[0], args[1]) },
	}
	c.Flags().StringVar(&o.margin, "margin", "2%", "smallest difference that matters, in percent, such as 5%")
	cliutil.Percent(c.Flags(), "margin", "2%")
	c.Flags().BoolVar(&o.force, "force", false, "compare even if the loads or the clusters differ")
	return c
}

func (a *app) loadCompare(o *loadOptions, first, second string) error {
	margin, _ := unit.ParsePercent(o.margin) // cliutil.Percent has validated it
	s, err := a.loadStore(o)
	if err != nil {
		return err
	}
	var runs [2]*evidence.Run
	for i, name := range []string{first, second} {
		if runs[i], err = recordNamed(s, name); err != nil {
			return err
		}
	}
	found, err := load.Compare(runs[0], runs[1], margin, o.force)
	var refused *load.RecordRefused
	if errors.As(err, &refused) {
		return ui.Retry(ui.Refused, err, "--force compares the runs anyway", "--force")
	}
	if err != nil {
		return err
	}
	return a.show(found, nil, func() { prove.PrintComparison(a.screen, found) })
}

// recordNamed returns a run's record, or the record in a file.
func recordNamed(s loadrun.Store, name string) (*evidence.Run, error) {
	if _, err := os.Stat(name); err == nil {
		runs, err := evidence.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(runs) != 1 {
			return nil, ui.Exit(ui.Usage, text.Errorf("%s contains %d records, want one", name, len(runs)))
		}
		return runs[0], nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := s.Load(name); err != nil {
		return nil, ui.Hinted(ui.Usage, err, runsListed)
	}
	r, err := load.Last(s.Records(name))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return r, nil
}
