package tuned

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/testkit"
)

func TestDeepCopy(t *testing.T) {
	kube.Check(t, &Tuned{}, &TunedList{}, &Profile{}, &ProfileList{})
}

func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Tuned", "TunedList", "Profile", "ProfileList"} {
		if o, err := s.New(GroupVersion.WithKind(kind)); err != nil || reflect.TypeOf(o).Elem().Name() != kind {
			t.Errorf("%s: %T %v", kind, o, err)
		}
	}
}
