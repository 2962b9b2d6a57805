package kubecli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/kube/load"
	"fettle.dev/fettle/internal/kube/load/store"
	"fettle.dev/fettle/internal/ui"
)

// standingWithin is how long a status looks for what journals do not hold.
const standingWithin = 20 * time.Second

// loadStanding looks in the cluster for objects of runs whose journals may not hold all
// that they made, and says what there is. runs are those of kept, in their order. Its error
// is that there are such; that the cluster cannot be asked is said, and is none.
func (a *app) loadStanding(ctx context.Context, o *loadOptions, kept []store.Kept, runs []LoadRunStatus) error {
	if !slices.ContainsFunc(kept, load.Doubtful) {
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
		if !load.Doubtful(k) {
			continue
		}
		found, unseen, err := cluster.Standing(began, k)
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
			found.Journal = nil // which is said already
			a.screen.Say("%s: %v; %s would", k.ID, found, found.Command())
		case unseen != "":
			blind(k.ID+": ", unseen)
		}
	}
	return standing(n)
}

// standing is the error of a status that has found runs with objects of which their
// journals do not know.
func standing(runs int) error {
	if runs == 0 {
		return nil
	}
	return ui.Exit(ui.Failed, errors.New("objects stand in the cluster that no journal holds"))
}
