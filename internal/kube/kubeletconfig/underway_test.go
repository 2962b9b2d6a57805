package kubeletconfig

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnderWay(t *testing.T) {
	pool := func(name string, updating metav1.ConditionStatus, changing ...string) KubeletPool {
		return KubeletPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: KubeletPoolStatus{
			Nodes: 9, Updated: 2, Changing: changing, Conditions: []metav1.Condition{{Type: Updating, Status: updating}},
		}}
	}
	stuck := pool("stuck", metav1.ConditionTrue, "n1")
	stuck.Status.Conditions = append(stuck.Status.Conditions, metav1.Condition{Type: Degraded, Status: metav1.ConditionTrue, Reason: Stuck})
	failed := pool("failed", metav1.ConditionTrue, "n1")
	failed.Status.Conditions = append(failed.Status.Conditions, metav1.Condition{Type: Degraded, Status: metav1.ConditionTrue, Reason: "NodeFailed"})
	got := UnderWay([]KubeletPool{
		stuck, failed,
		pool("waits", metav1.ConditionTrue), pool("done", metav1.ConditionFalse), pool("paused", metav1.ConditionFalse, "n1"),
		pool("many", metav1.ConditionTrue, "n1", "n2", "n3", "n4", "n5"), {},
	})
	want := []string{
		"the kubelets of pool failed get other settings: 2 of 9 nodes have them, now at n1",
		"the kubelets of pool many get other settings: 2 of 9 nodes have them, now at n1, n2, n3, 2 more",
		"the kubelets of pool paused get other settings: 2 of 9 nodes have them, now at n1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
