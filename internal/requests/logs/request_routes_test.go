package logs

import (
	"fmt"
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	given, err := ParseRoutes([]string{"/hosts/:id", "/hosts/:id/facts", "/static/*", "/dir/", "/"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/hosts/17": "/hosts/:id", "/hosts/17/facts": "/hosts/:id/facts", "/hosts/": "/hosts/", "/hosts": "/hosts", "/hosts/17/": "/hosts/17/",
		"/static/a/b/c.css": "/static/*", "/static": "/static", "/static/": "/static/*", "/dir/": "/dir/", "/": "/", "*": "*", "": "",
	} {
		if got := string(given.of([]byte(path))); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	for text, want := range map[string]string{"hosts": "begins with /", "/a/*/b": "as the last segment", "/a//b": "without a name", "/:": "without a name"} {
		if _, err := ParseRoutes([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLearnedRoutes(t *testing.T) {
	var paths [][]byte
	for i := range 200 {
		for _, p := range []string{"/api/hosts/%d/facts", "/api/hosts/%d", "/puppet/v3/catalog/host%d.example.com", "/api/v2/ping", "/static/site%d.css"} {
			if strings.Contains(p, "%") {
				p = fmt.Sprintf(p, i)
			}
			if i < 20 || !strings.Contains(p, "static") {
				paths = append(paths, []byte(p))
			}
		}
	}
	var rs Routes
	rs.Learn(paths)
	r := router{routes: &rs}
	for range 2 { // the second time from its memory
		for path, want := range map[string]string{
			"/api/hosts/999/facts": "/api/hosts/:x/facts", "/api/hosts/999": "/api/hosts/:x", "/api/v2/ping": "/api/v2/ping",
			"/puppet/v3/catalog/other.example.com": "/puppet/v3/catalog/:x", "/static/site7.css": "/static/site7.css", "/new/12/x": "/new/:x/x", "-": "-",
			"/o/3fa85f64-5717-4562-b3fc-2c963f66afa6": "/o/:x", "/o/deadbeef": "/o/deadbeef", "/o/0123456789abcdef": "/o/:x",
		} {
			if got := string(r.of([]byte(path))); got != want {
				t.Errorf("%q: %q, want %q", path, got, want)
			}
		}
	}
}
