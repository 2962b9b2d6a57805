package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// standingWithin is how long a status looks for what journals do not hold.
const standingWithin = 20 * time.Second

// loadStanding looks in the cluster for objects of runs whose journals may not hold all
// that they made, or whose loads are lost, and says what there is. lost and runs are of those
// of kept, in their order. Its error
// is that there are such; that the cluster cannot be asked is reported, and is not an error.
func (a *app) loadStanding(ctx context.Context, o *loadOptions, kept []loadrun.StoreKept, lost []bool, runs []LoadRunStatus) error {
	if !slices.ContainsFunc(kept, load.Doubtful) && !slices.Contains(lost, true) {
		return nil
	}
	blind := func(run string, why any) {
		a.screen.Say("%swhether the cluster has objects that the journal does not hold cannot be seen: %v", run, why)
	}
	cluster, err := a.loadCluster(o, 1)
	if err != nil {
		blind("", err)
		return nil
	}
	began, cancel := context.WithTimeout(ctx, standingWithin)
	defer cancel()
	n := 0
	for i, k := range kept {
		if !load.Doubtful(k) && !lost[i] {
			continue
		}
		x, err := cluster.Standing(began, k)
		found, unseen := x.Unknown, x.Unseen
		runs[i].Unnoted = x.Unnoted
		switch {
		case ctx.Err() != nil:
			return loadExit(ctx.Err())
		case began.Err() != nil:
			blind("", fmt.Sprintf("no answer in %s", standingWithin))
			return standing(n)
		case err != nil:
			blind(k.ID+": ", err)
		case found != nil:
			n++
			runs[i].Unknown, runs[i].Delete = found.Objects, found.Command()
			a.screen.Say("%s: %s; %s would", k.ID, found.Standing(), found.Command())
		case unseen != "":
			blind(k.ID+": ", unseen)
		}
	}
	return standing(n)
}

// unloaded is the error of a run whose load cannot be read: of one that there is, with what
// of it is in the cluster.
func (a *app) unloaded(ctx context.Context, o *loadOptions, id string, why error) error {
	var damaged *loadrun.Damaged
	if !errors.As(why, &damaged) {
		return ui.Exit(ui.Usage, why)
	}
	cluster, err := a.loadCluster(o, 1)
	if err != nil {
		return errors.Join(ui.Exit(ui.Incomplete, why), err)
	}
	return loadExit(cluster.Unloaded(ctx, id, damaged))
}

// standing is the error of a status that has found runs with objects of which their
// journals do not know.
func standing(runs int) error {
	if runs == 0 {
		return nil
	}
	return ui.Exit(ui.Failed, errors.New("objects of runs stand in the cluster that fettle cannot take back"))
}
