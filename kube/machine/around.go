// around reads what else is at work on the machines of a cluster: other
// controllers that remedy them, and what remediation waits for. It only reads.

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that are looked at. A cluster may have any of them, or none.
var (
	deployment           = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	clusterVersion       = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"}
	nodeHealthCheck      = schema.GroupKind{Group: "remediation.medik8s.io", Kind: "NodeHealthCheck"}
	kubeletPool          = schema.GroupKind{Group: "fettle.dev", Kind: "KubeletPool"}
	aroundClusterCheck   = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "MachineHealthCheck"}
	aroundClusterMachine = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
)

// OpenShift's own controller of checks is a container of this Deployment (openshift/
// machine-api-operator, pkg/operator/sync.go).
const (
	rivalDeployment = "machine-api-controllers"
	rivalContainer  = "machine-healthcheck-controller"
)

// Reader reads from a cluster. API has to read from the API server itself, and to know
// kinds that are in no scheme.
type Reader struct {
	API    client.Reader
	Mapper meta.RESTMapper
	// Namespaces are those of the machines.
	Namespaces []string
	// Once is for who reads only once, and cannot see whether a lease is renewed: what its
	// holder has written of that counts then.
	Once bool

	leases map[string]LeaseSeen // by namespace
}

// Explained is a check of Cluster API, which is not acted on.
type Explained struct {
	Namespace, Name string
	// Words say when it remediates.
	Words string
}

// Found is what else is at work.
type Found struct {
	// Rivals are OpenShift's controllers of checks that run, by namespace.
	Rivals map[string]string
	// Others remedy nodes of their own choice.
	Others []Other
	// Pauses are what remediation waits for.
	Pauses []string
	// ClusterAPI are the checks of Cluster API.
	ClusterAPI []Explained
	// Until is when a pause ends of which nothing else is heard; zero for none.
	Until time.Time

	inputs []string
}

// Same reports whether a decision made with either would be the same.
func (f *Found) Same(g *Found) bool {
	return f != nil && g != nil && maps.Equal(f.Rivals, g.Rivals) && slices.Equal(f.Pauses, g.Pauses) && slices.Equal(f.inputs, g.inputs)
}

// Read looks at everything. Where the account has not the right to see something, that
// is a pause: whether another program works on the machines is not known then.
func (r *Reader) Read(ctx context.Context, now time.Time) (*Found, error) {
	f := &Found{Rivals: map[string]string{}}
	for _, look := range []func(context.Context, *Found, time.Time) error{r.rivals, r.nodeChecks, r.clusterChecks, r.pools, r.upgrade, r.scale} {
		err := look(ctx, f, now)
		if apierrors.IsForbidden(err) {
			f.Pauses = append(f.Pauses, "whether something else is at work is not known: "+err.Error())
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// get reads an object; nil without such an object, or such a kind.
func (r *Reader) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	switch err := r.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); {
	case err == nil:
		return o, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	default:
		return nil, err
	}
}

// list reads all objects of a kind, each as JSON; none where there is no such kind.
func (r *Reader) list(ctx context.Context, kind schema.GroupKind) (out [][]byte, all []unstructured.Unstructured, err error) {
	m, err := r.Mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var l unstructured.UnstructuredList
	l.SetGroupVersionKind(m.GroupVersionKind)
	if err := r.API.List(ctx, &l); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	for i := range l.Items {
		text, err := l.Items[i].MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		out = append(out, text)
	}
	return out, l.Items, nil
}

// rivals looks for OpenShift's controllers of checks.
func (r *Reader) rivals(ctx context.Context, f *Found, _ time.Time) error {
	for _, namespace := range r.Namespaces {
		o, err := r.get(ctx, deployment, namespace, rivalDeployment)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		runs := slices.ContainsFunc(containers, func(c any) bool {
			fields, ok := c.(map[string]any)
			return ok && fields["name"] == rivalContainer
		})
		// One that is scaled to none does nothing; none said is one.
		if n, said, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); runs && (err != nil || !said || n > 0) {
			f.Rivals[namespace] = fmt.Sprintf("%s of the Machine API operator, in Deployment %s/%s, remedies machines by these checks", rivalContainer, namespace, rivalDeployment)
		}
	}
	return nil
}

// nodeChecks reads medik8s' NodeHealthChecks.
func (r *Reader) nodeChecks(ctx context.Context, f *Found, _ time.Time) error {
	texts, all, err := r.list(ctx, nodeHealthCheck)
	if err != nil {
		return err
	}
	for i, text := range texts {
		o, err := NodeHealthCheck(text)
		if err != nil {
			return err
		}
		f.Others = append(f.Others, o)
		f.inputs = append(f.inputs, input(&all[i]))
	}
	return nil
}

