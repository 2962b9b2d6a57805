package job

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/kube/cluster"
)

// set is a Set whose API server has one answer.
func set(t *testing.T, answer any) *Set {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Set{Request: Request{Namespace: "shop", Name: "load", Count: 2}, Server: cluster.New(base, http.DefaultTransport)}
}

// TestWhy tests what is said of a pod whose stream has ended.
func TestWhy(t *testing.T) {
	conditions := func(all ...core.PodCondition) *core.Pod {
		return &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "p"}, Spec: core.PodSpec{NodeName: "n", Containers: []core.Container{{Name: "generator"}}}, Status: core.PodStatus{Phase: core.PodRunning, Conditions: all}}
	}
	ended := func(state core.ContainerStateTerminated) *core.Pod {
		p := conditions()
		p.Status.ContainerStatuses = []core.ContainerStatus{{State: core.ContainerState{Terminated: &state}}}
		return p
	}
	deleted := conditions()
	deleted.DeletionTimestamp = &meta.Time{Time: time.Now()}
	evicted := conditions()
	evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = core.PodFailed, "Evicted", "The node was low on resource: memory."
	for want, c := range map[string]struct {
		pod   any
		known bool
	}{
		"the pod was deleted on node n":                                          {nil, true},
		"the pod was deleted on node n ":                                         {deleted, true},
		"the pod on node n ended: Evicted The node was low on resource: memory.": {evicted, true},
		"the generator on node n ended with exit code 137: Error":                {ended(core.ContainerStateTerminated{ExitCode: 137, Reason: "Error", Message: "{\"pong\":1}\n{\"now\":{}}\n"}), true},
		"the generator on node n ended with exit code 1: no":                     {ended(core.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "{\"pong\":1}\nhello\nno\n"}), true},
		"the generator on node n ended":                                          {ended(core.ContainerStateTerminated{}), true},
		"the pod is not ready on node n: the node does not report, or the network to it is down; see kubectl get node n": {conditions(core.PodCondition{Type: core.PodReady, Status: core.ConditionFalse}), true},
		"the stream to the pod on node n ended, although the pod runs: unexpected EOF":                                   {conditions(core.PodCondition{Type: core.PodReady, Status: core.ConditionTrue}), false},
		"the pod was removed on node n: EvictionByEvictionAPI: Eviction API: evicting": {func() *core.Pod {
			p := conditions(core.PodCondition{Type: core.DisruptionTarget, Status: core.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
			p.DeletionTimestamp = deleted.DeletionTimestamp
			return p
		}(), true},
	} {
		err := set(t, c.pod).why(Pod{"p", "n"}, 0, io.ErrUnexpectedEOF)
		var gone *fleet.Gone
		if err.Error() != strings.TrimSpace(want) || errors.As(err, &gone) != c.known {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
