package tuned

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetCondition(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	}
	good := StatusCondition{Type: Valid, Status: metav1.ConditionTrue, Reason: AsExpected}
	bad := StatusCondition{Type: Valid, Status: metav1.ConditionFalse, Reason: "X", Message: "m"}
	other := StatusCondition{Type: Applied, Status: metav1.ConditionTrue, LastTransitionTime: at(0)}

	first, changed := SetCondition([]StatusCondition{other}, good, at(1))
	if !changed || len(first) != 2 || first[0] != other || first[1].LastTransitionTime != at(1) {
		t.Errorf("a new one: %v %v", changed, first)
	}
	same, changed := SetCondition(first, good, at(2))
	if changed || same[1].LastTransitionTime != at(1) {
		t.Errorf("the same: %v %v", changed, same)
	}
	good.Message = "m"
	said, changed := SetCondition(first, good, at(3))
	if !changed || said[1].Message != "m" || said[1].LastTransitionTime != at(1) {
		t.Errorf("other words: %v %v", changed, said)
	}
	turned, changed := SetCondition(said, bad, at(4))
	if !changed || turned[1].Status != metav1.ConditionFalse || turned[1].LastTransitionTime != at(4) || turned[0] != other {
		t.Errorf("another status: %v %v", changed, turned)
	}
	if first[1].Message != "" || said[1].Status != metav1.ConditionTrue {
		t.Error("what was given was changed")
	}
}

func TestDeferred(t *testing.T) {
	for text, want := range map[string]DeferMode{"always": DeferAlways, "update": DeferUpdate, "never": DeferNever} {
		if mode, known := Deferred(map[string]string{"tuned.openshift.io/deferred": text}); mode != want || !known {
			t.Errorf("%s: %s %v", text, mode, known)
		}
	}
	for _, text := range []string{"", "Always", "yes"} {
		if mode, known := Deferred(map[string]string{"tuned.openshift.io/deferred": text}); mode != DeferNever || known {
			t.Errorf("%q: %s %v", text, mode, known)
		}
	}
	for _, none := range []map[string]string{nil, {"tuned.openshift.io/Deferred": "always"}} {
		if mode, known := Deferred(none); mode != DeferNever || !known {
			t.Errorf("%v: %s %v", none, mode, known)
		}
	}
}
