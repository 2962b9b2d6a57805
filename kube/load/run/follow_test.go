package run

import (
	"encoding/json"
	"testing"
	"time"
)

func followSeen(t *testing.T, f *Follower, kind, text string) {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	f.see(kind, &o, false)
}

// TestOwned tests that a controller's pod is timed once, with the API's timestamps. Missing
// timestamps give no time, and a node's slow clock gives no negative time.
func TestOwned(t *testing.T) {
	var got []Seen
	f := New(nil, "run", FollowOptions{On: func(s Seen) { got = append(got, s) }})
	const meta = `"metadata":{"name":"p","namespace":"n","creationTimestamp":"2026-01-01T10:00:05Z","ownerReferences":[{"kind":"ReplicaSet","controller":true}]},"spec":{"nodeName":"a"}`
	scheduled := `{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T10:00:06Z"}`
	for _, status := range []string{
		`[` + scheduled + `,{"type":"Ready","status":"False","lastTransitionTime":"2026-01-01T10:00:06Z"}]`,
		`[` + scheduled + `,{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T10:00:09Z"}]`,
		`[` + scheduled + `,{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T10:00:30Z"}]`, // ready again
	} {
		followSeen(t, f, "Pod", `{`+meta+`,"status":{"conditions":`+status+`}}`)
	}
	if len(got) != 2 || got[0].What != "scheduled" || got[0].Took != time.Second || !got[0].Owned || got[1].What != "ready" || got[1].Took != 4*time.Second {
		t.Errorf("%+v", got)
	}
	got = nil
	followSeen(t, f, "Pod", `{"metadata":{"name":"q","creationTimestamp":"2026-01-01T10:00:05Z"},"spec":{"nodeName":"a"},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T10:00:04Z"}]}}`)
	if len(got) != 2 || got[0].Owned || got[0].Took >= 0 || got[1].Took != 0 {
		t.Errorf("%+v", got)
	}
}

// TestExpect tests that a patched object is ready when its new generation is, whether the watch or
// the answer to the patch comes first.
func TestExpect(t *testing.T) {
	f := New(nil, "run", FollowOptions{})
	k := Key{"Deployment", "n", "d"}
	deployment := func(generation, observed, updated string) {
		followSeen(t, f, "Deployment", `{"metadata":{"name":"d","namespace":"n","generation":`+generation+`},"spec":{"replicas":2},"status":{"observedGeneration":`+observed+`,"readyReplicas":2,"updatedReplicas":`+updated+`}}`)
	}
	ready := func() bool { return len(f.Until(t.Context(), []Key{k}, 0)) == 0 }
	deployment("1", "1", "2")
	if !ready() {
		t.Error("not ready as it was made")
	}
	f.Expect(k, 2)
	if ready() {
		t.Error("ready though the watch has not shown the patch")
	}
	deployment("2", "1", "2")
	deployment("2", "2", "1")
	if ready() {
		t.Error("ready though it has an old pod")
	}
	deployment("2", "2", "2")
	if !ready() {
		t.Error("not ready as it was patched")
	}
	deployment("3", "3", "2")
	if f.Expect(k, 3); !ready() {
		t.Error("not ready though the watch was first")
	}
}
