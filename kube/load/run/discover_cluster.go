package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Cluster finds out what a plan is held against: version, nodes, and how much there is. What
// this user may not see is no error: it is in NotSeen and in Notes.
func Cluster(ctx context.Context, s *cluster.Server) (*plan.Cluster, error) {
	c := &plan.Cluster{Known: true, Have: map[string]int{}}
	var err error
	switch c.OpenShift, err = s.OpenShift(ctx); {
	case cluster.IsStatus(err, http.StatusForbidden): // also where there is no such kind
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
	case cluster.IsStatus(err, http.StatusForbidden):
		c.NotSeen = append(c.NotSeen, plan.NotSeen{What: "nodes", Why: err.Error()})
	case err != nil:
		return nil, fmt.Errorf("the nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable {
			continue
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t struct{ Key, Effect string }) bool {
			return t.Effect == "NoSchedule" && (t.Key == "node-role.kubernetes.io/control-plane" || t.Key == "node-role.kubernetes.io/master")
		}) {
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
		case cluster.IsStatus(err, http.StatusForbidden):
			c.NotSeen = append(c.NotSeen, plan.NotSeen{What: resource, Why: err.Error()})
			continue
		case err != nil:
			return nil, fmt.Errorf("the number of %s: %w", resource, err)
		}
		c.Have[resource] = page.Metadata.RemainingItemCount + len(page.Items)
	}
	if c.Sees("pods") {
		finished, err := finishedPods(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("the number of pods that have ended: %w", err)
		}
		c.Have[plan.FinishedPods] = min(finished, c.Have["pods"])
	}
	return c, nil
}

// finishedPods counts the pods that have ended, page by page: of a list with a field selector
// a server does not say how many remain. Few stay: the pod garbage collector deletes those
// beyond 12,500 (kube-controller-manager --terminated-pod-gc-threshold).
func finishedPods(ctx context.Context, s *cluster.Server) (int, error) {
	n := 0
	for _, phase := range []string{"Succeeded", "Failed"} {
		if err := pages(ctx, s.GetMetadata, "/api/v1/pods", "fieldSelector=status.phase%3D"+phase, func(item) { n++ }); err != nil {
			return 0, err
		}
	}
	return n, nil
}
