package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

var aroundNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// served is a mapper that knows some kinds, each of one version.
type served map[schema.GroupKind]string

func (s served) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	v, ok := s[kind]
	if !ok {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{GroupVersionKind: kind.WithVersion(v)}, nil
}

// bench is a cluster of objects, with some kinds of other controllers.
type bench struct {
	*Reader
	t *testing.T
	c client.WithWatch
	// forbidden kinds may not be read.
	forbidden string
}

// mapping is the used part of a RESTMapper.
type mapping struct {
	meta.RESTMapper
	served
}

func (m mapping) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.served.RESTMapping(kind, versions...)
}

func newBench(t *testing.T, texts ...string) *bench {
	t.Helper()
	b := &bench{t: t}
	s, known := runtime.NewScheme(), served{}
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, coordination.AddToScheme, AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	var objects []client.Object
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		known[u.GroupVersionKind().GroupKind()] = u.GroupVersionKind().Version
		if !s.Recognizes(u.GroupVersionKind()) {
			s.AddKnownTypeWithName(u.GroupVersionKind(), &unstructured.Unstructured{})
			list := u.GroupVersionKind()
			list.Kind += "List"
			s.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
		}
		objects = append(objects, u)
	}
	refused := func(o runtime.Object) error {
		if kind := o.GetObjectKind().GroupVersionKind().Kind; b.forbidden != "" && strings.TrimSuffix(kind, "List") == b.forbidden {
			return apierrors.NewForbidden(schema.GroupResource{Resource: b.forbidden}, "", errors.New("no right"))
		}
		return nil
	}
	b.c = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := refused(o); err != nil {
				return err
			}
			return c.Get(ctx, k, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := refused(l); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
	b.Reader = &Reader{API: b.c, Mapper: mapping{served: known}, Namespaces: []string{Namespace}}
	return b
}

func (b *bench) read(at time.Time) *Found {
	b.t.Helper()
	f, err := b.Read(b.t.Context(), at)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

const (
	rivals = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: machine-api-controllers, namespace: openshift-machine-api},
spec: {replicas: 1, template: {spec: {containers: [{name: machineset-controller}, {name: machine-healthcheck-controller}]}}}}`
	nodeCheck = `{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: nhc, uid: u1}, spec: {selector: {matchLabels: {pool: a}}}}`
	capiCheck = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineHealthCheck, metadata: {name: chk, namespace: fleet, uid: u2},
spec: {clusterName: c, selector: {matchLabels: {pool: a}}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}}`
	capiMachine = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m1, namespace: fleet, uid: u3, labels: {pool: a}}, spec: {clusterName: c}, status: {nodeRef: {name: n1}}}`
	poolOf      = `{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: workers}, status: {nodes: 3, updated: 1, changing: [n2]}}`
	upgrading   = `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, status: {desired: {version: 4.16.3}, conditions: [{type: Progressing, status: "True"}]}}`
	scaling     = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: fettle-scale, namespace: openshift-machine-api}, spec: {holderIdentity: host/1, leaseDurationSeconds: 60}}`
)

func TestRead(t *testing.T) {
	b := newBench(t)
	if f := b.read(aroundNow); len(f.Rivals)+len(f.Others)+len(f.Pauses)+len(f.ClusterAPI) > 0 {
		t.Errorf("of nothing: %+v", f)
	}
	b = newBench(t, rivals, nodeCheck, capiCheck, capiMachine, poolOf, upgrading, scaling)
	f := b.read(aroundNow)
	if len(f.Rivals) != 1 || !strings.HasPrefix(f.Rivals[Namespace], "machine-healthcheck-controller of the Machine API operator (Deployment openshift-machine-api/machine-api-controllers)") {
		t.Errorf("%q", f.Rivals)
	}
	if len(f.Others) != 2 || f.Others[0].Who != "NodeHealthCheck nhc" || f.Others[1].Who != "MachineHealthCheck chk of Cluster API" {
		t.Errorf("%+v", f.Others)
	}
	for name, mine := range map[string][2]bool{"n1": {true, true}, "n2": {true, false}} {
		n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}}}
		if f.Others[0].Selects(n) != mine[0] || f.Others[1].Selects(n) != mine[1] {
			t.Errorf("%s is selected otherwise", name)
		}
	}
	if len(f.ClusterAPI) != 1 || f.ClusterAPI[0] != (Explained{"fleet", "chk", "it remediates while at most 0 of 1 machine are unhealthy"}) {
		t.Errorf("%+v", f.ClusterAPI)
	}
	want := []string{"a rollout of kubelet settings is in progress in pool workers: 1 of 3 nodes has the settings, n2 is changing", "an upgrade of the cluster to 4.16.3 runs (ClusterVersion, condition Progressing)", "machine sets are being scaled by host/1"}
	if fmt.Sprint(f.Pauses) != fmt.Sprint(want) || !f.Until.Equal(aroundNow.Add(time.Minute)) {
		t.Errorf("%q, until %s", f.Pauses, f.Until)
	}
	// The same is the same, and a minute later the scale has not been heard of.
	if !f.Same(b.read(aroundNow.Add(time.Second))) {
		t.Error("nothing has changed")
	}
	if g := b.read(aroundNow.Add(time.Minute)); f.Same(g) || len(g.Pauses) != 2 {
		t.Errorf("%q", g.Pauses)
	}
	var none *Found
	if none.Same(f) || f.Same(nil) {
		t.Error("nothing is the same as something")
	}
}

