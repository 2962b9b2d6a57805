package run

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// derived are resources that servers derive from a namespace's other objects; no client creates
// them. An entry with only a group covers all of its resources.
var derived = map[string]bool{
	"events": true, "events.k8s.io/events": true, // about events of other objects
	"metrics.k8s.io":                                  true, // of pods that run
	"custom.metrics.k8s.io":                           true,
	"external.metrics.k8s.io":                         true,
	"packages.operators.coreos.com":                   true, // shown in each namespace
	"authorization.openshift.io":                      true, // rbac.authorization.k8s.io by another name
	"image.openshift.io/imagestreamtags":              true, // of image streams
	"image.openshift.io/imagetags":                    true,
	"quota.openshift.io/appliedclusterresourcequotas": true, // of the cluster's quotas
}

func isDerived(k plan.Kind) bool {
	group, _, named := strings.Cut(k.APIVersion, "/")
	if !named {
		return derived[k.Resource]
	}
	return derived[group] || derived[group+"/"+k.Resource]
}

// perSpace is the maximum number of namespaces that are listed individually; for more, one list per
// kind covers the whole cluster.
const perSpace = 20

// atOnce limits concurrent list requests, because the server keeps each list in memory.
const atOnce = 16

// query is one list request: a kind in a namespace, or cluster-wide if namespace is "".
type query struct {
	plan.Kind
	namespace string
}

// queries returns the list requests for all content of the namespaces, of every kind that the
// server has, because deleting a namespace deletes its content. blind has the errors of groups with
// unknown kinds.
func (u *Undo) queries(ctx context.Context, spaces map[string]int) (all []query, blind map[string]string, err error) {
	kinds, blind, err := listable(ctx, u.Server, false)
	if err != nil {
		return nil, nil, err
	}
	for version := range blind {
		if isDerived(plan.Kind{APIVersion: version}) {
			delete(blind, version)
		}
	}
	for _, k := range kinds {
		switch {
		case isDerived(k):
		case len(spaces) > perSpace:
			all = append(all, query{k, ""})
		default:
			for name := range spaces {
				all = append(all, query{k, name})
			}
		}
	}
	return all, blind, nil
}

// foreign returns the namespaces that contain objects of others, with an example, or whose content
// is not visible. UIDs identify the run's objects, because labels can be copied.
func (u *Undo) foreign(ctx context.Context, spaces map[string]int) (map[string]string, error) {
	spaces = u.standing(spaces)
	if len(spaces) == 0 {
		return nil, nil
	}
	f, err := u.look(ctx, spaces)
	if err != nil {
		return nil, err
	}
	if u.Plan.Actions() == 0 {
		return f.verdicts(), nil
	}
	// Objects of controllers whose owners the run deleted stay until the garbage collector removes
	// them. Wait for that, and keep the rest.
	for end, pause := time.Now().Add(collected), 100*time.Millisecond; f.orphans() && time.Now().Before(end); pause = min(2*pause, 2*time.Second) {
		if err := host.Sleep(ctx, pause); err != nil {
			return nil, err
		}
		if f, err = u.look(ctx, spaces); err != nil {
			return nil, err
		}
	}
	return f.verdicts(), nil
}

// collected limits the wait for the garbage collector.
const collected = time.Minute

// look reads the content of the namespaces.
func (u *Undo) look(ctx context.Context, spaces map[string]int) (*found, error) {
	queries, blind, err := u.queries(ctx, spaces)
	if err != nil {
		return nil, fmt.Errorf("cannot list the objects in the run's namespaces: %w", err)
	}
	f := u.found(spaces, queries)
	for version, why := range blind {
		f.blind("", "objects of "+version, why)
	}
	for range 1 + lookedAgain {
		if err := u.askAll(ctx, queries, f); err != nil {
			return nil, fmt.Errorf("cannot list the objects in the run's namespaces: %w", err)
		}
		if queries = f.again(); len(queries) == 0 {
			break
		}
	}
	return f, nil
}

// standing returns the namespaces that are not being deleted; in those being deleted nothing can be
// kept.
func (u *Undo) standing(spaces map[string]int) map[string]int {
	all := map[string]int{}
	for name, n := range spaces {
		if u.labelled == nil || u.labelled.seen[n-1] != going {
			all[name] = n
		}
	}
	return all
}

// askAll requests lists, with limited concurrency.
func (u *Undo) askAll(ctx context.Context, queries []query, f *found) error {
	return inParallel(ctx, atOnce, len(queries), nil, func(ctx context.Context, _, i int) error {
		err := u.ask(ctx, queries[i], f)
		if queries[i].namespace == "" && cluster.IsStatus(err, http.StatusForbidden) {
			// A user without cluster-wide rights may have rights in the namespaces.
			for name := range f.spaces {
				if err = u.ask(ctx, query{queries[i].Kind, name}, f); err != nil {
					break
				}
			}
		}
		return err
	})
}

// ask requests one list. A missing right is an error for cluster-wide lists; for a namespace it is
// recorded.
func (u *Undo) ask(ctx context.Context, q query, f *found) error {
	get := u.Server.GetMetadata
	if q.APIVersion == "v1" && q.Resource == "serviceaccounts" {
		get = u.Server.Get // metadata does not show a secret's origin
	}
	err := pages(ctx, get, q.Path(q.namespace), "", func(m item) { f.see(q.Kind, m) })
	switch {
	case err == nil:
	case cluster.IsStatus(err, http.StatusForbidden) && q.namespace != "":
		f.blind(q.namespace, q.Resource, err.Error())
	case cluster.IsStatus(err, http.StatusNotFound), cluster.IsStatus(err, http.StatusMethodNotAllowed):
	default:
		return err
	}
	return nil
}
