package operator

import (
	"unique"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"fettle.dev/fettle/kube/machine"
)

// startCache makes the cache of machines and checks, and has the manager run it. It is
// none of the manager's own kinds: a manager does not start in a cluster that lacks one
// of those. With the manager's it shares connection, types, and what is known of kinds.
func startCache(m manager.Manager, namespaces []string) (cache.Cache, error) {
	shared, here := true, map[string]cache.Config{}
	for _, namespace := range namespaces {
		here[namespace] = cache.Config{}
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&machine.Machine{}: {Namespaces: here}, &machine.HealthCheck{}: {Namespaces: here},
		},
		DefaultTransform:             keep,
		DefaultUnsafeDisableDeepCopy: &shared,
	})
	if err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

// keep makes an object that comes from the API server into what is kept of it. Of a
// machine that is what a decision looks at; metadata alone is not enough, because the
// node's name and the phase are in the status.
func keep(in any) (any, error) {
	switch o := in.(type) {
	case *machine.Machine:
		out := &machine.Machine{ObjectMeta: meta.ObjectMeta{
			Namespace: unique.Make(o.Namespace).Value(), Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels,
			CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		}}
		if owner := meta.GetControllerOfNoCopy(o); owner != nil {
			out.OwnerReferences = []meta.OwnerReference{{Kind: unique.Make(owner.Kind).Value(), Name: unique.Make(owner.Name).Value(), UID: owner.UID, Controller: owner.Controller}}
		}
		if why, ok := o.Annotations[machine.ExternalAnnotation]; ok {
			out.Annotations = map[string]string{machine.ExternalAnnotation: why}
			if f := o.ExternalMark(); f != nil {
				out.ManagedFields = []meta.ManagedFieldsEntry{*f}
			}
		}
		if n := o.Status.NodeRef; n != nil {
			out.Status.NodeRef = &core.ObjectReference{Name: n.Name}
		}
		out.Status.LastUpdated = o.Status.LastUpdated
		if p := o.Status.Phase; p != nil {
			phase := unique.Make(*p).Value()
			out.Status.Phase = &phase
		}
		return out, nil
	case *machine.HealthCheck:
		o.ManagedFields = nil
	}
	return in, nil
}
