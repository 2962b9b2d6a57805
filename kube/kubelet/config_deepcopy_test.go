package kubelet

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/testkit"
)

func TestDeepCopy(t *testing.T) {
	all := []runtime.Object{&KubeletConfig{}, &KubeletConfigList{}, &KubeletPool{}, &KubeletPoolList{}, &NodeKubelet{}, &NodeKubeletList{}}
	kube.Check(t, all...)
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if kinds, _, err := scheme.ObjectKinds(o); err != nil || len(kinds) != 1 {
			t.Errorf("%T: %v %v", o, kinds, err)
		}
	}
}
