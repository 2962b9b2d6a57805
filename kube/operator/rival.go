package operator

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// Kinds with signs of OpenShift's operators.
var (
	clusterOperator = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterOperator"}
	deployment      = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

const (
	rivalClusterOperator = "node-tuning"
	rivalDeployment      = "cluster-node-tuning-operator"
)

// rival returns the other controller that owns the cluster's Tuned and Profile objects, or "".
func rival(ctx context.Context, api client.Reader, namespace string, profiles []tuned.Profile) (string, error) {
	for i := range profiles {
		if who, controller := foreign(&profiles[i]); controller {
			return fmt.Sprintf("%s, which wrote Profile %s", who, profiles[i].Name), nil
		}
	}
	o, err := look(ctx, api, deployment, namespace, rivalDeployment)
	if err != nil {
		return "", err
	}
	if o != nil {
		// With 0 replicas it does nothing; without the field it has 1.
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

// look reads an object. It returns nil if the object or its kind does not exist.
func look(ctx context.Context, api client.Reader, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	switch err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); {
	case err == nil:
		return o, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("cannot check for other controllers: %s %s: %w", kind.Kind, name, err)
	}
}

// kubeletRivalClusterOperator is, like MachineConfigPools, a sign of OpenShift's Machine Config
// Operator.
const kubeletRivalClusterOperator = "machine-config"

// machineConfigOperator returns the evidence of that operator in this cluster, or "".
func machineConfigOperator(ctx context.Context, api client.Reader) (string, error) {
	unknown := func(what string, err error) (string, error) {
		return "", fmt.Errorf("cannot check for other controllers of KubeletConfig objects: %s: %w", what, err)
	}
	pools := &metav1.PartialObjectMetadataList{}
	pools.SetGroupVersionKind(kubelet.MachineConfigPools)
	switch err := api.List(ctx, pools, client.Limit(1)); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
	case err != nil:
		return unknown("MachineConfigPools", err)
	case len(pools.Items) > 0:
		return "the Machine Config Operator (MachineConfigPool " + pools.Items[0].Name + " exists)", nil
	}
	operator := &metav1.PartialObjectMetadata{}
	operator.SetGroupVersionKind(clusterOperator)
	switch err := api.Get(ctx, client.ObjectKey{Name: kubeletRivalClusterOperator}, operator); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
	case err != nil:
		return unknown("ClusterOperator "+kubeletRivalClusterOperator, err)
	default:
		return "the Machine Config Operator, ClusterOperator " + kubeletRivalClusterOperator, nil
	}
	return "", nil
}

// actsOn returns the other controller that has written an object's status or finalizer, or "".
// Users and repositories write neither.
func actsOn(k *kubelet.KubeletConfig) string {
	for _, f := range k.ManagedFields {
		if f.Subresource == "status" && f.Manager != FieldManager && f.Manager != "" && !strings.HasPrefix(f.Manager, "kubectl") {
			return f.Manager
		}
	}
	if len(k.Finalizers) > 0 {
		return "a controller with the finalizer " + k.Finalizers[0]
	}
	return ""
}
