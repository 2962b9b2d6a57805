package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Kinds returns the server's kinds of the given versions (such as apps/v1). A version that the
// server lacks adds none.
func Kinds(ctx context.Context, s *cluster.Server, versions []string) (plan.Kinds, error) {
	all := plan.Kinds{}
	for _, v := range versions {
		err := resources(ctx, s, v, func(k plan.Kind, _ bool) { all = append(all, k) })
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// resources calls see for each kind of an API version, and says whether it can be listed. It makes
// no calls for a version that the server lacks.
func resources(ctx context.Context, s *cluster.Server, version string, see func(k plan.Kind, listable bool)) error {
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
			Verbs      []string
		}
	}
	if err := s.Get(ctx, path, &list); err != nil && !cluster.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("cannot list the kinds of %s: %w", version, err)
	}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") {
			see(plan.Kind{APIVersion: version, Kind: r.Kind, Resource: r.Name, Namespaced: r.Namespaced}, slices.Contains(r.Verbs, "list"))
		}
	}
	return nil
}

// listable returns the resources of all groups that can be listed, each in the preferred version
// that has it. Unless everything is set, it omits cluster-wide ones. blind has the versions, with
// errors, of groups whose API service does not answer.
func listable(ctx context.Context, s *cluster.Server, everything bool) (all []plan.Kind, blind map[string]string, err error) {
	var groups struct {
		Groups []struct {
			PreferredVersion struct{ GroupVersion string }
			Versions         []struct{ GroupVersion string }
		}
	}
	if err := s.Get(ctx, "/apis", &groups); err != nil {
		return nil, nil, fmt.Errorf("cannot list the server's API groups: %w", err)
	}
	blind = map[string]string{}
	read := func(version string, seen map[string]bool) error {
		return resources(ctx, s, version, func(k plan.Kind, listable bool) {
			if listable && (everything || k.Namespaced) && !seen[k.Resource] {
				seen[k.Resource] = true
				all = append(all, k)
			}
		})
	}
	if err := read("v1", map[string]bool{}); err != nil {
		return nil, nil, err
	}
	for _, g := range groups.Groups {
		// The other versions may have resources that the preferred one lacks.
		versions := []string{g.PreferredVersion.GroupVersion}
		for _, v := range g.Versions {
			if !slices.Contains(versions, v.GroupVersion) {
				versions = append(versions, v.GroupVersion)
			}
		}
		seen := map[string]bool{}
		for _, v := range versions {
			if err := read(v, seen); ctx.Err() != nil {
				return nil, nil, ctx.Err()
			} else if err != nil {
				blind[v] = err.Error()
			}
		}
	}
	return all, blind, nil
}

// Cluster reads the data that a plan is compared with: version, nodes and existing objects. Data
// that the user may not read is recorded in NotSeen and Notes, and is not an error.
func Cluster(ctx context.Context, s *cluster.Server) (*plan.Cluster, error) {
	c := &plan.Cluster{Known: true, Have: map[string]int{}}
	var err error
	switch c.OpenShift, err = s.OpenShift(ctx); {
	case cluster.IsStatus(err, http.StatusForbidden): // also if the kind does not exist
		c.Notes = append(c.Notes, "unknown whether this is OpenShift; using the maximums of Kubernetes: "+err.Error())
	case err != nil:
		return nil, fmt.Errorf("cannot read the version of OpenShift: %w", err)
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
		return nil, fmt.Errorf("cannot list the nodes: %w", err)
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
		switch n, err := cluster.Count(ctx, s.GetMetadata, "/api/v1/"+resource); {
		case cluster.IsStatus(err, http.StatusForbidden):
			c.NotSeen = append(c.NotSeen, plan.NotSeen{What: resource, Why: err.Error()})
			continue
		case err != nil:
			return nil, fmt.Errorf("cannot count %s: %w", resource, err)
		default:
			c.Have[resource] = n
		}
	}
	if c.Sees("pods") {
		finished, err := finishedPods(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("cannot count ended pods: %w", err)
		}
		c.Have[plan.FinishedPods] = min(finished, c.Have["pods"])
	}
	return c, nil
}

// finishedPods counts the pods that have ended, page by page: with a field selector a server
// does not report how many remain. Few stay: the pod garbage collector deletes those beyond
// 12,500 (kube-controller-manager --terminated-pod-gc-threshold).
func finishedPods(ctx context.Context, s *cluster.Server) (int, error) {
	n := 0
	for _, phase := range []string{"Succeeded", "Failed"} {
		if err := pages(ctx, s.GetMetadata, "/api/v1/pods", "fieldSelector=status.phase%3D"+phase, func(item) { n++ }); err != nil {
			return 0, err
		}
	}
	return n, nil
}