// clusterChecks reads the checks of Cluster API.
func (r *Reader) clusterChecks(ctx context.Context, f *Found, _ time.Time) error {
	checks, all, err := r.list(ctx, aroundClusterCheck)
	if err != nil || len(checks) == 0 {
		return err
	}
	machines, those, err := r.list(ctx, aroundClusterMachine)
	if err != nil {
		return err
	}
	for i, text := range checks {
		o, words, err := ClusterAPI(text, machines)
		if err != nil {
			return err
		}
		f.Others = append(f.Others, o)
		f.ClusterAPI = append(f.ClusterAPI, Explained{all[i].GetNamespace(), all[i].GetName(), words})
		f.inputs = append(f.inputs, input(&all[i]))
	}
	for i := range those {
		node, _, _ := unstructured.NestedString(those[i].Object, "status", "nodeRef", "name")
		f.inputs = append(f.inputs, input(&those[i])+" "+node)
	}
	return nil
}

// input names what of an object decisions are made of, but for its status.
func input(o *unstructured.Unstructured) string {
	labels, _ := json.Marshal(o.GetLabels())
	return fmt.Sprint(o.GetUID(), " ", o.GetGeneration(), " ", string(labels))
}

// pools reads the roll-outs of the kubelets' settings.
func (r *Reader) pools(ctx context.Context, f *Found, _ time.Time) error {
	texts, _, err := r.list(ctx, kubeletPool)
	if err != nil {
		return err
	}
	for _, text := range texts {
		why, err := RollOut(text)
		if err != nil {
			return err
		}
		f.pause(why)
	}
	return nil
}

// upgrade reads whether the cluster is being upgraded.
func (r *Reader) upgrade(ctx context.Context, f *Found, _ time.Time) error {
	o, err := r.get(ctx, clusterVersion, "", "version")
	if o == nil || err != nil {
		return err
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	why, err := Upgrade(text)
	f.pause(why)
	return err
}

// scale reads whether machine sets are being scaled.
func (r *Reader) scale(ctx context.Context, f *Found, now time.Time) error {
	for _, namespace := range r.Namespaces {
		o, err := r.get(ctx, coordination.SchemeGroupVersion.WithKind("Lease"), namespace, ScaleLease)
		if err != nil {
			return err
		}
		var l *coordination.Lease
		if o != nil {
			text, err := o.MarshalJSON()
			if err != nil {
				return err
			}
			l = &coordination.Lease{}
			if err := json.Unmarshal(text, l); err != nil {
				return fmt.Errorf("Lease %s: %w", ScaleLease, err)
			}
		}
		last := r.leases[namespace]
		if r.Once && l != nil && l.Spec.RenewTime != nil {
			last = LeaseSeen{Version: l.ResourceVersion, At: l.Spec.RenewTime.Time}
		}
		why, seen, until := Scaling(l, last, now)
		if r.leases == nil {
			r.leases = map[string]LeaseSeen{}
		}
		r.leases[namespace] = seen
		f.pause(why)
		if f.Until.IsZero() || !until.IsZero() && until.Before(f.Until) {
			f.Until = until
		}
	}
	return nil
}

func (f *Found) pause(why string) {
	if why != "" {
		f.Pauses = append(f.Pauses, why)
	}
}

// Checks are those of some namespaces.
func Checks(ctx context.Context, api client.Reader, namespaces []string) (out []HealthCheck, err error) {
	for _, namespace := range namespaces {
		var all HealthCheckList
		if err := api.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		out = append(out, all.Items...)
	}
	return out, nil
}

// Machines are those of some namespaces.
func Machines(ctx context.Context, api client.Reader, namespaces []string) (out []Machine, err error) {
	for _, namespace := range namespaces {
		var all MachineList
		if err := api.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		out = append(out, all.Items...)
	}
	return out, nil
}

// Cluster is what the decisions about checks are made of, but for who acts.
func (f *Found) Cluster(checks []HealthCheck, machines []Machine, nodes []core.Node, now time.Time) Cluster {
	return Cluster{Now: now, Checks: checks, Machines: machines, Nodes: nodes, Others: f.Others, Pauses: f.Pauses, Rivals: f.Rivals}
}

// ErrNotServed means that a cluster has no machines of OpenShift.
var ErrNotServed = errors.New("the cluster has no MachineHealthCheck of " + APIVersion)

// Served is an error where a cluster has not OpenShift's checks and machines.
func Served(mapper meta.RESTMapper) error {
	for _, kind := range []string{"MachineHealthCheck", "Machine"} {
		if _, err := mapper.RESTMapping(GroupVersion.WithKind(kind).GroupKind(), GroupVersion.Version); err != nil {
			if meta.IsNoMatchError(err) {
				return fmt.Errorf("%w (%s)", ErrNotServed, strings.TrimSpace(err.Error()))
			}
			return err
		}
	}
	return nil
}
