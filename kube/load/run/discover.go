// discover finds out what a load has to know of a cluster before it begins: which
// kinds there are, and what its plan is held against.

package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Kinds asks which kinds of some versions (as apps/v1) the server has. A version that
// it has not adds none.
func Kinds(ctx context.Context, s *cluster.Server, versions []string) (plan.Kinds, error) {
	all := plan.Kinds{}
	for _, v := range versions {
		path := "/apis/" + v
		if !strings.Contains(v, "/") {
			path = "/api/" + v
		}
		var list struct {
			Resources []struct {
				Name, Kind string
				Namespaced bool
				Verbs      []string
			}
		}
		err := s.Get(ctx, path, &list)
		if cluster.IsStatus(err, http.StatusNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the kinds of %s: %w", v, err)
		}
		for _, r := range list.Resources {
			if !strings.Contains(r.Name, "/") {
				all = append(all, plan.Kind{APIVersion: v, Kind: r.Kind, Resource: r.Name, Namespaced: r.Namespaced})
			}
		}
	}
	return all, nil
}

// Listable are the namespaced resources that can be listed, of every group in the version
// that the server prefers. Of a group whose own server does not answer it is unknown what
// there is: its name is in blind, with why.
func Listable(ctx context.Context, s *cluster.Server) (all []plan.Kind, blind map[string]string, err error) {
	return listable(ctx, s, false)
}

// Everything is Listable with the resources of the whole cluster.
func Everything(ctx context.Context, s *cluster.Server) (all []plan.Kind, blind map[string]string, err error) {
	return listable(ctx, s, true)
}

func listable(ctx context.Context, s *cluster.Server, everything bool) (all []plan.Kind, blind map[string]string, err error) {
	var groups struct {
		Groups []struct {
			PreferredVersion struct{ GroupVersion string }
			Versions         []struct{ GroupVersion string }
		}
	}
	if err := s.Get(ctx, "/apis", &groups); err != nil {
		return nil, nil, fmt.Errorf("the groups of the server: %w", err)
	}
	blind = map[string]string{}
	read := func(path, version string, seen map[string]bool) error {
		var list struct {
			Resources []struct {
				Name, Kind string
				Namespaced bool
				Verbs      []string
			}
		}
		if err := s.Get(ctx, path, &list); err != nil {
			if cluster.IsStatus(err, http.StatusNotFound) {
				return nil
			}
			return err
		}
		for _, r := range list.Resources {
			if (everything || r.Namespaced) && slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && !seen[r.Name] {
				seen[r.Name] = true
				all = append(all, plan.Kind{APIVersion: version, Kind: r.Kind, Resource: r.Name, Namespaced: r.Namespaced})
			}
		}
		return nil
	}
	if err := read("/api/v1", "v1", map[string]bool{}); err != nil {
		return nil, nil, fmt.Errorf("the kinds of v1: %w", err)
	}
	for _, g := range groups.Groups {
		// The other versions may have resources that the preferred one has not.
		versions := []string{g.PreferredVersion.GroupVersion}
		for _, v := range g.Versions {
			if !slices.Contains(versions, v.GroupVersion) {
				versions = append(versions, v.GroupVersion)
			}
		}
		seen := map[string]bool{}
		for _, v := range versions {
			if err := read("/apis/"+v, v, seen); ctx.Err() != nil {
				return nil, nil, ctx.Err()
			} else if err != nil {
				blind[v] = err.Error()
			}
		}
	}
	return all, blind, nil
}
