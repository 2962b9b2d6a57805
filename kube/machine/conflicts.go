// This file reads what else acts on a cluster's machines: other controllers that remediate them, and
// reasons for remediation to wait. It only reads.

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

	"fettle.dev/fettle/kube/cluster"
)

// Kinds that are read. A cluster may lack any of them.
var (
	deployment           = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	clusterVersion       = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"}
	nodeHealthCheck      = schema.GroupKind{Group: "remediation.medik8s.io", Kind: "NodeHealthCheck"}
	kubeletPool          = schema.GroupKind{Group: "fettle.dev", Kind: "KubeletPool"}
	aroundClusterCheck   = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "MachineHealthCheck"}
	aroundClusterMachine = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
)

// OpenShift's own controller of health checks is a container of this Deployment
// (openshift/machine-api-operator, pkg/operator/sync.go).
const (
	rivalDeployment = "machine-api-controllers"
	rivalContainer  = "machine-healthcheck-controller"
)

// Reader reads from a cluster. API must read without a cache, and support unstructured objects.
type Reader struct {
	API    client.Reader
	Mapper meta.RESTMapper
	// Namespaces are the namespaces of the machines.
	Namespaces []string
	// Once is for a single read, which cannot observe whether a lease is renewed. It then trusts
	// the renew time that the holder wrote.
	Once bool

	leases map[string]LeaseSeen // by namespace
}

// Explained is a health check of Cluster API, which fettle only explains.
type Explained struct {
	Namespace, Name string
	// Words explain when the check remediates.
	Words string
}

// Found holds the result of Read: the controllers and pauses that affect health checks.
type Found struct {
	// Rivals are OpenShift's running controllers of health checks, by namespace.
	Rivals map[string]string
	// Others are controllers that select and remediate nodes themselves.
	Others []Other
	// Pauses are the reasons for remediation to wait.
	Pauses []string
	// ClusterAPI are the checks of Cluster API.
	ClusterAPI []Explained
	// Until is when a pause ends without an event, or zero.
	Until time.Time

	inputs []string
}

// Same reports whether decisions based on f and g would be equal.
func (f *Found) Same(g *Found) bool {
	return f != nil && g != nil && maps.Equal(f.Rivals, g.Rivals) && slices.Equal(f.Pauses, g.Pauses) && slices.Equal(f.inputs, g.inputs)
}

// Read reads everything. A missing right counts as a pause, because another program may be working
// on the machines.
func (r *Reader) Read(ctx context.Context, now time.Time) (*Found, error) {
	f := &Found{Rivals: map[string]string{}}
	for _, look := range []func(context.Context, *Found, time.Time) error{r.rivals, r.nodeChecks, r.clusterChecks, r.pools, r.upgrade, r.scale} {
		err := look(ctx, f, now)
		if apierrors.IsForbidden(err) {
			f.Pauses = append(f.Pauses, "unknown whether another controller is working: "+err.Error())
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// get reads an object. It returns nil if the object or its kind does not exist.
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

// list reads all objects of a kind, each as JSON; none if the kind does not exist.
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

// rivals finds OpenShift's controllers of checks.
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
		// With 0 replicas it does nothing; without the field it has 1.
		if n, said, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); runs && (err != nil || !said || n > 0) {
			f.Rivals[namespace] = fmt.Sprintf("%s of the Machine API operator (Deployment %s/%s) remediates machines of these checks", rivalContainer, namespace, rivalDeployment)
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

// input returns a fingerprint of the parts of an object that decisions use: all except its status.
func input(o *unstructured.Unstructured) string {
	labels, _ := json.Marshal(o.GetLabels())
	return fmt.Sprint(o.GetUID(), " ", o.GetGeneration(), " ", string(labels))
}

// pools reads the rollouts of the kubelets' settings.
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

// Checks returns the checks in the given namespaces.
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

// Machines returns the machines in the given namespaces.
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

// Cluster returns the input of Decide. The caller sets the options for acting.
func (f *Found) Cluster(checks []HealthCheck, machines []Machine, nodes []core.Node, now time.Time) Cluster {
	return Cluster{Now: now, Checks: checks, Machines: machines, Nodes: nodes, Others: f.Others, Pauses: f.Pauses, Rivals: f.Rivals}
}

// ErrNotServed means that a cluster does not have OpenShift's machines.
var ErrNotServed = errors.New("the cluster has no MachineHealthCheck of " + APIVersion)

// Served returns ErrNotServed if a cluster lacks OpenShift's checks and machines.
func Served(mapper meta.RESTMapper) error {
	err := cluster.Served(mapper, GroupVersion.WithKind("MachineHealthCheck"), GroupVersion.WithKind("Machine"))
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w (%s)", ErrNotServed, strings.TrimSpace(err.Error()))
	}
	return err
}
