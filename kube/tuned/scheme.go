package tuned

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API's.
var GroupVersion = schema.GroupVersion{Group: "tuned.openshift.io", Version: "v1"}

// AddToScheme tells a scheme of the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Tuned{}, &TunedList{}, &Profile{}, &ProfileList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
