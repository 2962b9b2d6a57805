package plan

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestPods tests the number of concurrent pods of an object, and the number of ended pods of a Job.
func TestPods(t *testing.T) {
	for text, want := range map[string][2]int{
		`Pod {}`: {1, 0}, `ConfigMap {}`: {0, 0}, `Deployment {}`: {1, 0}, `Deployment {"replicas":0}`: {0, 0}, `StatefulSet {"replicas":7}`: {7, 0}, `Deployment {"replicas":null}`: {1, 0},
		`Job {}`: {1, 1}, `Job {"completions":100}`: {1, 100}, `Job {"completions":100,"parallelism":10}`: {10, 100}, `Job {"completions":3,"parallelism":10}`: {3, 3},
		`Job {"parallelism":4}`: {4, 4}, `Job {"completions":null,"parallelism":4}`: {4, 4}, `Job {"parallelism":0,"completions":5}`: {0, 0}, `Job {"completions":5,"suspend":true}`: {0, 0},
	} {
		var kind, fields string
		if _, err := fmt.Sscanf(text, "%s %s", &kind, &fields); err != nil {
			t.Fatal(err)
		}
		of := map[string]any{}
		if err := json.Unmarshal([]byte(fields), &of); err != nil {
			t.Fatal(err)
		}
		if s := scaleOf(kind, of); s.pods() != want[0] || s.finished() != want[1] {
			t.Errorf("%s: %d at once, %d finished; want %v", text, s.pods(), s.finished(), want)
		}
	}
}

// TestPatched tests patches of each type that change the number of an object's pods.
func TestPatched(t *testing.T) {
	const merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
	for name, x := range map[string]struct {
		media, text string
		iterations  int
		pods        []int // after each patch; -1 where it changes nothing
		all         int
	}{
		"up":                 {merge, `{"spec":{"replicas":5}}`, 1, []int{5}, 5},
		"down":               {strategic, "spec: {replicas: 0}", 1, []int{0}, 2},
		"the same":           {merge, "spec: {replicas: 2}", 1, []int{-1}, 2},
		"removed":            {merge, "spec: {replicas: null}", 1, []int{1}, 2},
		"of something else":  {merge, "metadata: {labels: {replicas: a}}", 1, []int{-1}, 2},
		"each iteration":     {merge, "spec: {replicas: {{mul .Iteration 3}}}", 3, []int{0, 3, 6}, 6},
		"apply":              {ApplyPatch, "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 4}", 1, []int{4}, 4},
		"JSON patch":         {jsonPatch, `[{"op":"test","path":"/spec/replicas","value":9},{"op":"replace","path":"/spec/replicas","value":8}]`, 1, []int{8}, 8},
		"JSON patch, remove": {jsonPatch, `[{"op":"remove","path":"/spec/replicas"}]`, 1, []int{1}, 2},
		"JSON patch, whole":  {jsonPatch, `[{"op":"replace","path":"/spec","value":{"replicas":3}}]`, 1, []int{3}, 3},
	} {
		p := compile(t, &Load{Stages: []Stage{burnerStage("a", "x", 1, 1, deploymentText), acting("p", x.iterations, true, Action{Do: Patch, Kind: "Deployment", Labels: ofJob, PatchType: x.media, Text: x.text, File: "p"})}})
		for i, want := range x.pods {
			n, ok := p.Patched(i)
			if !ok {
				n = -1
			}
			if n != want {
				t.Errorf("%s: patch %d: %d pods, want %d", name, i, n, want)
			}
		}
		if n, _ := p.Pods(1); n != 2 || p.PodsInAll(1) != x.all {
			t.Errorf("%s: %d at first, %d in all; want 2 and %d", name, n, p.PodsInAll(1), x.all)
		}
	}
}
