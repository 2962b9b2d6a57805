package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Mirror is a load with the counts and sizes of a cluster's namespaces, but without names, values,
// images, commands and selectors. Of secrets, only metadata is read.
type Mirror struct {
	Spaces []Space
	// Left are objects that are not mirrored.
	Left []Left
	// Notes are warnings about the mirror.
	Notes []string
}

// Space is the content of one namespace, and the number of namespaces with equal content.
type Space struct {
	Count  int
	Groups []Group
}

// Group is a number of equal objects in a namespace.
type Group struct {
	Kind  string
	Count int
	// Manifest is one of the objects; ${IDENTIFIER} stands for its number.
	Manifest map[string]any
}

// Left is a number of objects of one kind that are not mirrored, and the reason.
type Left struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Why   string `json:"why"`
}

// Pause is the default image of mirrored containers, which does nothing but wait.
const Pause = "registry.k8s.io/pause:3.10"

// MirrorOptions select the mirrored objects and how they are mirrored.
type MirrorOptions struct {
	// Namespaces are the namespaces to mirror; nil means all except system namespaces.
	Namespaces []string
	Image      string // image of containers; "" means Pause
}

// source is a kind of object that is read.
type source struct {
	path string // path of the list over all namespaces
	kind string
	// strip returns the mirrored part of an object; nil for a kind that is only counted, for the
	// reason in why.
	strip func(*reading, json.RawMessage) (map[string]any, error)
	why   string
	// secret means that only metadata is requested.
	secret bool
}

// sources are the kinds, in the order in which a load must create them.
var sources = []source{
	{path: "/api/v1/serviceaccounts", kind: "ServiceAccount", strip: account},
	{path: "/api/v1/configmaps", kind: "ConfigMap", strip: configMap},
	{path: "/api/v1/secrets", kind: "Secret", strip: secret, secret: true},
	{path: "/api/v1/services", kind: "Service", strip: service},
	{path: "/apis/apps/v1/deployments", kind: "Deployment", strip: workload("Deployment")},
	{path: "/apis/apps/v1/statefulsets", kind: "StatefulSet", strip: workload("StatefulSet")},
	{path: "/apis/apps/v1/daemonsets", kind: "DaemonSet", strip: workload("DaemonSet")},
	{path: "/apis/apps/v1/replicasets", kind: "ReplicaSet", strip: workload("ReplicaSet")},
	{path: "/api/v1/replicationcontrollers", kind: "ReplicationController", strip: workload("ReplicationController")},
	{path: "/apis/batch/v1/cronjobs", kind: "CronJob", strip: cronJob},
	{path: "/api/v1/pods", kind: "Pod", strip: mirrorPod},
	{path: "/apis/batch/v1/jobs", kind: "Job", why: "its work is not mirrored, so it would never end"},
	{path: "/api/v1/persistentvolumeclaims", kind: "PersistentVolumeClaim", why: "it would use storage"},
	{path: "/apis/networking.k8s.io/v1/ingresses", kind: "Ingress", why: "it would take over host names that clients use"},
	{path: "/apis/networking.k8s.io/v1/networkpolicies", kind: "NetworkPolicy", why: "its selectors are not mirrored, so it would select other pods"},
	{path: "/apis/rbac.authorization.k8s.io/v1/rolebindings", kind: "RoleBinding", why: "it would grant permissions"},
	{path: "/apis/autoscaling/v2/horizontalpodautoscalers", kind: "HorizontalPodAutoscaler", why: "it follows resource usage, which is not mirrored"},
	{path: "/apis/policy/v1/poddisruptionbudgets", kind: "PodDisruptionBudget", why: "its selector is not mirrored, so it would protect nothing"},
}

// system reports whether a namespace belongs to the cluster's own software.
func system(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift")
}

// reading is the state of one call of ReadWorkloads.
type reading struct {
	server *cluster.Server
	MirrorOptions
	// alike counts the equal objects of each namespace by their JSON.
	alike map[string]map[string]int
	left  map[Left]int // Count is 0 in the keys
	notes map[string]int
	seen  bool // at least one list was readable
}

// object is the part of an object that every kind needs.
type object struct {
	Metadata struct {
		Name, Namespace, DeletionTimestamp string
		Labels, Annotations                map[string]string
		OwnerReferences                    []struct{}
	}
	Status struct{ Phase string }
}

// ErrUnseen means that no kind of object is readable.
var ErrUnseen = errors.New("cannot read anything in these namespaces")

