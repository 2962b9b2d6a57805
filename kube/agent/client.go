package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

// agentClient reads the Profile object of one node and writes the node's report into it. It needs
// no other rights.
type agentClient struct {
	node, namespace string
	profiles        rest.Interface
	core, apps      rest.Interface
	// written is the status that was written last, writtenUID the UID of its Profile object.
	written    tuned.ProfileStatus
	writtenUID types.UID
}

func newClient(config *rest.Config, node, namespace string) (*agentClient, error) {
	codecs := serializer.NewCodecFactory(cluster.Scheme(tuned.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme)).WithoutConversion()
	of := func(gv schema.GroupVersion, path string) (rest.Interface, error) {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, path, codecs
		c.ContentType = runtime.ContentTypeJSON
		return rest.RESTClientFor(c)
	}
	c := &agentClient{node: node, namespace: namespace}
	var err error
	if c.profiles, err = of(tuned.GroupVersion, "/apis"); err != nil {
		return nil, err
	}
	if c.core, err = of(corev1.SchemeGroupVersion, "/api"); err != nil {
		return nil, err
	}
	c.apps, err = of(appsv1.SchemeGroupVersion, "/apis")
	return c, err
}

// watchSet follows a DaemonSet until ctx ends. gone reports whether it existed and has been
// deleted, or is being deleted. It uses one long watch, which continues after the account loses its
// rights, for example when all of fettle is deleted at once. A new request would be refused then.
func (c *agentClient) watchSet(ctx context.Context, set string) (gone func() bool) {
	var deleted atomic.Bool
	look := func(object any) {
		if s, ok := object.(*appsv1.DaemonSet); ok {
			deleted.Store(s.DeletionTimestamp != nil)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c.apps, "daemonsets", c.namespace, fields.OneTermEqualSelector("metadata.name", set)),
		ObjectType:    &appsv1.DaemonSet{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: look, UpdateFunc: func(_, now any) { look(now) }, DeleteFunc: func(any) { deleted.Store(true) },
		},
	})
	go informer.RunWithContext(ctx)
	return deleted.Load
}

// watch follows the node's Profile object until ctx ends, and calls changed whenever the object's
// request changes. store caches the object; synced reports whether the API server has answered.
func (c *agentClient) watch(ctx context.Context, changed func()) (store cache.Store, synced func() bool) {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c.profiles, "profiles", c.namespace, fields.OneTermEqualSelector("metadata.name", c.node)),
		ObjectType:    &tuned.Profile{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			DeleteFunc: func(any) { changed() },
			UpdateFunc: func(before, now any) {
				a, b := before.(*tuned.Profile), now.(*tuned.Profile)
				if a.UID != b.UID || a.Generation != b.Generation || a.Annotations[tuned.DeferredAnnotation] != b.Annotations[tuned.DeferredAnnotation] {
					changed()
				}
			},
		},
	})
	go informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			changed()
		}
	}()
	return store, informer.HasSynced
}

// profile returns the node's Profile object from the store, or nil.
func (c *agentClient) profile(store cache.Store) *tuned.Profile {
	found, ok, err := store.GetByKey(c.namespace + "/" + c.node)
	if err != nil || !ok {
		return nil
	}
	return found.(*tuned.Profile)
}

// report writes the node's state to its Profile object if it differs from the last report.
func (c *agentClient) report(ctx context.Context, p *tuned.Profile, out Outcome, now time.Time) error {
	status := tuned.ProfileStatus{TunedProfile: out.Profile, Conditions: p.Status.Conditions, ObservedGeneration: p.Generation}
	if c.writtenUID == p.UID {
		status.Conditions = c.written.Conditions // the watch may not have delivered them yet
	}
	for _, condition := range Conditions(out, p.Spec.Config.TunedProfile) {
		status.Conditions, _ = tuned.SetCondition(status.Conditions, condition, metav1.NewTime(now.UTC().Truncate(time.Second)))
	}
	said := reflect.DeepEqual(status, p.Status) || c.writtenUID == p.UID && reflect.DeepEqual(status, c.written)
	if !said {
		if err := c.patch(ctx, map[string]any{"status": status}, "status"); err != nil {
			return err
		}
		c.written, c.writtenUID = status, p.UID
	}
	changes := map[string]any{}
	for name, write := range map[string]func(Outcome) (string, error){ValuesAnnotation: ValuesText, HistoryAnnotation: HistoryText} {
		switch text, err := write(out); {
		case err != nil:
			return err
		case text == p.Annotations[name]:
		case text == "" && name == HistoryAnnotation: // the history was unreadable: keep the old one
		case text == "":
			changes[name] = nil // removes the annotation
		default:
			changes[name] = text
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return c.patch(ctx, map[string]any{"metadata": map[string]any{"annotations": changes}})
}

func (c *agentClient) patch(ctx context.Context, change any, subresource ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	err = c.profiles.Patch(types.MergePatchType).Namespace(c.namespace).Resource("profiles").Name(c.node).SubResource(subresource...).Param("fieldManager", FieldManager).Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("cannot write Profile %s/%s: %w", c.namespace, c.node, err)
	}
	return nil
}

// capacity returns the Node object's capacity, which the kubelet reports.
func (c *agentClient) capacity(ctx context.Context) (corev1.ResourceList, error) {
	var node corev1.Node
	if err := c.core.Get().Resource("nodes").Name(c.node).Do(ctx).Into(&node); err != nil {
		return nil, fmt.Errorf("Node %s: %w", c.node, err)
	}
	return node.Status.Capacity, nil
}

// event creates an event about the node's Profile object.
func (c *agentClient) event(ctx context.Context, p *tuned.Profile, e Event, now time.Time) error {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	at := metav1.NewTime(now)
	body, err := json.Marshal(&corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: c.node + ".", Namespace: c.namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: tuned.GroupVersion.String(), Kind: "Profile", Namespace: c.namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		},
		Type: kind, Reason: e.Reason, Message: e.Text, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "fettle-agent", Host: c.node},
	})
	if err != nil {
		return err
	}
	return c.core.Post().Namespace(c.namespace).Resource("events").Body(body).SetHeader("Content-Type", runtime.ContentTypeJSON).Do(ctx).Error()
}
