package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"fettle.dev/fettle/internal/kube/load/tally"
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

// Describe finds out what a plan is held against: version, nodes, and how much there is.
func (s *Server) Describe(ctx context.Context) (*tally.Cluster, error) {
	c := &tally.Cluster{Known: true, Have: map[string]int{}}
	var err error
	switch c.OpenShift, err = s.OpenShift(ctx); {
	case IsStatus(err, http.StatusForbidden): // also where there is no such kind
		c.Notes = append(c.Notes, "whether it is OpenShift cannot be seen, and the maximums of Kubernetes hold: "+err.Error())
	case err != nil:
		return nil, fmt.Errorf("the version of OpenShift: %w", err)
	}
	var nodes struct {
		Items []struct {
			Spec struct {
				Unschedulable bool
				Taints        []struct{ Key, Effect string }
			}
			Status struct{ Allocatable map[string]string }
		}
	}
	if err := s.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return nil, fmt.Errorf("the nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable {
			continue
		}
		controlPlane := false
		for _, t := range n.Spec.Taints {
			if t.Effect == "NoSchedule" && (t.Key == "node-role.kubernetes.io/control-plane" || t.Key == "node-role.kubernetes.io/master") {
				controlPlane = true
			}
		}
		if controlPlane {
			continue
		}
		c.Nodes++
		room, _ := strconv.Atoi(n.Status.Allocatable["pods"])
		c.Room += room
	}
	for _, resource := range []string{"pods", "namespaces", "services"} {
		var page struct {
			Metadata struct{ RemainingItemCount int }
			Items    []struct{}
		}
		if err := s.GetMetadata(ctx, "/api/v1/"+resource+"?limit=1", &page); err != nil {
			return nil, fmt.Errorf("the number of %s: %w", resource, err)
		}
		c.Have[resource] = page.Metadata.RemainingItemCount + len(page.Items)
	}
	return c, nil
}