// TestNamespaces tests that a controller that works in any of the namespaces is found, and that a
// controller of checks applies only to its own namespace.
func TestNamespaces(t *testing.T) {
	elsewhere := strings.ReplaceAll(scaling, "openshift-machine-api", "fleet")
	b := newBench(t, rivals, strings.Replace(scaling, "host/1", "host/2", 1), elsewhere)
	b.Namespaces = []string{"fleet", Namespace}
	f := b.read(aroundNow)
	want := "[machine sets are being scaled by host/1 machine sets are being scaled by host/2]"
	if fmt.Sprint(f.Pauses) != want || f.Rivals["fleet"] != "" || f.Rivals[Namespace] == "" {
		t.Errorf("%q, controllers %q", f.Pauses, f.Rivals)
	}
	if g := b.read(aroundNow.Add(30 * time.Second)); !f.Same(g) || !g.Until.Equal(aroundNow.Add(time.Minute)) {
		t.Errorf("%q until %s", g.Pauses, g.Until)
	}
	b.Namespaces = []string{"fleet"}
	if g := b.read(aroundNow); f.Same(g) || len(g.Rivals) > 0 || len(g.Pauses) != 1 {
		t.Errorf("%q, controllers %q", g.Pauses, g.Rivals)
	}
}

// TestOnce tests that a single read trusts the renew time in a lease.
func TestOnce(t *testing.T) {
	for renewed, want := range map[time.Duration]int{30 * time.Second: 1, 15 * time.Minute: 0} {
		at := aroundNow.Add(-renewed).UTC().Format("2006-01-02T15:04:05.000000Z")
		b := newBench(t, strings.Replace(scaling, "leaseDurationSeconds", `renewTime: "`+at+`", leaseDurationSeconds`, 1))
		if f := b.read(aroundNow); len(f.Pauses) != 1 {
			t.Errorf("renewed %s ago, when first seen: %q", renewed, f.Pauses)
		}
		b.Once = true
		if f := b.read(aroundNow); len(f.Pauses) != want {
			t.Errorf("renewed %s ago, read once: %q", renewed, f.Pauses)
		}
	}
}

// TestSame tests that a Cluster API machine with another node is a different situation.
func TestSame(t *testing.T) {
	b := newBench(t, capiCheck, capiMachine)
	f := b.read(aroundNow)
	m := &unstructured.Unstructured{}
	m.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	m.SetKind("Machine")
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "m1"}, m); err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(m.Object, "n2", "status", "nodeRef", "name")
	if err := b.c.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if f.Same(b.read(aroundNow)) {
		t.Error("it is another node")
	}
}

// TestForbidden tests that remediation waits if another controller may exist but cannot be read.
func TestForbidden(t *testing.T) {
	for _, kind := range []string{"Deployment", "NodeHealthCheck", "MachineHealthCheck", "KubeletPool", "ClusterVersion", "Lease"} {
		b := newBench(t, rivals, nodeCheck, capiCheck, capiMachine, poolOf, upgrading, scaling)
		all := len(b.read(aroundNow).Pauses)
		b.forbidden = kind
		f := b.read(aroundNow)
		text := strings.Join(f.Pauses, "\n")
		gone := 0
		if kind == "KubeletPool" || kind == "ClusterVersion" || kind == "Lease" {
			gone = 1
		}
		if len(f.Pauses) != all+1-gone || !strings.Contains(text, "unknown whether another controller is working: ") || !strings.Contains(text, "no right") {
			t.Errorf("%s: %s", kind, text)
		}
	}
}

func TestServed(t *testing.T) {
	if err := Served(newBench(t).Mapper); !errors.Is(err, ErrNotServed) {
		t.Error(err)
	}
	if err := Served(newBench(t, `{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: m}}`, `{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {name: c}}`).Mapper); err != nil {
		t.Error(err)
	}
}
