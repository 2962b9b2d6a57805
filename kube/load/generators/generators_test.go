package generators

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/job"
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
	return &Set{Set: job.Set{Request: job.Request{Namespace: "shop", Name: "load", Count: 2}, Server: cluster.New(base, http.DefaultTransport)}}
}

// TestOrder tests that the generators have the order of their indexes, and that one that is being
// deleted does not count as running.
func TestOrder(t *testing.T) {
	pod := func(name, index string) core.Pod {
		return core.Pod{ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{"batch.kubernetes.io/job-completion-index": index}}, Status: core.PodStatus{Phase: core.PodRunning, ContainerStatuses: []core.ContainerStatus{{State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}}}
	}
	list := core.PodList{Items: []core.Pod{pod("c", "10"), pod("b", "9"), pod("a", "2")}}
	running, _, err := set(t, list).pods(t.Context())
	if err != nil || len(running) != 3 || running[0].Name != "a" || running[1].Name != "b" || running[2].Name != "c" {
		t.Errorf("%v %v", running, err)
	}
	list.Items[1].DeletionTimestamp = &meta.Time{Time: time.Now()}
	if running, _, err := set(t, list).pods(t.Context()); err == nil || !strings.Contains(err.Error(), "the pod was deleted") {
		t.Errorf("%v %v", running, err)
	}
}
