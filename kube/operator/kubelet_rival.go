package operator

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/kubelet"
)

// kubeletClusterOperator shows, as MachineConfigPools do, that OpenShift's Machine Config Operator
// is at work.
var kubeletClusterOperator = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterOperator"}

const kubeletRivalClusterOperator = "machine-config"

// machineConfigOperator says by what it shows that this cluster has one; "" if it has none.
func machineConfigOperator(ctx context.Context, api client.Reader) (string, error) {
	unknown := func(what string, err error) (string, error) {
		return "", fmt.Errorf("whether another controller acts on KubeletConfig objects is not known: %s: %w", what, err)
	}
	pools := &metav1.PartialObjectMetadataList{}
	pools.SetGroupVersionKind(kubelet.MachineConfigPools)
	switch err := api.List(ctx, pools, client.Limit(1)); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
	case err != nil:
		return unknown("MachineConfigPools", err)
	case len(pools.Items) > 0:
		return "the Machine Config Operator, whose MachineConfigPool " + pools.Items[0].Name + " is there", nil
	}
	operator := &metav1.PartialObjectMetadata{}
	operator.SetGroupVersionKind(kubeletClusterOperator)
	switch err := api.Get(ctx, client.ObjectKey{Name: kubeletRivalClusterOperator}, operator); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
	case err != nil:
		return unknown("ClusterOperator "+kubeletRivalClusterOperator, err)
	default:
		return "the Machine Config Operator, ClusterOperator " + kubeletRivalClusterOperator, nil
	}
	return "", nil
}

// actsOn says which controller other than this one has left its marks on an object: a
// status, or a finalizer. Who writes objects by hand, or from a repository, writes
// neither.
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
