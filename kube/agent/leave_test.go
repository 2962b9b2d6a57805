package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"fettle.dev/fettle/kube/tuned"
)

// TestEnd tests that a replaced agent leaves the values, and that an agent that is removed from the
// cluster restores them. The order in which its objects are deleted varies.
func TestEnd(t *testing.T) {
	const there, going = `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"}}`
	const gone, forbidden, broken = "404", "403", "500"
	defer func(was time.Duration) { leaving = was }(leaving)
	for _, c := range []struct {
		name, set, namespace, daemonset string
		profileGoes                     time.Duration // after the beginning of the end; 0 for never
		restored                        bool
		watched                         string // the end of the watch of the DaemonSet: "", MODIFIED or DELETED
	}{
		{"replaced", "agents", there, there, 0, false, ""},
		{"of no set", "", gone, gone, 0, false, ""},
		{"the set is gone", "agents", there, gone, 0, true, ""},
		{"the set is being deleted", "agents", there, going, 0, true, ""},
		{"the namespace is being deleted", "agents", going, there, 0, true, ""},
		{"no right any more, then the Profile goes", "agents", forbidden, forbidden, 50 * time.Millisecond, true, ""},
		{"no right, and nothing else", "agents", forbidden, forbidden, 0, false, ""},
		{"no right any more, and the set was deleted", "agents", forbidden, forbidden, 0, true, "DELETED"},
		{"no right any more, and the set is being deleted", "agents", forbidden, forbidden, 0, true, "MODIFIED"},
		{"nobody can say", "agents", broken, broken, 0, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if leaving = 300 * time.Millisecond; c.restored { // without a sign the end is the same however late it asks
				leaving = time.Minute // it ends before
			}
			f := newNode(t, nil)
			p := f.profile("", "day", day)
			f.look(p, Apply)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				set := func(more string) string {
					return `{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"agents","namespace":"ns","resourceVersion":"1"` + more + `}}`
				}
				if r.URL.Path == "/apis/apps/v1/namespaces/ns/daemonsets" {
					if r.URL.Query().Get("fieldSelector") != "metadata.name=agents" {
						t.Errorf("it asks for %s", r.URL.RawQuery) // the role allows this name alone
					}
					if r.URL.Query().Get("sendInitialEvents") != "true" {
						t.Errorf("it does not ask for a list in the watch: %s", r.URL.RawQuery)
					}
					fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, set(""))
					fmt.Fprintf(w, `{"type":"BOOKMARK","object":%s}`, set(`,"annotations":{"k8s.io/initial-events-end":"true"}`))
					fmt.Fprintf(w, `{"type":%q,"object":%s}`, c.watched, set(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`))
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					return
				}
				answer := map[string]string{"/api/v1/namespaces/ns": c.namespace, "/apis/apps/v1/namespaces/ns/daemonsets/agents": c.daemonset}[r.URL.Path]
				var code int
				if n, _ := fmt.Sscanf(answer, "%d", &code); n == 1 {
					reason := map[int]string{404: "NotFound", 403: "Forbidden", 500: "InternalError"}[code]
					w.WriteHeader(code)
					fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
					return
				}
				fmt.Fprint(w, answer)
			}))
			defer server.Close()
			api, err := newClient(&rest.Config{Host: server.URL}, "node1", "ns")
			if err != nil {
				t.Fatal(err)
			}
			a := &running{Options: Options{Node: f.Node, Set: c.set, Log: slog.New(slog.DiscardHandler)}, client: api}
			if c.watched != "" {
				watching, stop := context.WithCancel(t.Context())
				defer stop()
				a.setGone = api.watchSet(watching, c.set)
			}
			changed := make(chan struct{}, 1)
			var object atomic.Pointer[tuned.Profile]
			object.Store(p)
			if c.profileGoes > 0 {
				time.AfterFunc(c.profileGoes, func() { object.Store(nil); changed <- struct{}{} })
			}
			a.end(changed, func() (bool, *tuned.Profile) { return true, object.Load() })
			if c.restored {
				f.wantPristine()
			} else {
				f.want(swappiness, "10", dirtyRatio, "40")
			}
		})
	}

	t.Run("the Profile went, and nobody had looked", func(t *testing.T) {
		f := newNode(t, nil)
		f.look(f.profile("", "day", day), Apply)
		a := &running{Options: Options{Node: f.Node, Log: slog.New(slog.DiscardHandler)}}
		a.end(nil, func() (bool, *tuned.Profile) { return false, nil }) // not heard of
		f.want(swappiness, "10", dirtyRatio, "40")
		a.end(nil, func() (bool, *tuned.Profile) { return true, nil })
		f.wantPristine()
	})
}
