package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Lacks lists missing kinds.
func Lacks(missing []plan.Missing) string {
	var all []string
	for _, m := range missing {
		all = append(all, m.Kind+" of "+m.APIVersion)
	}
	return strings.Join(all, ", ")
}

// preflight checks for existing namespaces before anything is created. If the load requests it,
// preflight deletes those of earlier runs.
func (c *Cluster) preflight(ctx context.Context, p *plan.Plan, cluster string) error {
	want := map[string]string{}
	for i := range p.Len() {
		if ifExists, space := p.StageSpace(i); space && ifExists != plan.Reuse {
			want[p.Name(i)] = ifExists
		}
	}
	if len(want) == 0 {
		return nil
	}
	there, err := c.namespaces(ctx)
	if err != nil {
		return err
	}
	uids := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(want)) { // report the first of several
		how := want[name]
		uid, is := there[name]
		if is && how == plan.Fail {
			if by, err := c.Store.Owns(cluster, map[string]bool{uid: true}); err == nil && by[uid] != "" {
				return refuse("remove that run with kubectl fettle load undo "+by[uid]+", or set ifexists: delete to remove it before each run", "namespace %s of run %s already exists; nothing created", name, by[uid])
			}
			return refuse("set ifexists: reuse to use the namespace and keep its content", "namespace %s already exists; nothing created", name)
		}
		if is {
			uids[uid] = true
		}
	}
	if len(uids) == 0 {
		return nil
	}
	by, err := c.Store.Owns(cluster, uids)
	if err != nil {
		return err
	}
	runs := map[string]bool{}
	for name, how := range want {
		uid, is := there[name]
		if !is || how != plan.Delete {
			continue
		}
		run := by[uid]
		if run == "" {
			return refuse("delete the namespace yourself, or set ifexists: reuse", "namespace %s exists and was not created by fettle, so ifexists: delete does not delete it; nothing created", name)
		}
		runs[run] = true
	}
	for run := range runs {
		if out, err := c.Undo(ctx, run, nil); err != nil {
			if out != nil && len(out.Kept) > 0 {
				err = fmt.Errorf("%s not deleted: %s: %w", out.Kept[0].Object, out.Kept[0].Why, err)
			}
			return fmt.Errorf("cannot undo run %s, whose namespaces already exist (ifexists: delete): %w", run, err)
		}
	}
	return nil
}

// namespaces returns the existing namespaces and their UIDs.
func (c *Cluster) namespaces(ctx context.Context) (map[string]string, error) {
	var page struct {
		Items []struct{ Metadata cluster.Metadata }
	}
	if err := c.Server.GetMetadata(ctx, "/api/v1/namespaces", &page); err != nil {
		var e *cluster.Error
		if errors.As(err, &e) && e.Status == http.StatusForbidden {
			return map[string]string{}, nil // each is reported when the run creates it
		}
		return nil, err
	}
	all := map[string]string{}
	for _, i := range page.Items {
		all[i.Metadata.Name] = i.Metadata.UID
	}
	return all, nil
}
