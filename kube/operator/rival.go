package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/tuned"
)

// What shows that OpenShift's Node Tuning Operator is at work.
var (
	clusterOperator = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterOperator"}
	deployment      = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

const (
	rivalClusterOperator = "node-tuning"
	rivalDeployment      = "cluster-node-tuning-operator"
)

// rival says which other controller has the Tuned and Profile objects of this cluster;
// "" if there is none.
func rival(ctx context.Context, api client.Reader, namespace string, profiles []tuned.Profile) (string, error) {
	for i := range profiles {
		if who, controller := foreign(&profiles[i]); controller {
			return fmt.Sprintf("%s, which has written Profile %s", who, profiles[i].Name), nil
		}
	}
	o, err := look(ctx, api, deployment, namespace, rivalDeployment)
	if err != nil {
		return "", err
	}
	if o != nil {
		// One that is scaled to none does nothing; none said is one.
		if n, said, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); err != nil || !said || n > 0 {
			return fmt.Sprintf("the Node Tuning Operator, Deployment %s/%s", namespace, rivalDeployment), nil
		}
	}
	if o, err = look(ctx, api, clusterOperator, "", rivalClusterOperator); err != nil {
		return "", err
	}
	if o != nil {
		return "the Node Tuning Operator, ClusterOperator " + rivalClusterOperator, nil
	}
	return "", nil
}

// look gets an object; nil without such an object, or such a kind.
func look(ctx context.Context, api client.Reader, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	switch err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); {
	case err == nil:
		return o, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("whether another controller is at work is not known: %s %s: %w", kind.Kind, name, err)
	}
}
