package kubecli

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/kube/kubeletconfig"
)

// TestCreated: which of two objects holds does not change when the older one is changed.
func TestCreated(t *testing.T) {
	config := func(name, maxPods string) kubeletconfig.KubeletConfig {
		o, err := kubeletconfig.Read("f", []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: "+name+", creationTimestamp: \"2020-01-01T00:00:00Z\"}\nspec: {machineConfigPoolSelector: {matchLabels: {pool: w}}, kubeletConfig: {maxPods: "+maxPods+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return o.Configs[0]
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old, late := config("old", "100"), config("late", "200")
	old.CreationTimestamp, late.CreationTimestamp = metav1.NewTime(now.Add(-2*time.Hour)), metav1.NewTime(now.Add(-time.Hour))
	for _, c := range []struct {
		file kubeletconfig.KubeletConfig
		want int64
	}{
		{config("old", "300"), 200}, // as it is there already, it stays the older one
		{config("late", "300"), 300},
		{config("another", "300"), 300}, // would be made now, whatever the file says
	} {
		in, file := []kubeletconfig.KubeletConfig{old, late}, []kubeletconfig.KubeletConfig{c.file}
		created(in, file, metav1.NewTime(now))
		w, err := kubeletconfig.WantOf(over(in, file, func(k kubeletconfig.KubeletConfig) string { return k.Name }), map[string]string{"pool": "w"})
		if err != nil || w.Fields["maxPods"] != c.want {
			t.Errorf("%s: maxPods %v, want %d: %v", c.file.Name, w.Fields["maxPods"], c.want, err)
		}
	}
}
