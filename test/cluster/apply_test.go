package cluster

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/deploy"
)

// applier makes the objects of YAML files.
type applier struct {
	t       *testing.T
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

func (c *Cluster) applier(t *testing.T) *applier {
	t.Helper()
	d, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &applier{t, d, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))}
}

// before is what a cluster without OpenShift needs before deploy, but KubeletConfig.
var before = []string{"kinds/plain/namespace.yaml", "kinds/plain/tuned.openshift.io_tuneds.yaml", "kinds/plain/tuned.openshift.io_profiles.yaml"}

// deploy makes what kube/deploy/kustomization.yaml lists, but for the image, what has to be
// there before it, and what agents need to change kubelets. The API server has to take each object, with all its fields. dir is
// a directory of deploy.
func (a *applier) deploy(dir string) {
	a.t.Helper()
	if dir == "." {
		for _, name := range before {
			text, err := fs.ReadFile(deploy.FS, name)
			if err != nil {
				a.t.Fatal(err)
			}
			a.apply(name, text)
		}
		defer a.deploy("kubelet")
	}
	text, err := fs.ReadFile(deploy.FS, path.Join(dir, "kustomization.yaml"))
	if err != nil {
		a.t.Fatal(err)
	}
	var k struct {
		Resources []string `json:"resources"`
	}
	if err := sigsyaml.Unmarshal(text, &k); err != nil || len(k.Resources) == 0 {
		a.t.Fatalf("%s/kustomization.yaml: %v, %d resources", dir, err, len(k.Resources))
	}
	for _, name := range k.Resources {
		name = path.Join(dir, name)
		if path.Ext(name) != ".yaml" {
			a.deploy(name)
			continue
		}
		text, err := fs.ReadFile(deploy.FS, name)
		if err != nil {
			a.t.Fatal(err)
		}
		a.apply(name, text)
	}
}

// apply makes the objects of a file.
func (a *applier) apply(file string, text []byte) {
	a.t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			a.t.Fatalf("%s: %v", file, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		in, err := a.resource(o)
		if err == nil {
			_, err = in.Create(a.t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		}
		if err != nil {
			a.t.Fatalf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
		}
	}
}

// resource is where objects of a kind are. A kind may be only just known.
func (a *applier) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return a.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
	}
	return a.dynamic.Resource(mapping.Resource), nil
}
