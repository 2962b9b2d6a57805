package discover

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kube/api"
)

// TestClusterForbidden: who may not see the version of OpenShift, as on a Kubernetes that
// has none, is told so, and is not turned away.
func TestClusterForbidden(t *testing.T) {
	for status, want := range map[int]string{403: "whether it is OpenShift cannot be seen", 404: "", 500: "the version of OpenShift"} {
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
		c, err := Cluster(t.Context(), api.New(base, http.DefaultTransport))
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
