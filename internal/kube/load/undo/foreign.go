package undo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"fettle.dev/fettle/internal/kube/load/api"
	"fettle.dev/fettle/internal/kube/load/given"
	"fettle.dev/fettle/internal/kube/load/plan"
)

// What somebody may have put into a namespace of the run. A namespace is deleted with all
// that is in it, so these are looked for before. Other kinds are not.
var looked = []string{
	"/api/v1/pods", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/services", "/api/v1/serviceaccounts", "/api/v1/persistentvolumeclaims",
	"/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/batch/v1/jobs", "/apis/batch/v1/cronjobs",
}

// perSpace is up to how many namespaces are asked one by one; of more the whole cluster is
// asked once for each kind.
const perSpace = 20

// item is what of an object says whose it is.
type item struct {
	api.Metadata
	OwnerReferences []struct{ UID string }
}

// foreign are the namespaces that hold something that the run did not make, and what.
func (u *Undo) foreign(ctx context.Context, spaces map[string]int) (map[string]string, error) {
	found := map[string]string{}
	for _, path := range looked {
		resource := path[strings.LastIndexByte(path, '/')+1:]
		paths := []string{path}
		if len(spaces) <= perSpace {
			paths = nil
			for name := range spaces {
				paths = append(paths, path[:len(path)-len(resource)]+"namespaces/"+name+"/"+resource)
			}
		}
		for _, p := range paths {
			all, err := u.list(ctx, p, plan.RunLabel+"!="+u.Plan.Run)
			var refused *api.Error
			switch {
			case errors.As(err, &refused) && refused.Status == 403:
				for name := range spaces {
					found[name] = "whether somebody has put " + resource + " into it cannot be seen: " + err.Error()
				}
				continue
			case api.IsStatus(err, 404):
				continue
			case err != nil:
				return nil, fmt.Errorf("what is in the run's namespaces: %w", err)
			}
			for _, m := range all {
				if spaces[m.Namespace] > 0 && len(m.OwnerReferences) == 0 && !given.ToAll(resource, m.Name, m.Annotations) {
					found[m.Namespace] = "it holds " + resource + "/" + m.Name + ", which this run did not make"
				}
			}
		}
	}
	return found, nil
}

// list lists the metadata of objects.
func (u *Undo) list(ctx context.Context, path, selector string) ([]item, error) {
	var all []item
	next := ""
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []struct{ Metadata item }
		}
		query := "?limit=500&labelSelector=" + url.QueryEscape(selector)
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		if err := u.Server.GetMetadata(ctx, path+query, &page); err != nil {
			return all, err
		}
		for _, i := range page.Items {
			all = append(all, i.Metadata)
		}
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}
