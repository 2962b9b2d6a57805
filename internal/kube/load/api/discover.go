package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"fettle.dev/fettle/internal/kube/load/plan"
)

// Discover asks which kinds of some versions (as apps/v1) the server has. A version that
// it has not adds none.
func (s *Server) Discover(ctx context.Context, versions []string) (plan.Kinds, error) {
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
		if IsStatus(err, http.StatusNotFound) {
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

// Cluster is the uid of the namespace kube-system, by which a cluster is known.
func (s *Server) Cluster(ctx context.Context) (string, error) {
	m, err := s.Metadata(ctx, 0, "/api/v1/namespaces/kube-system")
	return m.UID, err
}

// Metadata of an object.
type Metadata struct {
	Name, Namespace, UID, ResourceVersion string
	Labels, Annotations                   map[string]string
	DeletionTimestamp                     string
}

// Metadata gets that of the object at a path.
func (s *Server) Metadata(ctx context.Context, lane int, path string) (Metadata, error) {
	var o struct{ Metadata Metadata }
	err := s.get(ctx, s.lanes[lane%len(s.lanes)], path, &o, "application/json")
	return o.Metadata, err
}
