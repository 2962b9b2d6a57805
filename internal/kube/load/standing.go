package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"fettle.dev/fettle/internal/kube/load/journal"
	"fettle.dev/fettle/internal/kube/load/plan"
	"fettle.dev/fettle/internal/kube/load/store"
	"fettle.dev/fettle/internal/kube/load/undo"
)

// unread is the error of a run whose journal cannot be read: with what stands in the cluster
// by the run's label, which is all that is known of it then.
func (c *Cluster) unread(ctx context.Context, r *store.Run, why *journal.Damaged) error {
	x, unseen, err := c.look(ctx, r, 0)
	switch {
	case err != nil:
		return fmt.Errorf("%w; what of the run is in the cluster: %w", why, err)
	case x != nil:
		x.Journal = why
		return x
	case unseen != "":
		return fmt.Errorf("%w; whether objects with the label %s=%s are in the cluster %s cannot be seen: %s", why, plan.RunLabel, r.ID, c.Server.Base(), unseen)
	}
	return fmt.Errorf("%w; nothing in the cluster %s has the label %s=%s: it made nothing there, or that is gone", why, c.Server.Base(), plan.RunLabel, r.ID)
}

// unplanned says that a run's load, which can be read, does not make the run's plan.
func unplanned(h journal.Header) error {
	why := "another version of this program has made it" // the load is as it was
	if h.Load == "" {
		why = "its load.json was changed, or another version of this program has made it"
	}
	return fmt.Errorf("the plan of the run %s cannot be made again as it was: %s; what it made has the label %s=%s", h.Run, why, plan.RunLabel, h.Run)
}

// Unloaded is the error of a run of which it is not known any more what it was to make, and
// why: with what stands in the cluster by the run's label.
func (c *Cluster) Unloaded(ctx context.Context, id string, why error) error {
	if h, err := journal.Head(filepath.Join(c.Store.Dir, id)); err == nil {
		cluster, err := c.Server.Cluster(ctx)
		if err != nil {
			return err
		}
		if cluster != h.Cluster {
			return refuse("name its kubeconfig or context", "%w; it was made on another cluster (%s), not on %s", why, h.Server, c.Server.Base())
		}
	}
	x, unseen, err := undo.Everywhere(ctx, c.Server, id)
	switch {
	case err != nil:
		return fmt.Errorf("%w; what of the run is in the cluster: %w", why, err)
	case x != nil:
		x.Load = why
		return x
	case unseen != "":
		return fmt.Errorf("%w; whether such are in the cluster %s cannot be seen: %s", why, c.Server.Base(), unseen)
	}
	return fmt.Errorf("%w; nothing in the cluster %s has it: it made nothing there, or that is gone", why, c.Server.Base())
}

// look looks for objects of a run that its journal does not hold: those from a number on.
func (c *Cluster) look(ctx context.Context, r *store.Run, covered int) (*undo.Unknown, string, error) {
	p, err := plan.Compile(ctx, r.Load, r.ID, r.Kinds)
	if err != nil {
		return nil, "", err
	}
	found, err := undo.Look(ctx, c.Server, p)
	if err != nil {
		return nil, "", err
	}
	return found.Beyond(covered, c.Server, nil), found.Unseen(), nil
}

// Doubtful says that a run may have made what its journal does not hold: it cannot be read,
// or does not cover all objects of the load, as after a crash, or after it was cut.
func Doubtful(k store.Kept) bool {
	var damaged *journal.Damaged
	return errors.As(k.Err, &damaged) || k.Err == nil && !k.State.Held && k.State.Phase != journal.Undone && k.State.Reserved < k.State.Header.Objects
}

// Standing looks for objects of a run that stand in the cluster and are not in its journal,
// or, where its load is damaged, for all of its objects; nil for none, and for a run of another cluster. unseen is why some cannot be seen.
func (c *Cluster) Standing(ctx context.Context, k store.Kept) (found *undo.Unknown, unseen string, err error) {
	covered := 0
	if k.Err == nil {
		covered = k.State.Reserved
		cluster, err := c.Server.Cluster(ctx)
		if err != nil || cluster != k.State.Header.Cluster {
			return nil, "", err
		}
	}
	r, err := c.Store.Load(k.ID)
	var lost *store.Damaged
	switch {
	case errors.As(err, &lost):
		if found, unseen, err = undo.Everywhere(ctx, c.Server, k.ID); found != nil {
			found.Load = lost
		}
		return found, unseen, err
	case err != nil:
		return nil, "", err
	}
	found, unseen, err = c.look(ctx, r, covered)
	var damaged *journal.Damaged
	if found != nil && errors.As(k.Err, &damaged) {
		found.Journal = damaged
	}
	return found, unseen, err
}
