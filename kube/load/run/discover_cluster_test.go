package run

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fettle.dev/fettle/kube/cluster"
)

// TestClusterForbidden tests a user who may not read the version of OpenShift, as on a Kubernetes
// without one: this is reported, and is not an error.
func TestClusterForbidden(t *testing.T) {
	for status, want := range map[int]string{403: "unknown whether this is OpenShift; using the maximums of Kubernetes:", 404: "", 500: "the version of OpenShift"} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/apis/config.openshift.io/") {
				w.WriteHeader(status)
			}
			fmt.Fprint(w, `{"items":[],"message":"of the test"}`)
		}))
		base, err := url.Parse(h.URL)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Cluster(t.Context(), cluster.New(base, http.DefaultTransport))
		h.Close()
		if status == 500 {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d: %v", status, err)
			}
			continue
		}
		if err != nil || c.OpenShift != "" || len(c.Notes) > 0 != (want != "") || !strings.HasPrefix(strings.Join(c.Notes, ""), want) {
			t.Errorf("%d: %v %+v", status, err, c)
		}
	}
}

// TestNotSeen tests that each forbidden list is recorded and the others are counted, and that a
// failed list is an error.
func TestNotSeen(t *testing.T) {
	for forbidden, want := range map[string]string{"": "", "/api/v1/nodes": "nodes", "/api/v1/pods": "pods", "/api/v1/": "nodes pods namespaces services"} {
		for _, status := range []int{403, 500} {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/apis/"):
					w.WriteHeader(404)
				case forbidden != "" && strings.HasPrefix(r.URL.Path, forbidden):
					w.WriteHeader(status)
				}
				fmt.Fprint(w, `{"items":[{"status":{"allocatable":{"pods":"9"}}}],"message":"of the test"}`)
			}))
			base, err := url.Parse(h.URL)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Cluster(t.Context(), cluster.New(base, http.DefaultTransport))
			h.Close()
			if status == 500 && forbidden != "" {
				if err == nil {
					t.Errorf("%s: %d is no error", forbidden, status)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			var not []string
			for _, n := range c.NotSeen {
				not = append(not, n.What)
				if n.Why != "the API server answers 403: of the test" {
					t.Error(n.Why)
				}
			}
			if got := strings.Join(not, " "); got != want || len(c.Have)+len(c.NotSeen) != 3+map[bool]int{true: 1}[!c.Sees("nodes")]+map[bool]int{true: 1}[c.Sees("pods")] || c.Sees("nodes") != (c.Room == 9) {
				t.Errorf("%s: not seen %q, want %q; %+v", forbidden, got, want, c)
			}
		}
	}
}
