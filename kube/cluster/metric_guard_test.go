package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/testkit/root"
)

// reviewer answers token and access reviews as an API server does: the token "monitor" may get
// /metrics, "other" may not.
type reviewer struct {
	mu    sync.Mutex
	down  bool
	asked []string
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(req.Body)
	r.asked = append(r.asked, req.URL.Path)
	if r.down {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch req.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		var o authentication.TokenReview
		_ = json.Unmarshal(body, &o)
		if o.Spec.Token == "monitor" || o.Spec.Token == "other" {
			o.Status.Authenticated = true
			o.Status.User = authentication.UserInfo{Username: o.Spec.Token, Groups: []string{"g"}, Extra: map[string]authentication.ExtraValue{"e": {"v"}}}
		}
		_ = json.NewEncoder(w).Encode(&o)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var o authorization.SubjectAccessReview
		_ = json.Unmarshal(body, &o)
		a := o.Spec.NonResourceAttributes
		o.Status.Allowed = o.Spec.User == "monitor" && a != nil && a.Path == "/metrics" && a.Verb == "get" && slices.Equal(o.Spec.Groups, []string{"g"}) && len(o.Spec.Extra["e"]) == 1
		_ = json.NewEncoder(w).Encode(&o)
	default:
		http.NotFound(w, req)
	}
}

func (r *reviewer) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func TestGuard(t *testing.T) {
	api := &reviewer{}
	server := httptest.NewServer(api)
	defer server.Close()
	g, err := newGuard(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	g.now = func() time.Time { return now }
	h := g.around(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "values") }))
	get := func(method, header string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/metrics", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, header string
		status, asks   int
	}{
		{"GET", "", 401, 0},
		{"GET", "Basic monitor", 401, 0},
		{"GET", "Bearer ", 401, 0},
		{"POST", "Bearer monitor", 405, 0},
		{"GET", "Bearer nobody", 401, 1},
		{"GET", "Bearer nobody", 401, 0}, // known
		{"GET", "Bearer other", 403, 2},
		{"GET", "Bearer monitor", 200, 2},
		{"GET", "bearer monitor", 200, 0},
	} {
		before := api.count()
		w := get(c.method, c.header)
		if asks := api.count() - before; w.Code != c.status || asks != c.asks {
			t.Errorf("%s %q: %d after %d questions, want %d after %d", c.method, c.header, w.Code, asks, c.status, c.asks)
		}
		if told := strings.Contains(w.Body.String(), "values"); told != (c.status == 200) {
			t.Errorf("%s %q is told %q", c.method, c.header, w.Body)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%q is not told how", c.header)
		}
	}

	// While the API server does not answer, who is known is let in, until that is old;
	// no other client is.
	api.mu.Lock()
	api.down = true
	api.mu.Unlock()
	if w := get("GET", "Bearer monitor"); w.Code != 200 {
		t.Errorf("known: %d", w.Code)
	}
	now = now.Add(letInFor)
	if w := get("GET", "Bearer monitor"); w.Code != 503 || strings.Contains(w.Body.String(), "values") {
		t.Errorf("known no more: %d %s", w.Code, w.Body)
	}
	for i := range 3 * mostKnown {
		g.keep([32]byte{byte(i), byte(i >> 8)}, 401)
	}
	if n := len(g.known); n > mostKnown {
		t.Errorf("%d answers are kept", n)
	}
}

// TestServe tests that metrics are served over HTTPS with authorization by default, and over plain
// HTTP without authorization if open.
func TestServe(t *testing.T) {
	api := &reviewer{}
	server := httptest.NewServer(api)
	defer server.Close()
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its own certificate
	for _, open := range []bool{false, true} {
		address := fmt.Sprint("127.0.0.1:", root.Port(t))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(ctx, &rest.Config{Host: server.URL}, Options{Address: address, Open: open}, logr.Discard())
		}()
		url := "https://" + address + "/metrics"
		if open {
			url = "http://" + address + "/metrics"
		}
		get := func(token string) (int, string) {
			r, _ := http.NewRequest(http.MethodGet, url, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				resp, err := insecure.Do(r)
				if err != nil {
					if time.Now().After(end) {
						t.Fatal(err)
					}
					continue
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				return resp.StatusCode, string(text)
			}
		}
		if status, text := get("monitor"); status != 200 || !strings.Contains(text, "# HELP") {
			t.Errorf("open %v: %d %.200s", open, status, text)
		}
		status, text := get("nobody")
		if want := map[bool]int{false: 401, true: 200}[open]; status != want || strings.Contains(text, "# HELP") != open {
			t.Errorf("open %v: somebody without a right gets %d %.200s", open, status, text)
		}
		insecure.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Address: "0"}, ""},
		{Options{Address: ":8443"}, ""},
		{Options{Address: "[::1]:8443", Open: true}, ""},
		{Options{Address: "8443"}, "want HOST:PORT"},
		{Options{Address: ":1", Open: true, CertDir: dir}, "--metrics-open serves plain HTTP; leave out --metrics-cert-dir"},
		{Options{Address: ":1", CertDir: dir}, "tls.crt"},
	} {
		if err := c.o.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}
