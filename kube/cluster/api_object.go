package cluster

import (
	"context"
	"net/http"
)

// Version is that of the API server, as v1.34.4.
func (s *Server) Version(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	err := s.Get(ctx, "/version", &v)
	return v.GitVersion, err
}

// OpenShift is the version of OpenShift, as 4.17.3; "" for another Kubernetes.
func (s *Server) OpenShift(ctx context.Context) (string, error) {
	var version struct {
		Status struct{ Desired struct{ Version string } }
	}
	err := s.Get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &version)
	if IsStatus(err, http.StatusNotFound) {
		return "", nil
	}
	return version.Status.Desired.Version, err
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
