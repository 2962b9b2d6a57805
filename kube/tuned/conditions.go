package tuned

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusCondition is one thing that is said of an object.
//
// +kubebuilder:object:generate=true
type StatusCondition struct {
	Type   ConditionType          `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last became another one.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// Reason is one word in CamelCase.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ConditionType is what a condition is about.
type ConditionType string

// The types of conditions. Of a profile that works, Applied is True and Degraded
// is False.
const (
	Valid    ConditionType = "Valid"    // of a Tuned object
	Applied  ConditionType = "Applied"  // of a Profile object
	Degraded ConditionType = "Degraded" // of a Profile object
)

// AsExpected is the reason of a condition that is as it should be.
const AsExpected = "AsExpected"

// SetCondition returns the conditions with one of them set, and whether that
// changed anything. The transition time is now where the status becomes another
// one, else it stays.
func SetCondition(conditions []StatusCondition, c StatusCondition, now metav1.Time) ([]StatusCondition, bool) {
	i := slices.IndexFunc(conditions, func(old StatusCondition) bool { return old.Type == c.Type })
	c.LastTransitionTime = now
	if i < 0 {
		return append(slices.Clone(conditions), c), true
	}
	if old := conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old == c {
			return conditions, false
		}
	}
	out := slices.Clone(conditions)
	out[i] = c
	return out, true
}

// DeferredAnnotation is where a Tuned object says when changes take effect.
const DeferredAnnotation = "tuned.openshift.io/deferred"

// DeferMode is when a profile takes effect.
type DeferMode string

// The modes.
const (
	DeferNever  DeferMode = "never"  // at once
	DeferAlways DeferMode = "always" // at the next boot
	// DeferUpdate is at the next boot for a change of the profile that is in
	// force, at once for a switch to another one.
	DeferUpdate DeferMode = "update"
)

// Deferred reads the annotation. known is false where it has another text than a
// mode, which means never.
func Deferred(annotations map[string]string) (mode DeferMode, known bool) {
	text, ok := annotations[DeferredAnnotation]
	switch mode := DeferMode(text); mode {
	case DeferAlways, DeferUpdate, DeferNever:
		return mode, true
	}
	return DeferNever, !ok
}
