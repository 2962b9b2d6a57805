package admission

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWeights tests the shares of a pod and of its containers, as the kubelet calculates them.
func TestWeights(t *testing.T) {
	cpu := func(text string) Resources { return Resources{CPU: resource.MustParse(text)} }
	for _, tt := range []struct {
		name string
		pod  Pod
		want string // shares linear curve, the pod's own first
	}{
		{"two containers", Pod{Containers: []Container{{Name: "a", Requests: cpu("1")}, {Name: "b", Requests: cpu("100m")}}}, "1126 43 108|1024 39 100|102 4 17"},
		{"best effort", Pod{Containers: []Container{{Name: "a"}}}, "2 1 1|2 1 1"},
		{"limits only", Pod{Containers: []Container{{Name: "a", Limits: cpu("250m")}}}, "2 1 1|256 10 35"},
		{"an init container that asks for more", Pod{Init: []Container{{Name: "i", Requests: cpu("4")}}, Containers: []Container{{Name: "a", Requests: cpu("2")}}}, "4096 157 303|4096 157 303|2048 79 174"},
		{"overhead", Pod{Overhead: cpu("1"), Containers: []Container{{Name: "a", Requests: cpu("1")}}}, "2048 79 174|1024 39 100"},
	} {
		p := Prediction{in: &Input{Pod: tt.pod}}
		var got []string
		for _, w := range p.weights() {
			got = append(got, fmt.Sprint(w.Shares, " ", w.Linear, " ", w.Curve))
			if w.Says() == "" {
				t.Error("no words")
			}
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}
