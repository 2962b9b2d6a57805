package undo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/kube/api"
	"fettle.dev/fettle/internal/kube/load/discover"
	"fettle.dev/fettle/internal/kube/load/given"
	"fettle.dev/fettle/internal/kube/load/plan"
)

// derived are resources that nobody puts into a namespace: what controllers and servers
// make of the objects that are in it, and of nothing else. A group alone is all of its.
var derived = map[string]bool{
	"events": true, "events.k8s.io/events": true, // of what happened to the others
	"endpoints":                                       true, // of services
	"discovery.k8s.io/endpointslices":                 true,
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

// perSpace is up to how many namespaces are asked one by one; of more the whole cluster is
// asked once for each kind.
const perSpace = 20

// item is what of an object says whose it is.
type item struct {
	api.Metadata
	OwnerReferences []struct{ UID string }
}

// atOnce is how many lists are asked for at a time: the server keeps each in memory.
const atOnce = 16

// query is a list to ask for: of a kind in a namespace, or in the whole cluster where that
// is "".
type query struct {
	plan.Kind
	namespace string
}

// queries are the lists in which what is in the namespaces would be, of each kind that the
// server has. A namespace is deleted with all that is in it, so all of them are looked at.
// Of groups of which it is not known what they have, blind says why.
func (u *Undo) queries(ctx context.Context, spaces map[string]int) (all []query, blind map[string]string, err error) {
	kinds, blind, err := discover.Listable(ctx, u.Server)
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

// foreign are the namespaces that hold something that the run did not make, and what; or
// of which that cannot be seen. What has an owner is its owner's, which is in the namespace
// too and looked at itself.
func (u *Undo) foreign(ctx context.Context, spaces map[string]int) (map[string]string, error) {
	f := &found{spaces: spaces, holds: map[string]string{}, unseen: map[string]string{}}
	if len(spaces) == 0 {
		return f.holds, nil
	}
	queries, blind, err := u.queries(ctx, spaces)
	if err != nil {
		return nil, fmt.Errorf("what is in the run's namespaces: %w", err)
	}
	for version, why := range blind {
		f.blind("", "objects of "+version, why)
	}
	numbers := make([]int, len(queries))
	for i := range numbers {
		numbers[i] = i
	}
	quiet := &Undo{AtOnce: atOnce, Plan: u.Plan, Server: u.Server}
	err = quiet.each(ctx, numbers, func(ctx context.Context, _, i int) error {
		err := u.ask(ctx, queries[i], f)
		if queries[i].namespace == "" && api.IsStatus(err, http.StatusForbidden) {
			// Who may not list the cluster may have rights in its namespaces.
			for name := range spaces {
				if err = u.ask(ctx, query{queries[i].Kind, name}, f); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("what is in the run's namespaces: %w", err)
		}
		return nil
	})
	// What is seen is more than what is not.
	for name, why := range f.holds {
		f.unseen[name] = why
	}
	return f.unseen, err
}

// ask asks for a list. That it may not be asked for is an error of the whole cluster's
// alone: of a namespace it is noted.
func (u *Undo) ask(ctx context.Context, q query, f *found) error {
	all, err := u.list(ctx, q.Path(q.namespace), plan.RunLabel+"!="+u.Plan.Run)
	switch {
	case err == nil:
		for _, m := range all {
			f.see(q.Resource, m)
		}
	case api.IsStatus(err, http.StatusForbidden) && q.namespace != "":
		f.blind(q.namespace, q.Resource, err.Error())
	case api.IsStatus(err, http.StatusNotFound), api.IsStatus(err, http.StatusMethodNotAllowed):
	default:
		return err
	}
	return nil
}

// found is what the run's namespaces hold of others, and what of them cannot be seen, of
// each the first by its text, so that a second look says the same.
type found struct {
	spaces        map[string]int
	mu            sync.Mutex
	holds, unseen map[string]string
}

// blind notes what cannot be seen in a namespace, or in all of them where that is "".
func (f *found) blind(namespace, what, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.spaces {
		if namespace == "" || namespace == name {
			first(f.unseen, name, "whether somebody has put "+what+" into it cannot be seen: "+why)
		}
	}
}

// see notes an object that somebody else has put into a namespace of the run.
func (f *found) see(resource string, m item) {
	if f.spaces[m.Namespace] == 0 || len(m.OwnerReferences) > 0 || given.ToAll(resource, m.Name, m.Annotations) || m.Labels["olm.copiedFrom"] != "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first(f.holds, m.Namespace, "it holds "+resource+"/"+m.Name+", which this run did not make")
}

func first(of map[string]string, name, text string) {
	if was := of[name]; was == "" || text < was {
		of[name] = text
	}
}

// list lists the metadata of objects.
func (u *Undo) list(ctx context.Context, path, selector string) ([]item, error) {
	var all []item
	err := pages(ctx, u.Server, path, selector, func(m item) { all = append(all, m) })
	return all, err
}

// pages hands out the metadata of objects, and keeps no more of them than a page.
func pages(ctx context.Context, s *api.Server, path, selector string, see func(item)) error {
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
		if err := s.GetMetadata(ctx, path+query, &page); err != nil {
			return err
		}
		for _, i := range page.Items {
			see(i.Metadata)
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}
