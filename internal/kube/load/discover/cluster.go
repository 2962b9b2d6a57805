package discover

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"fettle.dev/fettle/internal/kube/api"
	"fettle.dev/fettle/internal/kube/load/tally"
)

// Cluster finds out what a plan is held against: version, nodes, and how much there is. What
// this user may not see is no error: it is in NotSeen and in Notes.
func Cluster(ctx context.Context, s *api.Server) (*tally.Cluster, error) {
	c := &tally.Cluster{Known: true, Have: map[string]int{}}
	var err error
	switch c.OpenShift, err = s.OpenShift(ctx); {
	case api.IsStatus(err, http.StatusForbidden): // also where there is no such kind
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
	switch err := s.Get(ctx, "/api/v1/nodes", &nodes); {
	case api.IsStatus(err, http.StatusForbidden):
		c.NotSeen = append(c.NotSeen, tally.NotSeen{What: "nodes", Why: err.Error()})
	case err != nil:
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
		switch err := s.GetMetadata(ctx, "/api/v1/"+resource+"?limit=1", &page); {
		case api.IsStatus(err, http.StatusForbidden):
			c.NotSeen = append(c.NotSeen, tally.NotSeen{What: resource, Why: err.Error()})
			continue
		case err != nil:
			return nil, fmt.Errorf("the number of %s: %w", resource, err)
		}
		c.Have[resource] = page.Metadata.RemainingItemCount + len(page.Items)
	}
	return c, nil
}
