package machine

import (
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API's.
var GroupVersion = schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}

// AddToScheme tells a scheme of the types. What they do not have of an object is not
// read, and must not be written: who changes one sends a patch.
func AddToScheme(s *runtime.Scheme) error {
	for kind, o := range map[string]runtime.Object{
		"Machine": &Machine{}, "MachineList": &MachineList{}, "MachineSet": &Set{}, "MachineSetList": &SetList{},
		"MachineHealthCheck": &HealthCheck{}, "MachineHealthCheckList": &HealthCheckList{},
	} {
		s.AddKnownTypeWithName(GroupVersion.WithKind(kind), o)
	}
	meta.AddToGroupVersion(s, GroupVersion)
	return nil
}
