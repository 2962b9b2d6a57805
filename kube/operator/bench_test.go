package operator

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/tuned"
	"fettle.dev/fettle/profiles"
)

// cached has nodes and Profiles as the caches have them, and accepts writes like an API server:
// each request's body is built.
type cached struct {
	client.Client
	nodes    map[string]*corev1.Node
	profiles map[string]*tuned.Profile
	bytes    int
}

func (c *cached) Get(_ context.Context, k client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Node:
		*o = *c.nodes[k.Name]
	case *tuned.Profile:
		p := c.profiles[k.Name]
		if p == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "profiles"}, k.Name)
		}
		*o = *p
	}
	return nil
}

func (c *cached) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	c.profiles[o.GetName()] = o.(*tuned.Profile)
	return nil
}

func (c *cached) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	text, err := p.Data(o)
	c.bytes += len(text)
	c.profiles[o.GetName()] = o.(*tuned.Profile)
	return err
}

// BenchmarkFlip measures the operator's own work when the labels of 500 nodes change so that each
// gets another profile: it decides each node and builds the request. The API server's work is not
// included (test/cluster).
func BenchmarkFlip(b *testing.B) {
	const nodes = 500
	object := func(name, label string) *tuned.Tuned {
		t := &tuned.Tuned{ObjectMeta: metav1.ObjectMeta{Name: name}}
		t.Spec.Profile = []tuned.TunedProfile{{Name: name, Data: "[main]\ninclude=openshift-node\n[sysctl]\nvm.swappiness=1\n"}}
		p := uint64(10)
		t.Spec.Recommend = []tuned.TunedRecommend{{Profile: name, Priority: &p, Match: []tuned.TunedMatch{{Label: label}}}}
		return t
	}
	rules := tuned.New([]*tuned.Tuned{object("even", "even"), object("odd", "odd")}, nil, tuned.Options{Builtin: profiles.FS})
	c := &cached{nodes: map[string]*corev1.Node{}, profiles: map[string]*tuned.Profile{}}
	o := &operator{Options: Options{Namespace: ns, Log: logr.Discard()}, client: c, events: record.NewFakeRecorder(10), tally: newTally(func() []tuned.Profile { return nil })}
	o.inForce.Store(&situation{rules: rules})
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		for i := range nodes {
			name := fmt.Sprintf("node-%d", i)
			c.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{[]string{"even", "odd"}[(i+round)%2]: ""}}}
			if err := o.decideNode(b.Context(), name); err != nil {
				b.Fatal(err)
			}
			if got := c.profiles[name].Spec.Config.TunedProfile; got != []string{"even", "odd"}[(i+round)%2] {
				b.Fatalf("%s has %s", name, got)
			}
		}
	}
	b.ReportMetric(float64(c.bytes)/float64(b.N)/nodes, "bytes/request")
}