// ReadWorkloads reads namespaces. It returns ErrUnseen if the user may list none of their objects.
func ReadWorkloads(ctx context.Context, server *cluster.Server, o MirrorOptions) (*Mirror, error) {
	if o.Image == "" {
		o.Image = Pause
	}
	r := &reading{server: server, MirrorOptions: o, alike: map[string]map[string]int{}, left: map[Left]int{}, notes: map[string]int{}}
	if err := r.namespaces(ctx); err != nil {
		return nil, err
	}
	for i := range sources {
		if err := r.read(ctx, &sources[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", sources[i].kind, err)
		}
	}
	if !r.seen {
		return nil, fmt.Errorf("%w: %s", ErrUnseen, slices.Min(slices.Collect(maps.Keys(r.notes))))
	}
	return r.sum()
}

// namespaces determines the namespaces to mirror.
func (r *reading) namespaces(ctx context.Context) error {
	for _, name := range r.Namespaces {
		if _, err := r.server.Metadata(ctx, 0, "/api/v1/namespaces/"+url.PathEscape(name)); err != nil {
			return fmt.Errorf("cannot read namespace %s: %w", name, err)
		}
		r.alike[name] = map[string]int{}
	}
	if len(r.Namespaces) > 0 {
		return nil
	}
	_, err := cluster.Pages(ctx, r.server.GetMetadata, "/api/v1/namespaces", pageSize, func(o *object) error {
		if m := o.Metadata; !system(m.Name) && m.DeletionTimestamp == "" && m.Labels[plan.RunLabel] == "" {
			r.alike[m.Name] = map[string]int{}
		}
		return nil
	})
	return err
}

// pageSize is the number of objects per list request.
const pageSize = 250

// read reads all objects of one kind.
func (r *reading) read(ctx context.Context, s *source) error {
	at := strings.LastIndexByte(s.path, '/')
	paths := []string{s.path}
	if len(r.Namespaces) > 0 {
		paths = nil
		for _, name := range slices.Sorted(maps.Keys(r.alike)) {
			paths = append(paths, s.path[:at]+"/namespaces/"+url.PathEscape(name)+s.path[at:])
		}
	}
	get := r.server.Get
	if s.secret || s.strip == nil {
		get = r.server.GetMetadata
	}
	for _, path := range paths {
		_, err := cluster.Pages(ctx, get, path, pageSize, func(item *json.RawMessage) error { return r.take(s, s.path[at+1:], *item) })
		switch {
		case cluster.IsStatus(err, http.StatusForbidden), cluster.IsStatus(err, http.StatusNotFound):
			r.notes[fmt.Sprintf("%s is not mirrored: %v", s.kind, err)]++
		case err != nil:
			return err
		default:
			r.seen = true
		}
	}
	return nil
}

// take counts one object, or records why it is not mirrored.
func (r *reading) take(s *source, resource string, item json.RawMessage) error {
	var o object
	if err := json.Unmarshal(item, &o); err != nil {
		return err
	}
	in := r.alike[o.Metadata.Namespace]
	switch m := o.Metadata; {
	case in == nil, len(m.OwnerReferences) > 0, m.DeletionTimestamp != "", plan.ToAll(resource, m.Name, m.Annotations):
		return nil // in another namespace, or created by a controller there too
	case m.Labels[plan.RunLabel] != "":
		r.left[Left{Kind: s.kind, Why: "created by a cluster load"}]++
		return nil
	case s.strip == nil:
		r.left[Left{Kind: s.kind, Why: s.why}]++
		return nil
	case s.kind == "Pod" && (o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed"):
		r.left[Left{Kind: s.kind, Why: "it has ended"}]++
		return nil
	}
	kept, err := s.strip(r, item)
	if err != nil {
		return err
	}
	kept["apiVersion"], kept["kind"] = versionOf(s.path), s.kind
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	in[string(text)]++
	return nil
}

// versionOf returns the apiVersion of an API path's objects.
func versionOf(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	return strings.Join(words[1:len(words)-1], "/")
}

// sum merges namespaces with equal content.
func (r *reading) sum() (*Mirror, error) {
	m := &Mirror{}
	same := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(r.alike)) {
		key, err := json.Marshal(r.alike[name]) // the JSON is sorted by key
		if err != nil {
			return nil, err
		}
		if at, known := same[string(key)]; known {
			m.Spaces[at].Count++
			continue
		}
		same[string(key)] = len(m.Spaces)
		s := Space{Count: 1}
		for _, text := range slices.Sorted(maps.Keys(r.alike[name])) {
			var manifest map[string]any
			if err := json.Unmarshal([]byte(text), &manifest); err != nil {
				return nil, err
			}
			kind, _ := manifest["kind"].(string)
			s.Groups = append(s.Groups, Group{kind, r.alike[name][text], manifest})
		}
		slices.SortStableFunc(s.Groups, func(a, b Group) int { return cmp.Compare(order(a.Kind), order(b.Kind)) })
		m.Spaces = append(m.Spaces, s)
	}
	slices.SortStableFunc(m.Spaces, func(a, b Space) int { return cmp.Compare(b.Count, a.Count) })
	for l, n := range r.left {
		l.Count = n
		m.Left = append(m.Left, l)
	}
	slices.SortFunc(m.Left, func(a, b Left) int { return strings.Compare(a.Kind+a.Why, b.Kind+b.Why) })
	for _, note := range slices.Sorted(maps.Keys(r.notes)) {
		if n := r.notes[note]; n > 1 {
			note = text.Sprintf("%s (%d times)", note, n)
		}
		m.Notes = append(m.Notes, note)
	}
	return m, nil
}

func order(kind string) int {
	return slices.IndexFunc(sources, func(s source) bool { return s.kind == kind })
}
