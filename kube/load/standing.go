package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// unread returns the error for a run with an unreadable journal, with the cluster's objects that
// have the run's label.
func (c *Cluster) unread(ctx context.Context, r *run.StoredRun, why *run.JournalDamaged) error {
	seen, err := c.look(ctx, r)
	if err != nil {
		return fmt.Errorf("%w; cannot list the run's objects in the cluster: %w", why, err)
	}
	x, unseen := seen.Beyond(0, c.Server, nil), seen.Unseen()
	switch {
	case x != nil:
		x.Journal = why
		return x
	case unseen != "":
		return fmt.Errorf("%w; cannot check for objects with the label %s=%s in cluster %s: %s", why, plan.RunLabel, r.ID, c.Server.Base(), unseen)
	}
	return fmt.Errorf("%w; no object in cluster %s has the label %s=%s", why, c.Server.Base(), plan.RunLabel, r.ID)
}

// unplanned returns the error for a readable load that does not produce the run's plan.
func unplanned(h run.Header) error {
	why := "made by another version of this program" // the load is unchanged
	if h.Load == "" {
		why = "load.json was edited, or made by another version of this program"
	}
	return fmt.Errorf("cannot rebuild the plan of run %s: %s; its objects have the label %s=%s", h.Run, why, plan.RunLabel, h.Run)
}

// Unloaded returns the error for a run whose load is unknown for the reason why, with the cluster's
// objects that have the run's label.
func (c *Cluster) Unloaded(ctx context.Context, id string, why error) error {
	if h, err := run.Head(filepath.Join(c.Store.Dir, id)); err == nil {
		cluster, err := c.Server.Cluster(ctx)
		if err != nil {
			return err
		}
		if cluster != h.Cluster {
			return refuse("select that cluster with --kubeconfig or --context", "%w; it was made on another cluster (%s), not on %s", why, h.Server, c.Server.Base())
		}
	}
	x, unseen, err := run.Everywhere(ctx, c.Server, id)
	switch {
	case err != nil:
		return fmt.Errorf("%w; cannot list the run's objects in the cluster: %w", why, err)
	case x != nil:
		x.Load = why
		return x
	case unseen != "":
		return fmt.Errorf("%w; cannot check for such objects in cluster %s: %s", why, c.Server.Base(), unseen)
	}
	return fmt.Errorf("%w; no object in cluster %s has this label", why, c.Server.Base())
}

// look finds objects of a run by its label.
func (c *Cluster) look(ctx context.Context, r *run.StoredRun) (*run.Labelled, error) {
	p, err := plan.Compile(ctx, r.Load, r.ID, r.Kinds)
	if err != nil {
		return nil, err
	}
	return run.Look(ctx, c.Server, p)
}

// Doubtful reports whether a run may have created objects that its journal lacks: the journal is
// unreadable, does not cover all objects, as after a crash, or lacks results.
func Doubtful(k run.StoreKept) bool {
	var damaged *run.JournalDamaged
	if k.Err != nil {
		return errors.As(k.Err, &damaged)
	}
	s := k.State
	if s.Held || s.Phase == run.Undone {
		return false
	}
	for i := range s.Reserved {
		if s.Unsure(i) {
			return true
		}
	}
	return s.Reserved < s.Header.Objects
}

// Standing holds the objects of a run that a cluster contains beyond the journal's records.
type Standing struct {
	// Unknown are the objects that the journal lacks, or all objects of the run if the load is
	// damaged; nil if there are none.
	Unknown *run.Unknown
	// Unnoted is the number of objects without a result in the journal: undo removes them.
	Unnoted int
	// Unseen is why some objects are invisible, or "".
	Unseen string
}

// Standing looks for objects of a run; it finds none for a run of another cluster.
func (c *Cluster) Standing(ctx context.Context, k run.StoreKept) (x Standing, err error) {
	covered := 0
	if k.Err == nil {
		covered = k.State.Reserved
		cluster, err := c.Server.Cluster(ctx)
		if err != nil || cluster != k.State.Header.Cluster {
			return x, err
		}
	}
	r, err := c.Store.Load(k.ID)
	var lost *run.Damaged
	switch {
	case errors.As(err, &lost):
		if x.Unknown, x.Unseen, err = run.Everywhere(ctx, c.Server, k.ID); x.Unknown != nil {
			x.Unknown.Load = lost
		}
		return x, err
	case err != nil:
		return x, err
	}
	seen, err := c.look(ctx, r)
	if err != nil {
		return x, err
	}
	x.Unknown, x.Unseen = seen.Beyond(covered, c.Server, nil), seen.Unseen()
	var damaged *run.JournalDamaged
	if x.Unknown != nil && errors.As(k.Err, &damaged) {
		x.Unknown.Journal = damaged
	}
	if k.Err == nil {
		x.Unnoted = seen.Unnoted(k.State)
	}
	return x, nil
}
