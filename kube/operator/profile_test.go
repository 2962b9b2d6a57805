package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

func decided(profile string) wish {
	yes := true
	return wish{
		Decision: tuned.Decision{
			Node: "n", State: tuned.Decided, Profile: profile, Debug: true, Verbosity: 2, ReapplySysctl: &yes, Deferred: tuned.DeferUpdate,
			Rule: &tuned.Rule{Object: "o", By: tuned.ByCatchAll},
		},
		texts: []tuned.TunedProfile{{Name: profile, Data: "[vm]\n"}}, providerName: "aws",
	}
}

func held() wish {
	w := decided("q")
	w.State, w.Notes, w.texts = tuned.Held, []tuned.Note{{Text: "profile q is refused"}}, nil
	return w
}

func TestStep(t *testing.T) {
	do, first := step("ns", nil, decided("p"))
	c := first.Spec.Config
	if do != create || first.Name != "n" || first.Namespace != "ns" || c.TunedProfile != "p" || !c.Debug || c.Verbosity != 2 || !*c.TuneDConfig.ReapplySysctl ||
		c.ProviderName != "aws" || len(first.Spec.Profile) != 1 || first.Annotations[tuned.DeferredAnnotation] != "update" || !first.Ours() ||
		first.Annotations[tuned.RuleAnnotation] != "Tuned o, recommend[0] (no priority): matches every node" {
		t.Fatalf("%s %+v", do, first)
	}
	first.UID, first.Annotations["else"] = "1", "kept"
	now := decided("p")
	now.Deferred = tuned.DeferNever
	gone := wish{Decision: tuned.Decision{Node: "n"}, gone: true}
	removed := decided("p")
	removed.gone = true
	nobody := wish{Decision: tuned.Decision{Node: "n", State: tuned.NoMatch}}
	strange := first.DeepCopy()
	delete(strange.Labels, tuned.ManagedByLabel)
	for _, c := range []struct {
		name    string
		present *tuned.Profile
		wish    wish
		want    action
		check   func(p *tuned.Profile) bool
	}{
		{"the same", first, decided("p"), nothing, nil},
		{"another profile", first, decided("q"), update, func(p *tuned.Profile) bool {
			return p.Spec.Config.TunedProfile == "q" && p.UID == "1" && p.Annotations["else"] == "kept"
		}},
		{"at once", first, now, update, func(p *tuned.Profile) bool { _, there := p.Annotations[tuned.DeferredAnnotation]; return !there }},
		{"without the mark", strange, decided("p"), update, (*tuned.Profile).Ours},
		{"the node is gone", first, gone, remove, func(p *tuned.Profile) bool { return p.UID == "1" }},
		{"the node is gone, and had none", nil, gone, nothing, nil},
		{"all is taken back", first, removed, remove, nil},
		{"no rule any more", first, nobody, remove, nil},
		{"no rule", nil, nobody, nothing, nil},
		{"held", first, held(), update, func(p *tuned.Profile) bool {
			return p.Spec.Config.TunedProfile == "p" && strings.HasPrefix(p.Annotations[tuned.RuleAnnotation], "node unchanged: profile q is refused")
		}},
		{"held, and had none", nil, held(), nothing, nil},
	} {
		before := c.present.DeepCopy()
		do, p := step("ns", c.present, c.wish)
		if do != c.want || c.check != nil && !c.check(p) {
			t.Errorf("%s: %q %+v", c.name, do, p)
		}
		if c.present != nil && (before.Spec.Config.TunedProfile != c.present.Spec.Config.TunedProfile || len(before.Annotations) != len(c.present.Annotations) || len(before.Labels) != len(c.present.Labels)) {
			t.Errorf("%s: the cache's object was changed", c.name)
		}
	}
	// What was written for a node that is held is not written again.
	_, p := step("ns", first, held())
	if do, _ := step("ns", p, held()); do != nothing {
		t.Errorf("held, a second time: %s", do)
	}
}

func TestForeign(t *testing.T) {
	by := func(names ...string) (out []metav1.ManagedFieldsEntry) {
		for _, n := range names {
			manager, subresource, _ := strings.Cut(n, "/")
			out = append(out, metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource})
		}
		return out
	}
	for _, c := range []struct {
		name       string
		profile    tuned.Profile
		who        string
		controller bool
	}{
		{"ours", tuned.Profile{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}, ManagedFields: by("kubectl-edit", "x")}}, "", false},
		{"a controller's", tuned.Profile{ObjectMeta: metav1.ObjectMeta{ManagedFields: by("agent/status", "cluster-node-tuning-operator")}}, "cluster-node-tuning-operator", true},
		{"by hand", tuned.Profile{ObjectMeta: metav1.ObjectMeta{ManagedFields: by("x/status", "kubectl-create", "kubectl-edit")}}, "kubectl-create", false},
		{"by hand, with what its agent says", tuned.Profile{ObjectMeta: metav1.ObjectMeta{ManagedFields: by("kubectl-create", "kubectl-fettle-agent")}}, "kubectl-create", false},
		{"by a controller and by hand", tuned.Profile{ObjectMeta: metav1.ObjectMeta{ManagedFields: by("kubectl-edit", "cluster-node-tuning-operator")}}, "cluster-node-tuning-operator", true},
		{"of an owner", tuned.Profile{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Tuned", Name: "default"}}}}, "a controller that makes Tuned default its owner", true},
		{"of nobody", tuned.Profile{}, "another program", false},
	} {
		if who, controller := foreign(&c.profile); who != c.who || controller != c.controller {
			t.Errorf("%s: %q %v", c.name, who, controller)
		}
	}
}

func TestProviderName(t *testing.T) {
	for id, want := range map[string]string{"aws:///eu-west-1a/i-1": "aws", "gce://p/z/n": "gce", "": "", "odd": ""} {
		if got := providerName(id); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

// TestLean tests that only the fields that decisions and writes need are kept.
func TestLean(t *testing.T) {
	profile := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{
		Annotations:   map[string]string{tuned.RuleAnnotation: "r", tuned.DeferredAnnotation: "always", "fettle.dev/values": "long"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{}")}},
	}}
	profile.Spec.Profile = []tuned.TunedProfile{{Name: "p", Data: "text"}}
	out, err := lean(profile)
	if err != nil {
		t.Fatal(err)
	}
	if p := out.(*tuned.Profile); len(p.Annotations) != 2 || p.ManagedFields[0].Manager != "m" || p.ManagedFields[0].FieldsV1 != nil || p.Spec.Profile[0].Data != "text" {
		t.Errorf("%+v", p)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{}}}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	out, _ = lean(pod)
	if p := out.(*corev1.Pod); p.Name != "p" || p.Namespace != "ns" || p.Labels["a"] != "b" || p.Spec.NodeName != "n" || p.Spec.Containers != nil || !cluster.Ended(p) {
		t.Errorf("%+v", p)
	}
}

func TestPools(t *testing.T) {
	pool := func(name string, spec map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}}
	}
	got := Pools([]unstructured.Unstructured{
		pool("worker", map[string]any{
			"nodeSelector":          map[string]any{"matchLabels": map[string]any{"w": ""}},
			"machineConfigSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "role", "operator": "In", "values": []any{"worker"}}}},
			"paused":                true,
		}),
		pool("odd", map[string]any{"nodeSelector": "text"}),
	})
	if len(got) != 2 || got[0].Name != "odd" || got[0].NodeSelector != nil || got[1].NodeSelector.MatchLabels["w"] != "" || got[1].MachineConfigSelector.MatchExpressions[0].Values[0] != "worker" {
		t.Errorf("%+v", got)
	}
}
